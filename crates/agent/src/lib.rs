//! The agent: a conversation between a user, a model and the tools of one sandbox.
//!
//! [`step`] decides without acting; [`session`] acts on its decisions. Every event is written to the
//! store before its consequences are carried out, so a session can be resumed from any point where
//! it was cut off. Prints nothing, reads no settings. Entry points: [`run`] with a [`SessionSetup`],
//! [`replay()`], and the pure [`Conversation`].

mod approval;
mod approval_audit;
mod approval_broker;
mod background;
mod baseline;
mod budget;
mod checkpoint;
mod compaction;
mod conversation;
mod differences;
mod error;
mod event_log;
mod listener;
mod live_output;
mod model_request;
mod models;
mod outputs;
mod pattern;
mod permission;
mod project_instructions;
mod prompt;
mod redo;
mod repetition;
mod replay;
mod run_calls;
mod sandbox_access;
mod session;
mod session_checkpoints;
mod session_model;
mod session_sandbox;
mod step;
mod stopper;
mod tool_runner;
mod turn;
mod typed_input;
mod undo;
mod workspace_query;

pub use approval::Approvals;
pub use budget::spent;
pub use conversation::Conversation;
pub use error::AgentError;
pub use models::{ChosenModel, ModelCatalog, NoModels, UsagePricing};
pub use replay::{ReplayDifference, ReplayedCall, replay};
pub use session::{SessionSetup, run};
