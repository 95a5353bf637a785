//! Turns untrusted text into lines that are safe to draw. Pure.
//!
//! All text from a model or a sandbox passes through here; no control sequence gets through.

mod char_filter;
mod clean;
mod code;
mod coloured_code;
mod diff;
mod escape;
mod highlighter;
mod line_filler;
mod markdown;
mod output;
mod palette;
mod query;
mod sgr;
mod syntax_colours;
#[cfg(test)]
mod tests;
mod word_diff;
mod wrap;

pub use clean::clean;
pub(crate) use clean::reveal;
pub(crate) use code::code_lines;
pub(crate) use diff::diff_lines;
pub(crate) use markdown::Markdown;
pub(crate) use output::output_lines;
pub(crate) use query::query_regex;
pub(crate) use syntax_colours::{SyntaxColours, colours};
pub(crate) use wrap::{columns, fit, wrap_line, wrap_plain, wrap_prose, wrap_words};
