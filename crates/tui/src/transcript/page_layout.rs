//! The page as a sequence of blocks of lines, laid out on demand.
//!
//! A block is the gap above an entry, or a piece of one of its sections. The division into blocks
//! does not depend on the width, so that a position survives a resize.

use std::ops::Range;

use ratatui::text::Line;

use super::entry::TranscriptEntry;
use super::layout_cache::{LayoutCache, LayoutKey, SectionLayout};
use super::log::EntryLog;
use super::section::{self, EntrySection};
use crate::theme::Theme;

/// The position of a line on the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinePosition {
    pub(super) entry: usize,
    /// 0 is the gap above the entry.
    pub(super) block: usize,
    pub(super) line: usize,
}

impl LinePosition {
    /// The first line of an entry.
    pub(super) fn head(entry: usize) -> Self {
        Self {
            entry,
            block: 1,
            line: 0,
        }
    }
}

/// Lays out the page for a width.
pub(super) struct PageLayout<'a> {
    pub(super) log: &'a EntryLog,
    pub(super) cache: &'a mut LayoutCache,
    pub(super) width: u16,
    pub(super) theme: &'a Theme,
}

/// A line, its position, and the width of the margin left of it.
pub(super) struct PageRow {
    pub(super) position: LinePosition,
    pub(super) line: Line<'static>,
    pub(super) margin: u16,
}

impl<'a> PageLayout<'a> {
    pub(super) fn end(&self) -> LinePosition {
        LinePosition {
            entry: self.log.len(),
            ..LinePosition::default()
        }
    }

    /// The nearest existing line.
    pub(super) fn settle(&mut self, position: LinePosition) -> LinePosition {
        let blocks = self.blocks(position.entry);
        if blocks == 0 {
            return self.next_entry(position.entry);
        }
        if position.block >= blocks {
            return LinePosition::head(position.entry);
        }
        let last = self.height(position).saturating_sub(1);
        LinePosition {
            line: position.line.min(last),
            ..position
        }
    }

    /// Moves down by `lines`, at most to the end.
    pub(super) fn forward(&mut self, mut from: LinePosition, mut lines: usize) -> LinePosition {
        while from.entry < self.log.len() {
            let left = self.height(from).saturating_sub(from.line);
            if lines < left {
                from.line += lines;
                return from;
            }
            lines -= left;
            from = self.next_block(from);
        }
        self.end()
    }

    /// Moves up by `lines`, at most to the beginning.
    pub(super) fn back(&mut self, mut from: LinePosition, mut lines: usize) -> LinePosition {
        while lines > from.line {
            lines -= from.line;
            from.line = 0;
            let Some(before) = self.previous_block(from) else {
                return from;
            };
            from = before;
            from.line = self.height(from);
        }
        from.line -= lines;
        from
    }

    /// At most `height` lines from a position on.
    pub(super) fn fill(&mut self, mut from: LinePosition, height: usize) -> Vec<PageRow> {
        let mut rows = Vec::new();
        while rows.len() < height && from.entry < self.log.len() {
            let end = from.line.saturating_add(height - rows.len());
            let (lines, margin) = self.lines(from, from.line..end);
            rows.extend((from.line..).zip(lines).map(|(line, content)| PageRow {
                position: LinePosition { line, ..from },
                line: content,
                margin,
            }));
            from = self.next_block(from);
        }
        rows
    }

    pub(super) fn sections(&self, entry: usize) -> Vec<EntrySection<'a>> {
        let log = self.log;
        match log.entry(entry) {
            Some(content) if log.is_shown(entry) => {
                section::sections_of(content, log.is_open(entry))
            }
            _ => Vec::new(),
        }
    }

    /// Number of blocks of an entry; 0 if it is not shown.
    pub(super) fn blocks(&self, entry: usize) -> usize {
        match self.sections(entry).as_slice() {
            [] => 0,
            sections => 1 + section::piece_count(sections),
        }
    }

    /// Number of lines of a block.
    pub(super) fn height(&mut self, block: LinePosition) -> usize {
        let (page_width, theme) = (self.width, self.theme);
        match self.layout(block) {
            Some((layout, margin)) => layout.height(page_width - margin, theme),
            None => usize::from(block.block == 0 && self.has_gap(block.entry)),
        }
    }

    /// Some lines of a block, as far as they exist, and the width of the margin left of them.
    pub(super) fn lines(
        &mut self,
        block: LinePosition,
        range: Range<usize>,
    ) -> (Vec<Line<'static>>, u16) {
        let (page_width, theme) = (self.width, self.theme);
        if let Some((layout, margin)) = self.layout(block) {
            return (layout.lines(range, page_width - margin, theme), margin);
        }
        let count = self.height(block).min(range.end);
        (vec![Line::default(); count.saturating_sub(range.start)], 0)
    }

    /// The layout of a block and the width of its margin; `None` for a gap.
    fn layout(&mut self, block: LinePosition) -> Option<(&SectionLayout, u16)> {
        let LinePosition { entry, block, .. } = block;
        let mut piece = block.checked_sub(1)?;
        for (section, EntrySection { content, is_body }) in
            self.sections(entry).into_iter().enumerate()
        {
            let pieces = content.pieces();
            if piece >= pieces {
                piece -= pieces;
                continue;
            }
            let key = LayoutKey {
                entry,
                section,
                piece,
                is_open: self.log.is_open(entry),
            };
            let item = self.log.get(entry)?;
            let margin = margin_width(self.width, is_body);
            let width = self.width - margin;
            let layout = self.cache.layout(key, item, &content, width, self.theme);
            return Some((layout, margin));
        }
        None
    }

    /// Prompts and replies are separated by an empty line; calls and notes stand close together.
    fn has_gap(&self, entry: usize) -> bool {
        let is_message = |entry: usize| {
            matches!(
                self.log.entry(entry),
                Some(TranscriptEntry::Prompt { .. } | TranscriptEntry::Reply { .. })
            )
        };
        let before = self.shown_before(entry);
        before.is_some_and(|before| is_message(before) || is_message(entry))
    }

    fn shown_before(&self, entry: usize) -> Option<usize> {
        let mut before = (0..entry.min(self.log.len())).rev();
        before.find(|entry| self.log.is_shown(*entry))
    }

    fn next_block(&self, from: LinePosition) -> LinePosition {
        let LinePosition { entry, block, .. } = from;
        if block + 1 >= self.blocks(entry) {
            return self.next_entry(entry + 1);
        }
        LinePosition {
            entry,
            block: block + 1,
            line: 0,
        }
    }

    /// The gap above the next shown entry.
    fn next_entry(&self, entry: usize) -> LinePosition {
        let shown = (entry..self.log.len()).find(|entry| self.log.is_shown(*entry));
        LinePosition {
            entry: shown.unwrap_or(self.log.len()),
            ..LinePosition::default()
        }
    }

    fn previous_block(&self, from: LinePosition) -> Option<LinePosition> {
        let (entry, block) = match from.block.checked_sub(1) {
            Some(block) => (from.entry, block),
            None => {
                let entry = self.shown_before(from.entry)?;
                (entry, self.blocks(entry).saturating_sub(1))
            }
        };
        Some(LinePosition {
            entry,
            block,
            line: 0,
        })
    }
}

/// Width of the margin left of a line.
fn margin_width(width: u16, is_body: bool) -> u16 {
    match (width, is_body) {
        (0..8, _) => 0,
        (24.., true) => 4,
        _ => 2,
    }
}
