//! The tools of a model, one module each. They work only inside a sandbox.
//!
//! A tool describes itself ([`Tool::definition`]), receives its input as JSON, validates it
//! ([`Tool::prepare`]), and returns text or images for the model ([`PreparedCall::run`]). It does not know the session or the model that calls it.
//! Results and host memory are bounded, whatever the sandbox contains. Entry points:
//! [`ToolSet::standard`], [`Tool`], [`TypedTool`] to add a tool.

mod arguments;
mod bash;
mod bash_job;
pub mod bounded;
mod clean;
mod content;
mod diff;
mod display;
mod edit_file;
mod edits;
mod ending;
mod list_files;
mod nearest;
mod page;
mod plan;
mod read_file;
mod schema;
mod search_files;
mod set;
mod shells;
mod tool;
mod tree;
mod typed;
mod write_file;

pub use diff::file_diff;
pub use ending::describe_background_exit;
pub use set::ToolSet;
pub use tool::{OutputStore, PreparedCall, Tool, ToolAccess, ToolContext, ToolError, ToolOutput};
pub use typed::{TypedTool, adapt};
