//! Turns untrusted text into lines that are safe to draw. Pure.
//!
//! All text from a model or a sandbox passes through here; no control sequence gets through.

mod change;
mod clean;
mod code;
mod colours;
mod diff;
mod escape;
mod filler;
mod highlighter;
mod markdown;
mod output;
mod paint;
mod painted;
mod palette;
mod sieve;
#[cfg(test)]
mod tests;
mod wrap;

pub use clean::clean;
pub(crate) use clean::reveal;
pub(crate) use code::code_lines;
pub(crate) use colours::{Colours, colours};
pub(crate) use diff::diff_lines;
pub(crate) use markdown::Markdown;
pub(crate) use output::output_lines;
pub(crate) use wrap::{columns, fit, wrap_line, wrap_plain, wrap_prose, wrap_words};
