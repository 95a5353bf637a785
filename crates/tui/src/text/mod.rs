//! Text from elsewhere becomes lines that are safe to draw. Pure.
//!
//! Everything that a model or a sandbox wrote passes through here; nothing that a terminal would
//! obey comes out.

mod clean;
mod code;
mod diff;
mod markdown;
mod output;
mod wrap;

pub use clean::clean;
pub(crate) use diff::diff_lines;
pub(crate) use markdown::Markdown;
pub(crate) use output::output_lines;
pub(crate) use wrap::{fit, wrap_line, wrap_plain};
