//! A bounded cache of layouts.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use ratatui::text::Line;

use super::log::LogItem;
use super::section::SectionContent;
use super::section_layout::lay_out_section;
use crate::text::{Markdown, colours};
use crate::theme::{ColourScheme, Theme};

/// Maximum number of cached lines, not counting those of the last frame.
const MAX_CACHED_LINES: usize = 10_000;

/// Markdown is counted by its source: so many bytes are about one line.
const MARKDOWN_LINE_BYTES: usize = 24;

#[derive(Debug, Default)]
pub(super) struct LayoutCache {
    layouts: HashMap<LayoutKey, CachedLayout>,
    /// In the order of creation.
    keys: VecDeque<LayoutKey>,
    /// Number of lines of all layouts.
    lines: usize,
    /// Number of frames.
    frame: u64,
}

/// A piece of a section of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LayoutKey {
    pub(super) entry: usize,
    pub(super) section: usize,
    pub(super) piece: usize,
    pub(super) is_open: bool,
}

#[derive(Debug)]
struct CachedLayout {
    layout: SectionLayout,
    lines: usize,
    /// The last frame that used it.
    frame: u64,
}

#[derive(Debug)]
pub(super) enum SectionLayout {
    Lines(LayoutInputs, Vec<Line<'static>>),
    /// Laid out incrementally.
    Markdown(Box<Markdown>),
}

/// What the lines of a piece depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayoutInputs {
    revision: u32,
    width: u16,
    scheme: ColourScheme,
    /// Generation of the syntax colours.
    colours: u64,
}

impl LayoutCache {
    /// Called before a frame: evicts about as much as the last frame added, so that no frame is
    /// delayed by a large cleanup.
    pub(super) fn start_frame(&mut self) {
        for _ in 0..self.keys.len() {
            if self.lines <= MAX_CACHED_LINES {
                break;
            }
            let Some(key) = self.keys.pop_front() else {
                break;
            };
            if self
                .layouts
                .get(&key)
                .is_some_and(|cached| cached.frame == self.frame)
            {
                self.keys.push_back(key);
            } else if let Some(evicted) = self.layouts.remove(&key) {
                self.lines -= evicted.lines;
            }
        }
        self.frame += 1;
    }

    /// The layout of a piece, brought up to date.
    pub(super) fn layout(
        &mut self,
        key: LayoutKey,
        item: &LogItem,
        content: &SectionContent<'_>,
        width: u16,
        theme: &Theme,
    ) -> &SectionLayout {
        let cached = self.layouts.entry(key).or_insert_with(|| {
            self.keys.push_back(key);
            CachedLayout {
                layout: SectionLayout::Markdown(Box::default()),
                lines: 0,
                frame: 0,
            }
        });
        cached.frame = self.frame;
        self.lines -= cached.lines;
        cached.layout.update(key.piece, item, content, width, theme);
        cached.lines = match &cached.layout {
            SectionLayout::Lines(_, lines) => lines.len(),
            SectionLayout::Markdown(markdown) => markdown.source().len() / MARKDOWN_LINE_BYTES,
        };
        self.lines += cached.lines;
        &cached.layout
    }
}

impl SectionLayout {
    fn update(
        &mut self,
        piece: usize,
        item: &LogItem,
        content: &SectionContent<'_>,
        width: u16,
        theme: &Theme,
    ) {
        if let SectionContent::Markdown(source) = content {
            if !matches!(self, Self::Markdown(_)) {
                *self = Self::Markdown(Box::default());
            }
            if let Self::Markdown(markdown) = self {
                markdown.set(source.text, source.is_whole);
            }
            return;
        }
        let inputs = LayoutInputs {
            revision: item.revision,
            width,
            scheme: theme.scheme,
            colours: colours(theme),
        };
        if !matches!(self, Self::Lines(before, _) if *before == inputs) {
            let lines = lay_out_section(&item.entry, content, piece, width, theme);
            *self = Self::Lines(inputs, lines);
        }
    }

    pub(super) fn height(&self, width: u16, theme: &Theme) -> usize {
        match self {
            Self::Lines(_, lines) => lines.len(),
            Self::Markdown(markdown) => markdown.line_count(width, theme),
        }
    }

    /// The lines in this range, as far as they exist.
    pub(super) fn lines(
        &self,
        range: Range<usize>,
        width: u16,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        match self {
            Self::Lines(_, lines) => {
                let end = range.end.min(lines.len());
                lines[range.start.min(end)..end].to_vec()
            }
            Self::Markdown(markdown) => markdown.lines_range(range, width, theme),
        }
    }
}
