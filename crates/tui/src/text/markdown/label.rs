//! Label and indent of code blocks.

use ratatui::text::{Line, Span};

use super::super::{clean, fit};
use super::nesting::MIN_TEXT_COLUMNS;
use crate::theme::Theme;

/// Indent of code in columns.
const CODE_INDENT: u16 = 2;

/// A line that names the language of the code.
pub(super) fn label(language: &str, width: u16, theme: &Theme) -> Option<Line<'static>> {
    let cleaned = clean(language);
    let name = cleaned.split([' ', ',', '{', '\n', '\t']).next()?;
    let shown = fit(name, usize::from(width));
    (!shown.is_empty()).then(|| Line::styled(shown, theme.dim))
}

/// The indent of code; none where there is hardly room for the code itself.
pub(super) fn code_indent(width: u16) -> u16 {
    if usize::from(width) < MIN_TEXT_COLUMNS {
        0
    } else {
        CODE_INDENT
    }
}

pub(super) fn indented(mut line: Line<'static>, columns: u16) -> Line<'static> {
    let is_empty = line.spans.iter().all(|span| span.content.is_empty());
    if columns > 0 && !is_empty {
        line.spans
            .insert(0, Span::raw(" ".repeat(usize::from(columns))));
    }
    line
}
