//! Lays out sections as lines. Pure; the results are cached by [`super::layout_cache`].

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::amount;
use super::call::{CallEntry, CallEntryState};
use super::entry::{NoteTone, ThinkingEntry, TranscriptEntry};
use super::input::{Input, Progress};
use super::piece::{first_lines, last_lines, piece};
use super::section::{SectionContent, TextExtent, TextForm, rest_text};
use super::summary::one_line;
use crate::amount::{count, some};
use crate::text::{code_lines, columns, diff_lines, fit, output_lines, wrap_prose};
use crate::theme::Theme;

/// Shorter durations in milliseconds are not shown.
const MIN_SHOWN_MILLIS: u64 = 100;

/// The lines of a section, except for markdown, which is laid out incrementally.
pub(super) fn lay_out_section(
    entry: &TranscriptEntry,
    content: &SectionContent<'_>,
    number: usize,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    match content {
        SectionContent::Head => vec![head_line(entry, width, theme)],
        SectionContent::Markdown(_) => Vec::new(),
        SectionContent::Remark(text) => {
            let text = fit(&one_line(text), usize::from(width));
            vec![Line::styled(text, theme.dim)]
        }
        SectionContent::Rest { text, shown } => {
            let text = fit(&rest_text(text, *shown), usize::from(width));
            vec![Line::styled(text, theme.dim)]
        }
        SectionContent::Text {
            text,
            form: TextForm::Plan,
            ..
        } => match entry {
            TranscriptEntry::Call(call) => plan_lines(call, text, width, theme),
            _ => Vec::new(),
        },
        SectionContent::Text { text, form, extent } => match extent {
            TextExtent::All => body_lines(&text[piece(text, number)], *form, width, theme),
            TextExtent::First(lines) => {
                let mut wrapped = body_lines(first_lines(text, *lines), *form, width, theme);
                // Wrapping may at most double the number of lines.
                wrapped.truncate(2 * lines);
                wrapped
            }
            TextExtent::Last(lines) => {
                let mut wrapped = body_lines(last_lines(text, *lines), *form, width, theme);
                wrapped.split_off(wrapped.len().saturating_sub(*lines))
            }
        },
    }
}

fn body_lines(text: &str, form: TextForm<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let prose = |style| {
        // A final line end does not start another line.
        let text = text.strip_suffix('\n').unwrap_or(text);
        wrap_prose(text, width, style)
    };
    match form {
        TextForm::Person => prose(theme.person),
        TextForm::Note(tone) => prose(tone_style(tone, theme)),
        TextForm::Thinking => prose(theme.dim),
        TextForm::Output => output_lines(text, width, theme.dim, theme),
        TextForm::Error => output_lines(text, width, theme.bad, theme),
        TextForm::Code(language) => code_lines(text, language, width, theme),
        TextForm::Diff => diff_lines(text, width, theme),
        TextForm::Plan => Vec::new(),
    }
}

/// The sign before the first line of an entry.
pub(super) fn entry_sign(entry: &TranscriptEntry, is_open: bool, theme: &Theme) -> Span<'static> {
    let opening = if is_open { "▾" } else { "▸" };
    let (sign, style) = match entry {
        TranscriptEntry::Prompt { .. } => (">", theme.person),
        TranscriptEntry::Reply { .. } | TranscriptEntry::Gone => (" ", theme.text),
        TranscriptEntry::Thinking(thinking) if !thinking.is_over => ("·", theme.dim),
        TranscriptEntry::Thinking(_)
        | TranscriptEntry::Folded { .. }
        | TranscriptEntry::Undone { .. } => (opening, theme.dim),
        TranscriptEntry::Call(call) => match call.state {
            CallEntryState::Written | CallEntryState::Waiting => ("○", theme.dim),
            CallEntryState::Running => ("●", theme.accent),
            CallEntryState::Ended {
                is_error: false, ..
            } => ("✓", theme.good),
            CallEntryState::Ended { is_error: true, .. } | CallEntryState::CutOff => {
                ("✗", theme.bad)
            }
        },
        TranscriptEntry::Note { tone, .. } => {
            let sign = match tone {
                NoteTone::Plain => "·",
                NoteTone::Good => "✓",
                NoteTone::Warning => "!",
                NoteTone::Error => "✗",
            };
            (sign, tone_style(*tone, theme))
        }
    };
    Span::styled(sign, style)
}

fn tone_style(tone: NoteTone, theme: &Theme) -> Style {
    match tone {
        NoteTone::Plain => theme.dim,
        NoteTone::Good => theme.good,
        NoteTone::Warning => theme.warn,
        NoteTone::Error => theme.bad,
    }
}

/// The title line of an entry.
fn head_line(entry: &TranscriptEntry, width: u16, theme: &Theme) -> Line<'static> {
    let title = match entry {
        TranscriptEntry::Call(call) => return call_head(call, width, theme),
        TranscriptEntry::Thinking(thinking) => thinking_title(thinking),
        TranscriptEntry::Folded { title, .. } | TranscriptEntry::Undone { title, .. } => {
            title.clone()
        }
        _ => String::new(),
    };
    Line::styled(fit(&title, usize::from(width)), theme.dim)
}

fn thinking_title(thinking: &ThinkingEntry) -> String {
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
fn call_head(call: &CallEntry, width: u16, theme: &Theme) -> Line<'static> {
    let mut facts: Vec<(String, Style)> = Vec::new();
    let (added, removed) = call.tally;
    if added > 0 {
        facts.push((format!("+{}", count(added as u64)), theme.added));
    }
    if removed > 0 {
        facts.push((format!("−{}", count(removed as u64)), theme.removed));
    }
    match (&call.input, call.state) {
        (Input::Part { bytes, .. }, CallEntryState::Written) if *bytes >= 1000 => {
            facts.push((format!("{} …", amount::size(*bytes as u64)), theme.dim));
        }
        (_, CallEntryState::Written) => facts.push(("…".to_owned(), theme.dim)),
        (_, CallEntryState::Ended { millis, .. }) if millis >= MIN_SHOWN_MILLIS => {
            facts.push((amount::duration_text(millis), theme.dim));
        }
        _ => {}
    }
    if let Some(ending) = call.ending() {
        let is_bad = call.has_failed() || call.state == CallEntryState::CutOff;
        facts.push((ending, if is_bad { theme.bad } else { theme.dim }));
    }
    let width = usize::from(width);
    // Drop facts from the front: the last one says how the call ended.
    let needed = call.line.chars().count().min(width / 3);
    let total_width = |facts: &[(String, Style)]| -> usize {
        facts.iter().map(|(fact, _)| columns(fact) + 3).sum()
    };
    while !facts.is_empty() && needed + total_width(&facts) > width {
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
    let summary = fit(&call.line, width.saturating_sub(used));
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

fn plan_lines(call: &CallEntry, titles: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
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
        for (index, line) in wrap_prose(title, room, style).into_iter().enumerate() {
            let sign = if index == 0 { sign } else { "  " };
            let mut spans = vec![Span::styled(sign, style)];
            spans.extend(line.spans);
            lines.push(Line::from(spans));
        }
    }
    lines
}
