//! What a model can do: tools, one file each, that work in a sandbox and nowhere else.
//!
//! A tool says what it is ([`Tool::definition`]), gets its input as JSON, checks it, and answers
//! with what the model is to read. It knows neither the session nor the model that calls it.
//! Whatever a sandbox holds, no result and no memory of this side is larger than its bounds.
//! Entry points: [`ToolSet::standard`], [`Tool`], [`Typed`] for a new one.

mod arguments;
mod bash;
mod bash_job;
pub mod bounded;
mod clean;
mod content;
mod diff;
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
mod shown;
mod tool;
mod tree;
mod typed;
mod write_file;

pub use diff::difference;
pub use ending::describe_ending;
pub use set::ToolSet;
pub use tool::{Access, Context, Outputs, Tool, ToolError, ToolOutput};
pub use typed::{Typed, adapt};
