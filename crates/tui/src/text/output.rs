//! What commands print: colours are kept as styles, everything else that a terminal would obey
//! is taken out.

use ratatui::style::Style;
use ratatui::text::Line;

use super::{clean, wrap_plain};
use crate::theme::Theme;

/// The lines of some output, wrapped to a width.
pub(crate) fn output_lines(
    text: &str,
    width: u16,
    base: Style,
    _theme: &Theme,
) -> Vec<Line<'static>> {
    clean(text)
        .lines()
        .flat_map(|line| wrap_plain(line, width, base))
        .collect()
}
