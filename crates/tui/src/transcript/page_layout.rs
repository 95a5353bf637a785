//! The page as a sequence of blocks of lines, laid out on demand.
//!
//! A block is the gap above an entry, or a piece of one of its sections. The division into blocks
//! does not depend on the width, so that a position survives a resize.

use std::ops::Range;

use ratatui::text::Line;

use super::entry::TranscriptEntry;
use super::layout_cache::{LayoutCache, LayoutKey, LayoutStamp};
use super::log::EntryLog;
use super::section::{self, EntrySection, SectionContent};
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
    pub(super) shelf: &'a mut LayoutCache,
    pub(super) width: u16,
    pub(super) theme: &'a Theme,
}

/// A line, its position, and whether it is part of an entry's body.
pub(super) struct PageRow {
    pub(super) place: LinePosition,
    pub(super) line: Line<'static>,
    pub(super) is_body: bool,
}

impl<'a> PageLayout<'a> {
    pub(super) fn end(&self) -> LinePosition {
        LinePosition {
            entry: self.log.len(),
            ..LinePosition::default()
        }
    }

    /// The nearest existing line.
    pub(super) fn settle(&mut self, place: LinePosition) -> LinePosition {
        let blocks = self.blocks(place.entry);
        if blocks == 0 || place.entry >= self.log.len() {
            return self.next_entry(place.entry);
        }
        if place.block >= blocks {
            return LinePosition::head(place.entry);
        }
        let height = self.height(place.entry, place.block);
        LinePosition {
            line: place.line.min(height.saturating_sub(1)),
            ..place
        }
    }

    /// Moves down by `lines`, at most to the end.
    pub(super) fn forward(&mut self, mut place: LinePosition, mut lines: usize) -> LinePosition {
        while place.entry < self.log.len() {
            let left = self
                .height(place.entry, place.block)
                .saturating_sub(place.line);
            if lines < left {
                place.line += lines;
                return place;
            }
            lines -= left;
            place = self.next_block(place);
        }
        self.end()
    }

    /// Moves up by `lines`, at most to the beginning.
    pub(super) fn back(&mut self, mut place: LinePosition, mut lines: usize) -> LinePosition {
        loop {
            if lines <= place.line {
                place.line -= lines;
                return place;
            }
            lines -= place.line;
            place.line = 0;
            match self.previous_block(place) {
                None => return place,
                Some(before) => {
                    place = before;
                    place.line = self.height(place.entry, place.block);
                }
            }
        }
    }

    /// At most `height` lines from a position on.
    pub(super) fn fill(&mut self, mut place: LinePosition, height: usize) -> Vec<PageRow> {
        let mut rows = Vec::new();
        while rows.len() < height && place.entry < self.log.len() {
            let count = self.height(place.entry, place.block);
            let end = count.min(place.line.saturating_add(height - rows.len()));
            if place.line < end {
                self.put(place, place.line..end, &mut rows);
            }
            place = self.next_block(place);
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

    pub(super) fn blocks(&self, entry: usize) -> usize {
        let pieces = |section: &EntrySection<'_>| section.content.pieces();
        match self.sections(entry) {
            sections if sections.is_empty() => 0,
            sections => 1 + sections.iter().map(pieces).sum::<usize>(),
        }
    }

    /// The section of a block, its number, and the piece of it.
    fn find(&self, entry: usize, block: usize) -> Option<(EntrySection<'a>, usize, usize)> {
        let mut left = block.checked_sub(1)?;
        for (number, section) in self.sections(entry).into_iter().enumerate() {
            let pieces = section.content.pieces();
            if left < pieces {
                return Some((section, number, left));
            }
            left -= pieces;
        }
        None
    }

    pub(super) fn height(&mut self, entry: usize, block: usize) -> usize {
        if block == 0 {
            return usize::from(self.has_gap(entry));
        }
        let Some((section, number, piece)) = self.find(entry, block) else {
            return 0;
        };
        let width = self.text_width(section.is_body);
        match section.content {
            SectionContent::Words(text) => {
                self.shelf
                    .markdown_height((entry, number), text, width, self.theme)
            }
            content => self
                .cached_lines(entry, &content, number, piece, width)
                .len(),
        }
    }

    pub(super) fn lines(
        &mut self,
        entry: usize,
        block: usize,
        range: Range<usize>,
    ) -> Vec<Line<'static>> {
        let Some((section, number, piece)) = self.find(entry, block) else {
            return range.map(|_| Line::default()).collect();
        };
        let width = self.text_width(section.is_body);
        match section.content {
            SectionContent::Words(text) => {
                self.shelf
                    .markdown_lines((entry, number), text, range, width, self.theme)
            }
            content => {
                let lines = self.cached_lines(entry, &content, number, piece, width);
                let end = range.end.min(lines.len());
                lines[range.start.min(end)..end].to_vec()
            }
        }
    }

    fn cached_lines(
        &mut self,
        entry: usize,
        content: &SectionContent<'_>,
        section: usize,
        piece: usize,
        width: u16,
    ) -> &[Line<'static>] {
        let Some(item) = self.log.get(entry) else {
            return &[];
        };
        let key = LayoutKey {
            entry,
            section,
            piece,
            is_open: self.log.is_open(entry),
        };
        let stamp = LayoutStamp::new(item.revision, width, self.theme);
        self.shelf
            .lines(key, stamp, &item.entry, content, self.theme)
    }

    fn put(&mut self, place: LinePosition, range: Range<usize>, rows: &mut Vec<PageRow>) {
        let section = self.find(place.entry, place.block);
        let is_body = section.is_some_and(|(section, ..)| section.is_body);
        let lines = self.lines(place.entry, place.block, range.clone());
        for (line, content) in range.zip(lines) {
            rows.push(PageRow {
                place: LinePosition { line, ..place },
                line: content,
                is_body,
            });
        }
    }

    /// Columns beside the margin.
    fn text_width(&self, is_body: bool) -> u16 {
        self.width - margin_width(self.width, is_body)
    }

    /// Prompts and replies are separated by an empty line; calls and notes stand close together.
    fn has_gap(&self, entry: usize) -> bool {
        let is_work = |entry: usize| {
            !matches!(
                self.log.entry(entry),
                Some(TranscriptEntry::Prompt { .. } | TranscriptEntry::Words { .. })
            )
        };
        let before = (0..entry).rev().find(|before| self.log.is_shown(*before));
        before.is_some_and(|before| !is_work(before) || !is_work(entry))
    }

    fn next_block(&self, place: LinePosition) -> LinePosition {
        if place.block + 1 < self.blocks(place.entry) {
            LinePosition {
                block: place.block + 1,
                line: 0,
                ..place
            }
        } else {
            self.next_entry(place.entry + 1)
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

    fn previous_block(&self, place: LinePosition) -> Option<LinePosition> {
        let (entry, block) = match place.block.checked_sub(1) {
            Some(block) => (place.entry, block),
            None => {
                let mut before = (0..place.entry.min(self.log.len())).rev();
                let entry = before.find(|entry| self.log.is_shown(*entry))?;
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
pub(super) fn margin_width(width: u16, is_body: bool) -> u16 {
    match (width, is_body) {
        (0..8, _) => 0,
        (24.., true) => 4,
        _ => 2,
    }
}
