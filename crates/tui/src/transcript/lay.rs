//! Lays out sections as lines. Pure; the results are cached by `shelf`.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::amount;
use super::call::{Call, CallState};
use super::entry::{Entry, Thinking, Tone};
use super::input::{Input, Progress};
use super::piece::{first_lines, last_lines, piece};
use super::section::{Content, Extent, Form, rest_of};
use super::summary::one_line;
use crate::amount::{count, some};
use crate::text::{code_lines, columns, diff_lines, fit, output_lines, wrap_prose};
use crate::theme::Theme;

/// Shorter durations in milliseconds are not shown.
const AT_ONCE: u64 = 100;

/// The lines of a section, except for markdown, which is laid out incrementally.
pub(super) fn lay(
    entry: &Entry,
    content: &Content<'_>,
    number: usize,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    match content {
        Content::Head => vec![head(entry, width, theme)],
        Content::Words(_) => Vec::new(),
        Content::Remark(text) => {
            let text = fit(&one_line(text), usize::from(width));
            vec![Line::styled(text, theme.dim)]
        }
        Content::Rest { text, shown } => {
            let text = fit(&rest_of(text, *shown), usize::from(width));
            vec![Line::styled(text, theme.dim)]
        }
        Content::Text {
            text,
            form: Form::Plan,
            ..
        } => match entry {
            Entry::Call(call) => plan(call, text, width, theme),
            _ => Vec::new(),
        },
        Content::Text { text, form, extent } => match extent {
            Extent::All => body(&text[piece(text, number)], *form, width, theme),
            Extent::First(lines) => {
                let mut laid = body(first_lines(text, *lines), *form, width, theme);
                // Wrapping may at most double the number of lines.
                laid.truncate(2 * lines);
                laid
            }
            Extent::Last(lines) => {
                let mut laid = body(last_lines(text, *lines), *form, width, theme);
                laid.split_off(laid.len().saturating_sub(*lines))
            }
        },
    }
}

fn body(text: &str, form: Form<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let prose = |style| {
        // A final line end does not start another line.
        let text = text.strip_suffix('\n').unwrap_or(text);
        wrap_prose(text, width, style)
    };
    match form {
        Form::Person => prose(theme.person),
        Form::Note(tone) => prose(tone_style(tone, theme)),
        Form::Thinking => prose(theme.dim),
        Form::Output => output_lines(text, width, theme.dim, theme),
        Form::Error => output_lines(text, width, theme.bad, theme),
        Form::Code(language) => code_lines(text, language, width, theme),
        Form::Diff => diff_lines(text, width, theme),
        Form::Plan => Vec::new(),
    }
}

/// The sign before the first line of an entry.
pub(super) fn mark(entry: &Entry, is_open: bool, theme: &Theme) -> Span<'static> {
    let opening = if is_open { "▾" } else { "▸" };
    let (sign, style) = match entry {
        Entry::Prompt { .. } => (">", theme.person),
        Entry::Words { .. } | Entry::Gone => (" ", theme.text),
        Entry::Thinking(thinking) if !thinking.is_over => ("·", theme.dim),
        Entry::Thinking(_) | Entry::Folded { .. } | Entry::Undone { .. } => (opening, theme.dim),
        Entry::Call(call) => match call.state {
            CallState::Written | CallState::Waiting => ("○", theme.dim),
            CallState::Running => ("●", theme.accent),
            CallState::Ended {
                is_error: false, ..
            } => ("✓", theme.good),
            CallState::Ended { is_error: true, .. } | CallState::CutOff => ("✗", theme.bad),
        },
        Entry::Note { tone, .. } => {
            let sign = match tone {
                Tone::Plain => "·",
                Tone::Good => "✓",
                Tone::Warning => "!",
                Tone::Error => "✗",
            };
            (sign, tone_style(*tone, theme))
        }
    };
    Span::styled(sign, style)
}

fn tone_style(tone: Tone, theme: &Theme) -> Style {
    match tone {
        Tone::Plain => theme.dim,
        Tone::Good => theme.good,
        Tone::Warning => theme.warn,
        Tone::Error => theme.bad,
    }
}

