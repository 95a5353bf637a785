//! A bounded cache of layouts.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use ratatui::text::Line;

use super::entry::TranscriptEntry;
use super::section::{MarkdownText, SectionContent};
use super::section_layout::lay_out_section;
use crate::text::{Markdown, colours};
use crate::theme::{ColourScheme, Theme};

/// Maximum number of cached lines, not counting those of the last frame.
const MAX_CACHED_LINES: usize = 10_000;

/// Maximum number of cached bytes of markdown, not counting those of the last frame.
const MAX_CACHED_MARKDOWN_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct LayoutCache {
    laid: HashMap<LayoutKey, CachedLines>,
    lines: usize,
    /// In the order of creation; so is `places`.
    keys: VecDeque<LayoutKey>,
    words: HashMap<(usize, usize), CachedMarkdown>,
    places: VecDeque<(usize, usize)>,
    /// Number of frames.
    picture: u64,
}

/// A piece of a section of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LayoutKey {
    pub(super) entry: usize,
    pub(super) section: usize,
    pub(super) piece: usize,
    pub(super) is_open: bool,
}

/// The inputs of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayoutStamp {
    pub(super) revision: u32,
    pub(super) width: u16,
    pub(super) look: ColourScheme,
    /// Generation of the syntax colours.
    colours: u64,
}

#[derive(Debug)]
struct CachedLines {
    stamp: LayoutStamp,
    lines: Vec<Line<'static>>,
    used: u64,
}

#[derive(Debug)]
struct CachedMarkdown {
    markdown: Markdown,
    is_whole: bool,
    used: u64,
}

impl LayoutStamp {
    pub(super) fn new(revision: u32, width: u16, theme: &Theme) -> Self {
        Self {
            revision,
            width,
            look: theme.look,
            colours: colours(theme),
        }
    }
}

impl LayoutCache {
    /// Called before a frame: evicts about as much as the last frame added, so that no frame is
    /// delayed by a large cleanup.
    pub(super) fn begin(&mut self) {
        let last = self.picture;
        self.picture += 1;
        for _ in 0..self.keys.len() {
            if self.lines <= MAX_CACHED_LINES {
                break;
            }
            let Some(key) = self.keys.pop_front() else {
                break;
            };
            match self.laid.get(&key) {
                Some(laid) if laid.used == last => self.keys.push_back(key),
                Some(laid) => {
                    self.lines -= laid.lines.len();
                    self.laid.remove(&key);
                }
                None => {}
            }
        }
        let bytes = |words: &CachedMarkdown| words.markdown.source().len();
        let mut kept: usize = self.words.values().map(bytes).sum();
        for _ in 0..self.places.len() {
            if kept <= MAX_CACHED_MARKDOWN_BYTES {
                break;
            }
            let Some(place) = self.places.pop_front() else {
                break;
            };
            match self.words.get(&place) {
                Some(words) if words.used == last => self.places.push_back(place),
                Some(words) => {
                    kept -= bytes(words);
                    self.words.remove(&place);
                }
                None => {}
            }
        }
    }

    /// The lines of a piece that is not markdown.
    pub(super) fn lines(
        &mut self,
        key: LayoutKey,
        stamp: LayoutStamp,
        entry: &TranscriptEntry,
        content: &SectionContent<'_>,
        theme: &Theme,
    ) -> &[Line<'static>] {
        let picture = self.picture;
        let laid = self.laid.entry(key).or_insert_with(|| {
            let lines = lay_out_section(entry, content, key.piece, stamp.width, theme);
            self.lines += lines.len();
            self.keys.push_back(key);
            CachedLines {
                stamp,
                lines,
                used: picture,
            }
        });
        if laid.stamp != stamp {
            self.lines -= laid.lines.len();
            laid.lines = lay_out_section(entry, content, key.piece, stamp.width, theme);
            laid.stamp = stamp;
            self.lines += laid.lines.len();
        }
        laid.used = picture;
        &laid.lines
    }

    /// Number of lines of a markdown section.
    pub(super) fn markdown_height(
        &mut self,
        place: (usize, usize),
        text: MarkdownText<'_>,
        width: u16,
        theme: &Theme,
    ) -> usize {
        self.markdown(place, text).line_count(width, theme)
    }

    /// Some lines of a markdown section.
    pub(super) fn markdown_lines(
        &mut self,
        place: (usize, usize),
        text: MarkdownText<'_>,
        range: Range<usize>,
        width: u16,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        self.markdown(place, text).lines_range(range, width, theme)
    }

    /// The cached markdown, brought up to date. If the text has only grown, just the new part is
    /// added.
    fn markdown(&mut self, place: (usize, usize), said: MarkdownText<'_>) -> &Markdown {
        let words = self.words.entry(place).or_insert_with(|| {
            self.places.push_back(place);
            CachedMarkdown {
                markdown: Markdown::default(),
                is_whole: false,
                used: 0,
            }
        });
        words.used = self.picture;
        match said.text.strip_prefix(words.markdown.source()) {
            Some("") if words.is_whole == said.is_whole => return &words.markdown,
            Some(piece) => words.markdown.push(piece),
            None => {
                words.markdown = Markdown::default();
                words.markdown.push(said.text);
            }
        }
        if said.is_whole {
            words.markdown.finish();
        }
        words.is_whole = said.is_whole;
        &words.markdown
    }
}
