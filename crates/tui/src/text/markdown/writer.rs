//! Lays out one block, with all that is in it, line by line.
//!
//! What is inside of lists and quotes is as deep as its author likes, so depth is a list here and
//! not a recursion, and indents end where the room does. Entry point: [`write`].

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::wrap::{columns, wrap_line, wrap_words};
use super::inline::Inline;
use super::level::{Level, Within};
use super::memory::Memory;
use super::structure::OPTIONS;
use super::table::Table;
use crate::theme::Theme;

/// Columns that code is set in by.
pub(super) const CODE_INDENT: u16 = 2;
/// The room that an indent has to leave.
const LEAST_ROOM: usize = 10;
const LONGEST_RULE: usize = 80;

/// The lines of a block. `memory` has the code of its last layout.
pub(super) fn write(
    text: &str,
    width: u16,
    theme: &Theme,
    memory: &mut Memory,
) -> Vec<Line<'static>> {
    let events: Vec<Event<'_>> = Parser::new_ext(text, OPTIONS).collect();
    let items = count_items(&events);
    let mut writer = Writer {
        width: usize::from(width),
        theme,
        memory,
        lines: Vec::new(),
        levels: Vec::new(),
        inline: Inline::new(theme),
        table: None,
        verbatim: None,
    };
    writer.memory.begin();
    for (index, event) in events.iter().enumerate() {
        let next = events.get(index + 1);
        writer.event(event, next, items.get(&index).copied().unwrap_or(0));
    }
    writer.flush();
    writer.lines
}

/// How many items each list has, by the place of its beginning.
fn count_items(events: &[Event<'_>]) -> HashMap<usize, u64> {
    let mut open = Vec::new();
    let mut counts = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::List(_)) => {
                open.push(index);
                counts.insert(index, 0);
            }
            Event::End(TagEnd::List(_)) => {
                open.pop();
            }
            Event::Start(Tag::Item) => {
                if let Some(count) = open.last().and_then(|list| counts.get_mut(list)) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
    counts
}

struct Writer<'a> {
    width: usize,
    theme: &'a Theme,
    memory: &'a mut Memory,
    lines: Vec<Line<'static>>,
    levels: Vec<Level>,
    inline: Inline<'a>,
    table: Option<Table>,
    /// Code or HTML that is being collected; the language, if it is code.
    verbatim: Option<(Option<String>, String)>,
}

