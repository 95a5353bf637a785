//! Completes the unfinished end of a text, so that the screen does not jump as the text grows: open
//! marks count as closed, and the head of a table as a table.
//!
//! Only for text that is still growing; the result is not stored.

use std::borrow::Cow;

use pulldown_cmark::{Event, Parser, Tag};

use super::structure::OPTIONS;

/// The text to show for now.
pub(super) fn stabilize(text: &str) -> Cow<'_, str> {
    let shown = without_marker_line(text);
    let Some(leaf) = last_inline_start(shown) else {
        return Cow::Borrowed(shown);
    };
    let (before, text) = shown.split_at(leaf);
    if let Some(table) = complete_table_head(text) {
        return Cow::Owned(format!("{before}{table}"));
    }
    match closed(text) {
        Cow::Borrowed(text) => Cow::Borrowed(&shown[..leaf + text.len()]),
        Cow::Owned(text) => Cow::Owned(format!("{before}{text}")),
    }
}

/// Drops an unfinished last line that consists of marks only: its meaning is still open.
fn without_marker_line(text: &str) -> &str {
    let start = text.rfind('\n').map_or(0, |end| end + 1);
    let is_marks = |character: char| {
        matches!(
            character,
            '-' | '=' | '*' | '_' | '`' | '~' | '+' | '#' | '|' | ':' | '>' | ' ' | '\t'
        )
    };
    if text[start..].chars().all(is_marks) {
        &text[..start]
    } else {
        text
    }
}

/// Where the last inline text begins, if the text ends in one.
fn last_inline_start(text: &str) -> Option<usize> {
    let mut last = None;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        if let Event::Start(tag) = event {
            match tag {
                Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell => {
                    last = Some(range.start);
                }
                Tag::CodeBlock(_) | Tag::HtmlBlock => last = None,
                _ => {}
            }
        }
    }
    last
}

/// Completes the head of a table with a delimiter row.
fn complete_table_head(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let head = lines.next()?.trim_end();
    let is_below = |line: &str| {
        line.chars()
            .all(|character| matches!(character, '|' | '-' | ':' | ' '))
    };
    let is_begun = head.starts_with('|')
        && head.matches('|').count() > 1
        && lines.next().is_none_or(is_below)
        && lines.next().is_none();
    let columns = head
        .trim_matches('|')
        .replace("\\|", "")
        .matches('|')
        .count()
        + 1;
    is_begun.then(|| format!("{head}\n|{}\n", "---|".repeat(columns)))
}

/// Closes open marks at the end, or drops marks without text after them.
fn closed(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_end();
    let mut open: Vec<&str> = Vec::new();
    let mut end = trimmed.len();
    let mut at = 0;
    while let Some(character) = trimmed[at..].chars().next() {
        let run = run_length(&trimmed[at..], character);
        let marks = &trimmed[at..at + run * character.len_utf8()];
        let after = at + marks.len();
        let is_last = after == trimmed.len();
        match character {
            '\\' => {
                at += 1 + trimmed[at + 1..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            '`' => match closing_run(&trimmed[after..], run) {
                Some(length) => {
                    at = after + length;
                    continue;
                }
                None if is_last => end = at,
                None => {
                    open.push(marks);
                    break;
                }
            },
            '*' | '_' | '~' => {
                let before = trimmed[..at].chars().next_back();
                let next = trimmed[after..].chars().next();
                let closes = before.is_some_and(|character| !character.is_whitespace());
                let opens = next.is_some_and(|character| !character.is_whitespace())
                    && run < 4
                    && !(character == '~' && run == 1)
                    && !(character == '_' && before.is_some_and(char::is_alphanumeric));
                match open.last() {
                    Some(last) if closes && *last == marks => {
                        open.pop();
                    }
                    Some(last) if is_last && last.starts_with(character) => end = at,
                    _ if opens => open.push(marks),
                    _ if is_last && before.is_none_or(char::is_whitespace) => end = at,
                    _ => {}
                }
            }
            _ => {}
        }
        at = after;
    }
    let shown = trimmed[..end].trim_end();
    let is_link_open = shown
        .rfind("](")
        .is_some_and(|link| !shown[link..].contains([')', ' ', '\n']));
    if open.is_empty() && !is_link_open {
        return Cow::Borrowed(if end < trimmed.len() { shown } else { text });
    }
    let mut closed = shown.to_owned();
    if is_link_open {
        closed.push(')');
    }
    closed.extend(open.iter().rev().copied());
    Cow::Owned(closed)
}

fn run_length(text: &str, character: char) -> usize {
    text.chars().take_while(|next| *next == character).count()
}

/// The distance to the end of the next run of exactly `length` backticks.
fn closing_run(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let run = run_length(&text[at + found..], '`');
        at += found + run;
        if run == length {
            return Some(at);
        }
    }
    None
}
