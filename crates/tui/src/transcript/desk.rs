//! The page as a sequence of blocks of lines, laid out on demand.
//!
//! A block is the gap above an entry, or a piece of one of its sections. The division into blocks
//! does not depend on the width, so that a position survives a resize.

use std::ops::Range;

use ratatui::text::Line;

use super::entry::Entry;
use super::log::Log;
use super::section::{self, Content, Section};
use super::shelf::{Key, Shelf, Stamp};
use crate::theme::Theme;

/// The position of a line on the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) entry: usize,
    /// 0 is the gap above the entry.
    pub(super) block: usize,
    pub(super) line: usize,
}

impl Place {
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
pub(super) struct Desk<'a> {
    pub(super) log: &'a Log,
    pub(super) shelf: &'a mut Shelf,
    pub(super) width: u16,
    pub(super) theme: &'a Theme,
}

/// A line, its position, and whether it is part of an entry's body.
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) line: Line<'static>,
    pub(super) is_body: bool,
}

impl<'a> Desk<'a> {
    pub(super) fn end(&self) -> Place {
        Place {
            entry: self.log.len(),
            ..Place::default()
        }
    }

    /// The nearest existing line.
    pub(super) fn settle(&mut self, place: Place) -> Place {
        let blocks = self.blocks(place.entry);
        if blocks == 0 || place.entry >= self.log.len() {
            return self.next_entry(place.entry);
        }
        if place.block >= blocks {
            return Place::head(place.entry);
        }
        let height = self.height(place.entry, place.block);
        Place {
            line: place.line.min(height.saturating_sub(1)),
            ..place
        }
    }

    /// Moves down by `lines`, at most to the end.
    pub(super) fn forward(&mut self, mut place: Place, mut lines: usize) -> Place {
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
    pub(super) fn back(&mut self, mut place: Place, mut lines: usize) -> Place {
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
    pub(super) fn fill(&mut self, mut place: Place, height: usize) -> Vec<Row> {
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

    pub(super) fn sections(&self, entry: usize) -> Vec<Section<'a>> {
        let log = self.log;
        match log.entry(entry) {
            Some(content) if log.is_shown(entry) => section::of(content, log.is_open(entry)),
            _ => Vec::new(),
        }
    }

    pub(super) fn blocks(&self, entry: usize) -> usize {
        let pieces = |section: &Section<'_>| section.content.pieces();
        match self.sections(entry) {
            sections if sections.is_empty() => 0,
            sections => 1 + sections.iter().map(pieces).sum::<usize>(),
        }
    }

    /// The section of a block, its number, and the piece of it.
    fn find(&self, entry: usize, block: usize) -> Option<(Section<'a>, usize, usize)> {
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
        let width = self.room(section.is_body);
        match section.content {
            Content::Words(text) => {
                self.shelf
                    .words_height((entry, number), text, width, self.theme)
            }
            content => self.laid(entry, &content, number, piece, width).len(),
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
        let width = self.room(section.is_body);
        match section.content {
            Content::Words(text) => {
                self.shelf
                    .words_lines((entry, number), text, range, width, self.theme)
            }
            content => {
                let lines = self.laid(entry, &content, number, piece, width);
                let end = range.end.min(lines.len());
                lines[range.start.min(end)..end].to_vec()
            }
        }
    }

    fn laid(
        &mut self,
        entry: usize,
        content: &Content<'_>,
        section: usize,
        piece: usize,
        width: u16,
    ) -> &[Line<'static>] {
        let Some(item) = self.log.get(entry) else {
            return &[];
        };
        let key = Key {
            entry,
            section,
            piece,
            is_open: self.log.is_open(entry),
        };
        let stamp = Stamp::new(item.revision, width, self.theme);
        self.shelf
            .lines(key, stamp, &item.entry, content, self.theme)
    }

    fn put(&mut self, place: Place, range: Range<usize>, rows: &mut Vec<Row>) {
        let section = self.find(place.entry, place.block);
        let is_body = section.is_some_and(|(section, ..)| section.is_body);
        let lines = self.lines(place.entry, place.block, range.clone());
        for (line, content) in range.zip(lines) {
            rows.push(Row {
                place: Place { line, ..place },
                line: content,
                is_body,
            });
        }
    }

    /// Columns beside the margin.
    fn room(&self, is_body: bool) -> u16 {
        self.width - margin(self.width, is_body)
    }

    /// Prompts and replies are separated by an empty line; calls and notes stand close together.
    fn has_gap(&self, entry: usize) -> bool {
        let is_work = |entry: usize| {
            !matches!(
                self.log.entry(entry),
                Some(Entry::Prompt { .. } | Entry::Words { .. })
            )
        };
        let before = (0..entry).rev().find(|before| self.log.is_shown(*before));
        before.is_some_and(|before| !is_work(before) || !is_work(entry))
    }

    fn next_block(&self, place: Place) -> Place {
        if place.block + 1 < self.blocks(place.entry) {
            Place {
                block: place.block + 1,
                line: 0,
                ..place
            }
        } else {
            self.next_entry(place.entry + 1)
        }
    }

    /// The gap above the next shown entry.
    fn next_entry(&self, entry: usize) -> Place {
        let shown = (entry..self.log.len()).find(|entry| self.log.is_shown(*entry));
        Place {
            entry: shown.unwrap_or(self.log.len()),
            ..Place::default()
        }
    }

    fn previous_block(&self, place: Place) -> Option<Place> {
        let (entry, block) = match place.block.checked_sub(1) {
            Some(block) => (place.entry, block),
            None => {
                let mut before = (0..place.entry.min(self.log.len())).rev();
                let entry = before.find(|entry| self.log.is_shown(*entry))?;
                (entry, self.blocks(entry).saturating_sub(1))
            }
        };
        Some(Place {
            entry,
            block,
            line: 0,
        })
    }
}

/// Width of the margin left of a line.
pub(super) fn margin(width: u16, is_body: bool) -> u16 {
    match (width, is_body) {
        (0..8, _) => 0,
        (24.., true) => 4,
        _ => 2,
    }
}
