//! The agent: a conversation between a person, a model and the tools of one sandbox.
