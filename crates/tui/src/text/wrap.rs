//! Wraps lines to a width in terminal columns.
//!
//! No result is ever wider than the width. Remaining control characters are dropped; a tab takes
//! four columns, unless [`spans`] has expanded it before.

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::line_filler::{LineFiller, StyledGrapheme};

/// Wraps text of a single style at any character.
pub(crate) fn wrap_plain(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    text.split('\n')
        .flat_map(|line| wrap_line(&Line::from(Span::styled(line, style)), width, ""))
        .collect()
}

/// Wraps text of a single style between words.
pub(crate) fn wrap_prose(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    text.split('\n')
        .flat_map(|line| wrap_words(&Line::from(Span::styled(line, style)), width, ""))
        .collect()
}

/// Wraps a styled line at any character; lines after the first begin with `indent`.
pub(crate) fn wrap_line(line: &Line<'_>, width: u16, indent: &str) -> Vec<Line<'static>> {
    let mut filler = LineFiller::new(line.style, width, indent);
    for span in &line.spans {
        for (text, columns) in graphemes(&span.content) {
            filler.put_wrapped(text, columns, span.style);
        }
    }
    filler.finish()
}

/// Wraps a styled line between words; a word that is wider than a line is cut.
pub(crate) fn wrap_words(line: &Line<'_>, width: u16, indent: &str) -> Vec<Line<'static>> {
    let graphemes: Vec<StyledGrapheme<'_>> = line
        .spans
        .iter()
        .flat_map(|span| {
            graphemes(&span.content).map(|(text, columns)| StyledGrapheme {
                text,
                columns,
                style: span.style,
            })
        })
        .collect();
    let mut filler = LineFiller::new(line.style, width, indent);
    let mut rest = graphemes.as_slice();
    let mut space: &[StyledGrapheme<'_>] = &[];
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_end(rest));
        if !word.is_empty() {
            filler.put_word(space, word);
        }
        let end = after
            .iter()
            .take_while(|grapheme| grapheme.is_space())
            .count();
        (space, rest) = after.split_at(end);
    }
    filler.finish()
}

/// Cuts a text to a width, with `…` at the cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let mut fitting = String::with_capacity(text.len().min(width * 4));
    let mut used = 0;
    // Where to cut if not all of it fits.
    let mut cut = 0;
    for (grapheme, columns) in graphemes(text) {
        if used + columns > width {
            fitting.truncate(cut);
            if width > 0 {
                fitting.push('…');
            }
            return fitting;
        }
        fitting.push_str(grapheme);
        used += columns;
        if used < width {
            cut = fitting.len();
        }
    }
    fitting
}

/// The width of a text in columns.
pub(crate) fn columns(text: &str) -> usize {
    graphemes(text).map(|(_, columns)| columns).sum()
}

/// The parts of one line as spans. Tabs become spaces up to the next multiple of `stop` columns,
/// counted from the beginning of the line.
pub(super) fn spans<'a>(
    parts: impl IntoIterator<Item = (&'a str, Style)>,
    stop: usize,
) -> Vec<Span<'static>> {
    let mut used = 0;
    parts
        .into_iter()
        .map(|(text, style)| Span::styled(expand_tabs(text, stop, &mut used), style))
        .collect()
}

fn expand_tabs(text: &str, stop: usize, used: &mut usize) -> String {
    let mut expanded = String::with_capacity(text.len());
    for (position, part) in text.split('\t').enumerate() {
        if position > 0 {
            let spaces = stop - *used % stop;
            expanded.extend(std::iter::repeat_n(' ', spaces));
            *used += spaces;
        }
        expanded.push_str(part);
        *used += columns(part);
    }
    expanded
}

/// The graphemes of a text with their widths.
pub(super) fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (grapheme, after) = split_grapheme(rest)?;
            rest = after;
            match grapheme {
                "\t" => return Some(("    ", 4)),
                "\n" => return Some((" ", 1)),
                grapheme if grapheme.len() == 1 && !grapheme.as_bytes()[0].is_ascii_control() => {
                    return Some((grapheme, 1));
                }
                grapheme if grapheme.contains(char::is_control) => {}
                grapheme => return Some((grapheme, usize::from(grapheme.cell_width()))),
            }
        }
    })
}

fn split_grapheme(text: &str) -> Option<(&str, &str)> {
    match text.as_bytes() {
        [] => None,
        // Two ASCII characters never form one grapheme.
        [first] if first.is_ascii() => Some(text.split_at(1)),
        [first, second, ..] if first.is_ascii() && second.is_ascii() => Some(text.split_at(1)),
        _ => {
            let grapheme = text.graphemes(true).next()?;
            Some(text.split_at(grapheme.len()))
        }
    }
}

/// Number of graphemes up to the next possible line break.
fn word_end(graphemes: &[StyledGrapheme<'_>]) -> usize {
    graphemes
        .iter()
        .enumerate()
        .find(|(index, grapheme)| {
            grapheme.is_space()
                || (*index > 0
                    && !grapheme.closes()
                    && (grapheme.is_breakable() || graphemes[index - 1].is_breakable()))
        })
        .map_or(graphemes.len(), |(index, _)| index)
}
