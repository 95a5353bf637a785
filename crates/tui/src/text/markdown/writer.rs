//! Lays out one block with its content, line by line.
//!
//! Lists and quotes can be nested to any depth, so levels are kept in a list instead of using
//! recursion. Entry point: [`write_block()`].

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::wrap::{columns, wrap_line, wrap_words};
use super::code_cache::CodeCache;
use super::inline::InlineBuilder;
use super::label::{code_indent, indented, label};
use super::nesting::{NestedLines, NestingKind};
use super::structure::OPTIONS;
use super::table::MarkdownTable;
use crate::theme::Theme;

const MAX_RULE_WIDTH: usize = 80;

/// The lines of a block. `memory` has the code of its previous layout.
pub(super) fn write_block(
    text: &str,
    width: u16,
    theme: &Theme,
    code_cache: &mut CodeCache,
) -> Vec<Line<'static>> {
    let events: Vec<Event<'_>> = Parser::new_ext(text, OPTIONS).collect();
    let items = count_items(&events);
    let mut writer = BlockWriter {
        page: NestedLines {
            width: usize::from(width),
            lines: Vec::new(),
            levels: Vec::new(),
        },
        theme,
        code_cache,
        inline: InlineBuilder::new(theme),
        table: None,
        verbatim: None,
    };
    writer.code_cache.begin();
    for (index, event) in events.iter().enumerate() {
        let next = events.get(index + 1);
        writer.event(event, next, items.get(&index).copied().unwrap_or(0));
    }
    writer.flush();
    writer.page.lines
}

/// The number of items of each list, by the index of its start event.
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

struct BlockWriter<'a> {
    page: NestedLines,
    theme: &'a Theme,
    code_cache: &'a mut CodeCache,
    inline: InlineBuilder<'a>,
    table: Option<MarkdownTable>,
    /// Code or HTML that is being collected, with the language if it is code.
    verbatim: Option<(Option<String>, String)>,
}

impl BlockWriter<'_> {
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
                let rule = "─".repeat(self.page.room().min(MAX_RULE_WIDTH));
                self.page.emit(vec![Line::styled(rule, self.theme.border)]);
            }
            Event::TaskListMarker(is_done) => self.mark_task(*is_done),
            other => self.inline.event(other),
        }
    }

    fn start(&mut self, tag: &Tag<'_>, next: Option<&Event<'_>>, items: u64) {
        match tag {
            Tag::Paragraph => {
                if let Some(level) = self.page.levels.last_mut() {
                    level.is_loose = true;
                }
                self.begin_block();
            }
            Tag::Heading { level, .. } => {
                self.begin_block();
                self.inline.push_style(heading_style(*level, self.theme));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = vec![Span::styled("│ ", self.theme.border)];
                self.page.push_level(NestingKind::Quote, None, bar, 2);
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
                let within = NestingKind::List {
                    number: *first,
                    digits,
                };
                self.page.push_level(within, None, Vec::new(), 0);
            }
            Tag::Item => self.start_item(matches!(next, Some(Event::Start(Tag::Paragraph)))),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(MarkdownTable {
                    alignments: alignments.clone(),
                    ..MarkdownTable::default()
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
                self.page.pop_level();
            }
            TagEnd::Item => {
                self.flush();
                // An empty item still shows its marker.
                if self
                    .page
                    .levels
                    .last()
                    .is_some_and(|level| level.first.is_some())
                {
                    self.page.emit(vec![Line::default()]);
                }
                self.page.pop_level();
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
                    let lines = table.lines(saturating_u16(self.page.room()), self.theme);
                    self.page.emit(lines);
                }
            }
            other => self.inline.event(&Event::End(other)),
        }
    }

    fn start_item(&mut self, has_paragraph: bool) {
        self.flush();
        let Some(list) = self.page.levels.last_mut() else {
            return;
        };
        if !list.is_fresh && (list.is_loose || has_paragraph) {
            self.page.gap();
        }
        let depth = self
            .page
            .levels
            .iter()
            .filter(|level| level.has_bullets())
            .count();
        let marker = match self.page.levels.last_mut().map(|level| &mut level.within) {
            Some(NestingKind::List {
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
        let left_out = self
            .page
            .push_level(NestingKind::Item, Some(marker), rest, taken);
        if let Some(marker) = left_out {
            // Without room for an indent, the marker becomes part of the text.
            self.inline
                .event(&Event::Text(marker.content.to_string().into()));
        }
    }

    fn mark_task(&mut self, is_done: bool) {
        let (mark, style) = if is_done {
            ("✓ ", self.theme.good)
        } else {
            ("○ ", self.theme.dim)
        };
        match self
            .page
            .levels
            .last_mut()
            .and_then(|level| level.first.as_mut())
        {
            Some(marker) if columns(&marker.content) == 2 => *marker = Span::styled(mark, style),
            _ => self.inline.event(&Event::Text(mark.into())),
        }
    }

    fn end_verbatim(&mut self) {
        let Some((language, text)) = self.verbatim.take() else {
            return;
        };
        let Some(language) = language else {
            let width = saturating_u16(self.page.room());
            let lines = text
                .trim_end()
                .lines()
                .flat_map(|line| {
                    wrap_line(&Line::styled(line.to_owned(), self.theme.dim), width, "")
                })
                .collect();
            return self.page.emit(lines);
        };
        let room = saturating_u16(self.page.room());
        let indent = code_indent(room);
        let mut lines: Vec<Line<'static>> = label(&language, room - indent, self.theme)
            .into_iter()
            .collect();
        lines.extend(
            self.code_cache
                .code(&language, &text, room - indent, self.theme),
        );
        self.page.emit(
            lines
                .into_iter()
                .map(|line| indented(line, indent))
                .collect(),
        );
    }

    /// Called before any block: flushes inline text and adds a gap where needed.
    fn begin_block(&mut self) {
        self.flush();
        let is_apart = match self.page.levels.last() {
            None => !self.page.lines.is_empty(),
            Some(level) => !level.is_fresh && level.is_loose,
        };
        if is_apart {
            self.page.gap();
        }
    }

    /// Writes the collected inline text as lines.
    fn flush(&mut self) {
        if self.inline.is_empty() {
            self.inline.take();
            return;
        }
        let width = saturating_u16(self.page.room());
        let lines = self
            .inline
            .take()
            .into_iter()
            .flat_map(|spans| wrap_words(&Line::from(spans), width, ""))
            .collect();
        self.page.emit(lines);
    }
}

fn heading_style(level: HeadingLevel, theme: &Theme) -> Style {
    match level {
        HeadingLevel::H1 => theme.heading.add_modifier(Modifier::UNDERLINED),
        HeadingLevel::H2 => theme.heading,
        HeadingLevel::H3 => theme.strong,
        _ => theme.strong.patch(theme.emphasis),
    }
}

fn saturating_u16(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}
