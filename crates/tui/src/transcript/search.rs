//! All matches of a query on the page, in open and closed entries, and the current one.
//!
//! Searches the texts themselves, not the layout.

use super::entry::TranscriptEntry;
use super::log::EntryLog;
use super::needle::SearchNeedle;
use super::page_layout::LinePosition;
use super::section::{self, SectionContent, TextExtent};

/// Maximum number of matches.
const MAX_MATCHES: usize = 100_000;

#[derive(Debug)]
pub(super) struct PageSearch {
    pub(super) needle: SearchNeedle,
    /// Matches in the order of the page.
    found: Vec<PageMatch>,
    current: Option<usize>,
    /// The last visible entry when the search began.
    pub(super) origin: usize,
    /// The current match has to be scrolled into view.
    pub(super) is_wanted: bool,
    /// Cache of the line of the current match, with its key.
    pub(super) line: Option<(MatchLineKey, LinePosition)>,
}

/// A match in a section of an open entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageMatch {
    entry: u32,
    section: u32,
    offset: u32,
}

/// What the line of a match depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatchLineKey {
    pub(super) found: PageMatch,
    pub(super) revision: u32,
    pub(super) width: u16,
    pub(super) is_open: bool,
}

impl PageMatch {
    pub(super) fn entry(self) -> usize {
        self.entry as usize
    }

    pub(super) fn section(self) -> usize {
        self.section as usize
    }

    pub(super) fn offset(self) -> usize {
        self.offset as usize
    }
}

impl PageSearch {
    pub(super) fn new(log: &EntryLog, needle: SearchNeedle, origin: usize) -> Self {
        let mut search = Self {
            needle,
            found: Vec::new(),
            current: None,
            origin,
            is_wanted: false,
            line: None,
        };
        for entry in 0..log.len() {
            search.look(log, entry);
        }
        // Start with the nearest match above the view, since users mostly search backwards.
        let above = search
            .found
            .partition_point(|found| found.entry() <= origin);
        search.current = if search.found.is_empty() {
            None
        } else {
            Some(above.saturating_sub(1))
        };
        search
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn current(&self) -> Option<PageMatch> {
        self.found.get(self.current?).copied()
    }

    /// Whether the current match is visible without opening an entry.
    pub(super) fn is_visible(&self, log: &EntryLog) -> bool {
        let Some(found) = self.current() else {
            return false;
        };
        let entry = found.entry();
        let is_head = found.section() == 0
            && !matches!(log.entry(entry), Some(TranscriptEntry::Prompt { .. }));
        is_head || log.is_open(entry) || !log.opens(entry)
    }

    /// Number of the current match, from 1, and of all matches.
    pub(super) fn position(&self) -> Option<(usize, usize)> {
        Some((self.current? + 1, self.found.len()))
    }

    /// Moves to a later or an earlier match; wraps around at the ends.
    pub(super) fn step(&mut self, step: i32) {
        let count = self.found.len() as i64;
        if count > 0 {
            let current = self.current.unwrap_or(0) as i64;
            let next = (current + i64::from(step)).rem_euclid(count);
            self.current = usize::try_from(next).ok();
        }
    }

    /// Searches the changed entries again.
    pub(super) fn refresh(&mut self, log: &EntryLog, mut changed: Vec<usize>) {
        changed.sort_unstable();
        changed.dedup();
        let Some(first) = changed.first().copied() else {
            return;
        };
        let current = self.current();
        let start = self.found.partition_point(|found| found.entry() < first);
        let later = self.found.split_off(start);
        let mut later = later.into_iter().peekable();
        for entry in changed {
            while let Some(found) = later.next_if(|found| found.entry() < entry) {
                self.found.push(found);
            }
            while later.next_if(|found| found.entry() == entry).is_some() {}
            self.look(log, entry);
        }
        self.found.extend(later);
        self.found.truncate(MAX_MATCHES);
        self.current = match (current, self.found.len()) {
            (_, 0) => None,
            (None, count) => Some(count - 1),
            (Some(current), count) => {
                let place = self.found.partition_point(|found| *found < current);
                Some(place.min(count - 1))
            }
        };
    }

    fn look(&mut self, log: &EntryLog, index: usize) {
        let Some(entry) = log.entry(index).filter(|_| log.is_shown(index)) else {
            return;
        };
        for (number, section) in section::sections_of(entry, true).iter().enumerate() {
            let Some(text) = searchable_text(entry, &section.content) else {
                continue;
            };
            let mut from = 0;
            while let Some((start, end)) = self.needle.find(text, from) {
                if self.found.len() >= MAX_MATCHES {
                    return;
                }
                self.found.push(PageMatch {
                    entry: index as u32,
                    section: number as u32,
                    offset: start as u32,
                });
                from = end;
            }
        }
    }
}

/// The searchable text of a section.
fn searchable_text<'a>(
    entry: &'a TranscriptEntry,
    content: &'a SectionContent<'_>,
) -> Option<&'a str> {
    match (content, entry) {
        (
            SectionContent::Text {
                text,
                extent: TextExtent::All,
                ..
            },
            _,
        ) => Some(text),
        (SectionContent::Words(said), _) => Some(said.text),
        (SectionContent::Head, TranscriptEntry::Call(call)) => Some(&call.line),
        (
            SectionContent::Head,
            TranscriptEntry::Folded { title, .. } | TranscriptEntry::Undone { title, .. },
        ) => Some(title),
        _ => None,
    }
}