impl Writer<'_> {
    fn event(&mut self, event: &Event<'_>, next: Option<&Event<'_>>, items: u64) {
        match event {
            Event::Start(tag) => self.start(tag, next, items),
            Event::End(tag) => self.end(*tag),
            Event::Text(text) | Event::Html(text) if self.verbatim.is_some() => {
                if let Some((_, collected)) = &mut self.verbatim {
                    collected.push_str(text);
                }
            }
            Event::Rule => {
                self.begin_block();
                let rule = "─".repeat(self.room().min(LONGEST_RULE));
                self.emit(vec![Line::styled(rule, self.theme.border)]);
            }
            Event::TaskListMarker(is_done) => self.mark_task(*is_done),
            other => self.inline.event(other),
        }
    }

    fn start(&mut self, tag: &Tag<'_>, next: Option<&Event<'_>>, items: u64) {
        match tag {
            Tag::Paragraph => {
                if let Some(level) = self.levels.last_mut() {
                    level.is_loose = true;
                }
                self.begin_block();
            }
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.inline.push_style(heading(*level, self.theme));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = vec![Span::styled("│ ", self.theme.border)];
                self.push_level(Within::Quote, None, bar, 2);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.verbatim = Some((Some(language), String::new()));
            }
            Tag::HtmlBlock => {
                self.begin_block();
                self.verbatim = Some((None, String::new()));
            }
            Tag::List(first) => {
                self.begin_block();
                let last = first.map(|first| first.saturating_add(items.saturating_sub(1)));
                let digits = last.map_or(0, |last| last.to_string().len());
                let within = Within::List {
                    number: *first,
                    digits,
                };
                self.push_level(within, None, Vec::new(), 0);
            }
            Tag::Item => self.start_item(matches!(next, Some(Event::Start(Tag::Paragraph)))),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table {
                    alignments: alignments.clone(),
                    ..Table::default()
                });
            }
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            other => self.inline.event(&Event::Start(other.clone())),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.inline.pop_style();
                self.flush();
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) => {
                self.flush();
                self.pop_level();
            }
            TagEnd::Item => {
                self.flush();
                // One without words still has its mark.
                if self.levels.last().is_some_and(|level| level.first.is_some()) {
                    self.emit(vec![Line::default()]);
                }
                self.pop_level();
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.end_verbatim(),
            TagEnd::TableCell => {
                let cell = self.inline.take();
                if let Some(table) = &mut self.table {
                    table.rows.last_mut().unwrap_or(&mut table.head).push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.lines(narrow(self.room()), self.theme);
                    self.emit(lines);
                }
            }
            other => self.inline.event(&Event::End(other)),
        }
    }

    fn start_item(&mut self, has_paragraph: bool) {
        self.flush();
        let Some(list) = self.levels.last_mut() else {
            return;
        };
        if !list.is_fresh && (list.is_loose || has_paragraph) {
            self.gap();
        }
        let depth = self.levels.iter().filter(|level| level.is_list()).count();
        let marker = match self.levels.last_mut().map(|level| &mut level.within) {
            Some(Within::List {
                number: Some(number),
                digits,
            }) => {
                let marker = format!("{number:>digits$}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ if depth % 2 == 1 => "• ".to_owned(),
            _ => "- ".to_owned(),
        };
        let taken = columns(&marker);
        let marker = Span::styled(marker, self.theme.dim);
        let rest = vec![Span::raw(" ".repeat(taken))];
        self.push_level(Within::Item, Some(marker), rest, taken);
    }

    fn mark_task(&mut self, is_done: bool) {
        let (mark, style) = match is_done {
            true => ("✓ ", self.theme.good),
            false => ("○ ", self.theme.dim),
        };
        match self.levels.last_mut().and_then(|level| level.first.as_mut()) {
            Some(marker) if columns(&marker.content) == 2 => *marker = Span::styled(mark, style),
            _ => self.inline.event(&Event::Text(mark.into())),
        }
    }

    fn end_verbatim(&mut self) {
        let Some((language, text)) = self.verbatim.take() else {
            return;
        };
        let Some(language) = language else {
            let width = narrow(self.room());
            let lines = text
                .trim_end()
                .lines()
                .flat_map(|line| wrap_line(&Line::styled(line.to_owned(), self.theme.dim), width, ""))
                .collect();
            return self.emit(lines);
        };
        let room = narrow(self.room());
        let indent = code_indent(room);
        let mut lines: Vec<Line<'static>> = label(&language, room - indent, self.theme)
            .into_iter()
            .collect();
        lines.extend(self.memory.code(&language, &text, room - indent, self.theme));
        self.emit(lines.into_iter().map(|line| indented(line, indent)).collect());
    }

    /// Before anything that begins a line of its own.
    fn begin_block(&mut self) {
        self.flush();
        let is_apart = match self.levels.last() {
            None => !self.lines.is_empty(),
            Some(level) => !level.is_fresh && level.is_loose,
        };
        if is_apart {
            self.gap();
        }
    }

    /// Words that were collected become lines.
    fn flush(&mut self) {
        if self.inline.is_empty() {
            self.inline.take();
            return;
        }
        let width = narrow(self.room());
        let lines = self
            .inline
            .take()
            .into_iter()
            .flat_map(|spans| wrap_words(&Line::from(spans), width, ""))
            .collect();
        self.emit(lines);
    }

    fn emit(&mut self, lines: Vec<Line<'static>>) {
        for line in lines {
            let mut spans = Vec::with_capacity(line.spans.len() + self.levels.len());
            for level in &mut self.levels {
                level.is_fresh = false;
                match level.first.take() {
                    Some(first) => spans.push(first),
                    None => spans.extend(level.rest.iter().cloned()),
                }
            }
            spans.extend(line.spans.into_iter().map(|mut span| {
                span.style = line.style.patch(span.style);
                span
            }));
            self.lines.push(Line::from(spans));
        }
    }

    /// An empty line, which still shows that it is in a quote.
    fn gap(&mut self) {
        let quoted = self.levels.iter().rposition(|level| level.within == Within::Quote);
        let shown = quoted.map_or(&[][..], |last| &self.levels[..=last]);
        let mut spans: Vec<_> = shown.iter().flat_map(|level| level.rest.clone()).collect();
        if let Some(last) = spans.last_mut() {
            last.content = last.content.trim_end().to_owned().into();
        }
        self.lines.push(Line::from(spans));
    }

    fn room(&self) -> usize {
        let taken: usize = self.levels.iter().map(|level| level.columns).sum();
        self.width.saturating_sub(taken)
    }

    fn push_level(
        &mut self,
        within: Within,
        first: Option<Span<'static>>,
        rest: Vec<Span<'static>>,
        columns: usize,
    ) {
        let has_room = self.room() >= columns + LEAST_ROOM;
        let level = Level {
            is_loose: !matches!(within, Within::List { .. } | Within::Item),
            within,
            is_fresh: true,
            first: None,
            rest: Vec::new(),
            columns: 0,
        };
        self.levels.push(if has_room {
            Level {
                first,
                rest,
                columns,
                ..level
            }
        } else {
            // No room for an indent: the mark is part of the words.
            if let Some(first) = first {
                self.inline.event(&Event::Text(first.content.to_string().into()));
            }
            level
        });
    }

    fn pop_level(&mut self) {
        let Some(ended) = self.levels.pop() else {
            return;
        };
        if let Some(level) = self.levels.last_mut() {
            level.is_fresh &= ended.is_fresh;
            level.is_loose |= level.is_list() && ended.is_loose;
        }
    }
}

fn heading(level: HeadingLevel, theme: &Theme) -> Style {
    match level {
        HeadingLevel::H1 => theme.heading.add_modifier(Modifier::UNDERLINED),
        HeadingLevel::H2 => theme.heading,
        HeadingLevel::H3 => theme.strong,
        _ => theme.strong.patch(theme.emphasis),
    }
}

/// What language code is in, on a line of its own.
pub(super) fn label(language: &str, width: u16, theme: &Theme) -> Option<Line<'static>> {
    let cleaned = super::super::clean(language);
    let name = cleaned.split([' ', ',', '{', '\n', '\t']).next()?;
    let shown = super::super::fit(name, usize::from(width));
    (!shown.is_empty()).then(|| Line::styled(shown, theme.dim))
}

/// None, where there is hardly room for the code itself.
pub(super) fn code_indent(width: u16) -> u16 {
    if usize::from(width) < LEAST_ROOM { 0 } else { CODE_INDENT }
}

pub(super) fn indented(mut line: Line<'static>, columns: u16) -> Line<'static> {
    let is_empty = line.spans.iter().all(|span| span.content.is_empty());
    if columns > 0 && !is_empty {
        line.spans
            .insert(0, Span::raw(" ".repeat(usize::from(columns))));
    }
    line
}

fn narrow(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}
