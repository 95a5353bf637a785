//! The help: all keys and commands, made from the tables that the UI itself uses.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::content::ViewerLines;
use crate::app::{KEY_BINDINGS, KeyContext};
use crate::command::SLASH_COMMANDS;
use crate::text::wrap_words;
use crate::theme::Theme;

/// Minimum width for keys and commands side by side.
const MIN_WIDTH_FOR_TWO_COLUMNS: u16 = 120;

/// Keys that are not in the table of bindings: each part handles its own.
const QUESTION_KEYS: [(&str, &str); 5] = [
    ("y", "allow it once"),
    ("s", "allow it for this session"),
    ("a", "allow it always, as a rule"),
    ("n", "no"),
    ("d", "never, as a rule"),
];
const VIEWER_KEYS: [(&str, &str); 6] = [
    ("↑, ↓, page up, page down", "scroll"),
    ("tab, shift-tab", "next or previous file"),
    ("/", "look for words"),
    ("n, N", "next or previous place"),
    ("y", "copy all of it"),
    ("esc, q", "close"),
];
const PICKER_KEYS: [(&str, &str); 4] = [
    ("letters", "look for words"),
    ("↑, ↓, page up, page down", "choose"),
    ("enter", "take it"),
    ("esc", "close"),
];

pub(super) fn lay_out(width: u16, theme: &Theme) -> ViewerLines {
    if width >= MIN_WIDTH_FOR_TWO_COLUMNS {
        lay_out_two_columns(width, theme)
    } else {
        let mut layout = commands(width, theme);
        layout.lines.push(Line::default());
        let keys = keys(width, theme);
        let above = layout.lines.len();
        layout
            .parts
            .extend(keys.parts.iter().map(|part| part + above));
        layout.lines.extend(keys.lines);
        layout
    }
}

/// Keys at the left, commands at the right.
fn lay_out_two_columns(width: u16, theme: &Theme) -> ViewerLines {
    let half = (width - 4) / 2;
    let mut layout = keys(half, theme);
    let right = commands(half, theme).lines;
    let height = layout.lines.len().max(right.len());
    layout.lines.resize(height, Line::default());
    for (line, beside) in layout.lines.iter_mut().zip(right) {
        let gap = usize::from(half + 4).saturating_sub(line.width());
        line.spans.push(Span::raw(" ".repeat(gap)));
        line.spans.extend(beside.spans);
    }
    layout
}

fn commands(width: u16, theme: &Theme) -> ViewerLines {
    let rows: Vec<(String, &str)> = SLASH_COMMANDS
        .iter()
        .map(|slash| {
            let name = format!("/{} {}", slash.name, slash.argument);
            (name.trim_end().to_owned(), slash.about)
        })
        .collect();
    sections(&[("commands", "", rows)], width, theme)
}

fn keys(width: u16, theme: &Theme) -> ViewerLines {
    let bound = |context: KeyContext| -> Vec<(String, &'static str)> {
        KEY_BINDINGS
            .iter()
            .filter(|binding| binding.context == context && !binding.about.is_empty())
            .map(|binding| (binding.keys(), binding.about))
            .collect()
    };
    let fixed = |rows: &[(&str, &'static str)]| -> Vec<(String, &'static str)> {
        rows.iter()
            .map(|(keys, about)| ((*keys).to_owned(), *about))
            .collect()
    };
    let sections_of_keys = [
        ("writing", "", bound(KeyContext::Editor)),
        ("at any time", "", bound(KeyContext::Anywhere)),
        (
            "while something can be completed",
            "",
            bound(KeyContext::Completion),
        ),
        ("on the page, after tab", "", bound(KeyContext::Browse)),
        ("while looking for words", "", bound(KeyContext::Search)),
        (
            "while looking for something said before",
            "",
            bound(KeyContext::HistorySearch),
        ),
        (
            "when a question is asked",
            "keys count once you have paused; while a message is being written, with alt",
            fixed(&QUESTION_KEYS),
        ),
        ("in a list", "", fixed(&PICKER_KEYS)),
        ("in a text", "", fixed(&VIEWER_KEYS)),
    ];
    sections(&sections_of_keys, width, theme)
}

type HelpSection<'a> = (&'a str, &'a str, Vec<(String, &'a str)>);

fn sections(sections: &[HelpSection<'_>], width: u16, theme: &Theme) -> ViewerLines {
    let mut layout = ViewerLines::default();
    let rows = sections.iter().flat_map(|section| &section.2);
    let longest = rows.map(|(keys, _)| keys.width()).max().unwrap_or(0);
    let column = longest.min(usize::from(width) / 2);
    for (title, note, rows) in sections {
        if !layout.lines.is_empty() {
            layout.lines.push(Line::default());
        }
        layout.parts.push(layout.lines.len());
        layout
            .lines
            .push(Line::styled((*title).to_owned(), theme.heading));
        if !note.is_empty() {
            let note = Line::styled(format!("  {note}"), theme.dim);
            layout.lines.extend(wrap_words(&note, width, "  "));
        }
        for (keys, about) in rows {
            let gap = " ".repeat(column.saturating_sub(keys.width()) + 2);
            let line = Line::from(vec![
                Span::raw("  "),
                Span::styled(keys.clone(), theme.strong),
                Span::raw(gap),
                Span::styled((*about).to_owned(), theme.text),
            ]);
            layout
                .lines
                .extend(wrap_words(&line, width, &" ".repeat(column + 4)));
        }
    }
    layout
}
