//! What a model can do: tools, one file each, that work in a sandbox and nowhere else.
//!
//! A tool says what it is ([`Tool::definition`]), gets its input as JSON, checks it, and answers
//! with what the model is to read. It knows neither the session nor the model that calls it.
//! Entry points: [`ToolSet::standard`], [`Tool`].

mod tool;

pub use tool::{Access, Context, Outputs, Tool, ToolError, ToolOutput, ToolSet};