/// The title line of an entry.
fn head(entry: &Entry, width: u16, theme: &Theme) -> Line<'static> {
    let title = match entry {
        Entry::Call(call) => return call_head(call, width, theme),
        Entry::Thinking(thinking) => thinking_title(thinking),
        Entry::Folded { title, .. } | Entry::Undone { title, .. } => title.clone(),
        _ => String::new(),
    };
    Line::styled(fit(&title, usize::from(width)), theme.dim)
}

fn thinking_title(thinking: &Thinking) -> String {
    if !thinking.is_over {
        return "thinking".to_owned();
    }
    let mut title = "thought".to_owned();
    if let Some(millis) = thinking.millis.filter(|millis| *millis >= 1000) {
        title.push_str(&format!(" for {} s", millis / 1000));
    }
    match thinking.text.split_whitespace().count() {
        0 => title.push_str(" · sealed by the provider"),
        words => title.push_str(&format!(" · {}", some(words as u64, "word", "words"))),
    }
    title
}

/// The summary of a call, then facts about its result. The result is cut last.
fn call_head(call: &Call, width: u16, theme: &Theme) -> Line<'static> {
    let mut facts: Vec<(String, Style)> = Vec::new();
    let (added, removed) = call.tally;
    if added > 0 {
        facts.push((format!("+{}", count(added as u64)), theme.added));
    }
    if removed > 0 {
        facts.push((format!("−{}", count(removed as u64)), theme.removed));
    }
    match (&call.input, call.state) {
        (Input::Part { bytes, .. }, CallState::Written) if *bytes >= 1000 => {
            facts.push((format!("{} …", amount::size(*bytes as u64)), theme.dim));
        }
        (_, CallState::Written) => facts.push(("…".to_owned(), theme.dim)),
        (_, CallState::Ended { millis, .. }) if millis >= AT_ONCE => {
            facts.push((amount::time(millis), theme.dim));
        }
        _ => {}
    }
    if let Some(ending) = call.ending() {
        let is_bad = call.is_failed() || call.state == CallState::CutOff;
        facts.push((ending, if is_bad { theme.bad } else { theme.dim }));
    }
    let width = usize::from(width);
    // Drop facts from the front: the last one says how the call ended.
    let needed = call.summary.chars().count().min(width / 3);
    let wide = |facts: &[(String, Style)]| -> usize {
        facts.iter().map(|(fact, _)| columns(fact) + 3).sum()
    };
    while !facts.is_empty() && needed + wide(&facts) > width {
        facts.remove(0);
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (fact, style) in facts {
        let is_close = fact == "…" || fact.starts_with('−') && !spans.is_empty();
        let link = if is_close { " " } else { " · " };
        spans.push(Span::styled(link, theme.dim));
        spans.push(Span::styled(fact, style));
    }
    let used: usize = spans.iter().map(|span| columns(&span.content)).sum();
    let summary = fit(&call.summary, width.saturating_sub(used));
    let (verb, rest) = match summary.split_once(' ') {
        Some((verb, rest)) => (verb.to_owned(), format!(" {rest}")),
        None => (summary, String::new()),
    };
    let mut line = vec![
        Span::styled(verb, theme.strong),
        Span::styled(rest, theme.text),
    ];
    line.append(&mut spans);
    Line::from(line)
}

fn plan(call: &Call, titles: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let Input::Plan(steps) = &call.input else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (step, title) in steps.iter().zip(titles.split('\n')) {
        let (sign, style) = match step.progress {
            Progress::Pending => ("○ ", theme.text),
            Progress::Active => ("● ", theme.strong),
            Progress::Done => ("✓ ", theme.dim),
        };
        let room = width.saturating_sub(2);
        for (place, line) in wrap_prose(title, room, style).into_iter().enumerate() {
            let sign = if place == 0 { sign } else { "  " };
            let mut spans = vec![Span::styled(sign, style)];
            spans.extend(line.spans);
            lines.push(Line::from(spans));
        }
    }
    lines
}
