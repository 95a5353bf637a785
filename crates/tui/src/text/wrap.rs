//! Lines become lines that fit a width, counted in columns of the terminal.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Wraps one line of a single style at any letter.
pub(crate) fn wrap_plain(line: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    wrap_line(&Line::from(Span::styled(line.to_owned(), style)), width, "")
}

/// Wraps a styled line; lines after the first begin with `indent`.
pub(crate) fn wrap_line(line: &Line<'_>, width: u16, indent: &str) -> Vec<Line<'static>> {
    let width = usize::from(width.max(1));
    let mut lines = Vec::new();
    let mut current: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for span in &line.spans {
        let mut piece = String::new();
        for letter in span.content.graphemes(true) {
            let columns = letter.width();
            if used + columns > width && used > 0 {
                current.push(Span::styled(std::mem::take(&mut piece), span.style));
                lines.push(Line::from(std::mem::take(&mut current)));
                current.push(Span::raw(indent.to_owned()));
                used = indent.width();
            }
            piece.push_str(letter);
            used += columns;
        }
        current.push(Span::styled(piece, span.style));
    }
    lines.push(Line::from(current));
    lines
}

/// The beginning of a line, as much as fits, with `…` where it was cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut fitting = String::new();
    let mut used = 0;
    for letter in text.graphemes(true) {
        let columns = letter.width();
        if used + columns + 1 > width {
            break;
        }
        fitting.push_str(letter);
        used += columns;
    }
    if width > 0 {
        fitting.push('…');
    }
    fitting
}
