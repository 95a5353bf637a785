//! All matches of a query on the page, in open and closed entries, and the current one.
//!
//! Searches the texts themselves, not the layout.

use regex::Regex;

use super::entry::TranscriptEntry;
use super::log::EntryLog;
use super::page_layout::LinePosition;
use super::section::{self, EntrySection, SectionContent, TextExtent};

/// Maximum number of matches.
const MAX_MATCHES: usize = 100_000;

#[derive(Debug)]
pub(super) struct PageSearch {
    pub(super) query: Regex,
    /// Matches in the order of the page.
    matches: Vec<PageMatch>,
    current: Option<usize>,
    /// The last visible entry when the search began.
    pub(super) origin: usize,
    /// The current match has to be scrolled into view.
    pub(super) reveals_match: bool,
    /// Cache of the line of the current match, and what it depends on: the match, the revision of
    /// its entry, the width of the page, and whether the entry is open.
    pub(super) line: Option<((PageMatch, u32, u16, bool), LinePosition)>,
}

/// A match in a section of an open entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageMatch {
    pub(super) entry: usize,
    pub(super) section: usize,
    pub(super) offset: usize,
}

impl PageSearch {
    pub(super) fn new(log: &EntryLog, query: Regex, origin: usize) -> Self {
        let mut search = Self {
            query,
            matches: Vec::new(),
            current: None,
            origin,
            reveals_match: false,
            line: None,
        };
        for entry in 0..log.len() {
            search.search_entry(log, entry);
        }
        // Start with the nearest match above the view, since users mostly search backwards.
        let above = search
            .matches
            .partition_point(|found| found.entry <= origin);
        search.current = (!search.matches.is_empty()).then(|| above.saturating_sub(1));
        search
    }

    pub(super) fn len(&self) -> usize {
        self.matches.len()
    }

    pub(super) fn current(&self) -> Option<PageMatch> {
        self.matches.get(self.current?).copied()
    }

    /// Whether the current match is visible without opening an entry.
    pub(super) fn is_visible(&self, log: &EntryLog) -> bool {
        let Some(found) = self.current() else {
            return false;
        };
        let entry = found.entry;
        let is_head =
            found.section == 0 && !matches!(log.entry(entry), Some(TranscriptEntry::Prompt { .. }));
        is_head || log.is_open(entry) || !log.opens(entry)
    }

    /// Number of the current match, from 1, and of all matches.
    pub(super) fn position(&self) -> Option<(usize, usize)> {
        Some((self.current? + 1, self.matches.len()))
    }

    /// Moves to a later or an earlier match; wraps around at the ends.
    pub(super) fn step(&mut self, step: i32) {
        let count = self.matches.len() as i64;
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
        let start = self.matches.partition_point(|found| found.entry < first);
        let mut later = self.matches.split_off(start).into_iter().peekable();
        for entry in changed {
            while let Some(found) = later.next_if(|found| found.entry < entry) {
                self.matches.push(found);
            }
            while later.next_if(|found| found.entry == entry).is_some() {}
            self.search_entry(log, entry);
        }
        self.matches.extend(later);
        self.matches.truncate(MAX_MATCHES);
        self.current = self.matches.len().checked_sub(1).map(|last| {
            let at_or_after = |current| self.matches.partition_point(|found| *found < current);
            current.map_or(last, at_or_after).min(last)
        });
    }

    fn search_entry(&mut self, log: &EntryLog, index: usize) {
        let Some(entry) = log.entry(index).filter(|_| log.is_shown(index)) else {
            return;
        };
        for (section, EntrySection { content, .. }) in
            section::sections_of(entry, true).iter().enumerate()
        {
            let text = searchable_text(entry, content).unwrap_or_default();
            let room = MAX_MATCHES.saturating_sub(self.matches.len());
            let matches = self.query.find_iter(text).take(room);
            self.matches.extend(matches.map(|found| PageMatch {
                entry: index,
                section,
                offset: found.start(),
            }));
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
        (SectionContent::Markdown(markdown), _) => Some(markdown.text),
        (SectionContent::Head, TranscriptEntry::Call(call)) => Some(&call.line),
        (
            SectionContent::Head,
            TranscriptEntry::Folded { title, .. } | TranscriptEntry::Undone { title, .. },
        ) => Some(title),
        _ => None,
    }
}
