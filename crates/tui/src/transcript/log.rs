//! All entries in order, and which of them are open or hidden.
//!
//! An entry keeps its index for ever: a removed one becomes [`TranscriptEntry::Gone`], so that a view, a
//! selection and a search can refer to indices.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use protocol::{CallId, SessionId};

use super::entry::TranscriptEntry;

#[derive(Debug, Default)]
pub(super) struct EntryLog {
    items: Vec<LogItem>,
    /// Estimated number of lines of each item.
    weights: Vec<u32>,
    /// Calls are open by default.
    are_calls_open: bool,
    is_thinking_open: bool,
    /// Items that changed since the last [`EntryLog::take_changed`].
    changed: Vec<usize>,
    pub(super) state: FoldState,
}

/// State of the fold over events.
#[derive(Debug, Default)]
pub(super) struct FoldState {
    /// The last stored event.
    pub(super) seq: Option<(SessionId, u64)>,
    pub(super) turn: u32,
    /// Start of the turn.
    pub(super) started_at: Option<Timestamp>,
    /// Entries of the reply that is being received.
    pub(super) partial: Vec<usize>,
    pub(super) calls: HashMap<CallId, usize>,
    /// Calls that have not ended.
    pub(super) open_calls: Vec<usize>,
    /// Calls with running background jobs.
    pub(super) background: Vec<usize>,
    pub(super) plan: Option<usize>,
    pub(super) retry: Option<usize>,
    /// Undo entries that can be redone.
    pub(super) undone: Vec<usize>,
    /// Files already reported as not covered by an undo.
    pub(super) reported_files: HashSet<String>,
}

#[derive(Debug)]
pub(super) struct LogItem {
    pub(super) entry: TranscriptEntry,
    pub(super) turn: u32,
    /// Number of changes.
    pub(super) revision: u32,
    /// Set by the user.
    open: Option<bool>,
    /// The undo entry that hides it.
    pub(super) hidden_by: Option<usize>,
}

impl EntryLog {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&LogItem> {
        self.items.get(index)
    }

    pub(super) fn entry(&self, index: usize) -> Option<&TranscriptEntry> {
        self.items.get(index).map(|item| &item.entry)
    }

    /// Adds an entry to the current turn.
    pub(super) fn push(&mut self, entry: TranscriptEntry) -> usize {
        let index = self.items.len();
        self.items.push(LogItem {
            entry,
            turn: self.state.turn,
            revision: 0,
            open: None,
            hidden_by: None,
        });
        self.weights.push(0);
        self.touch(index);
        index
    }

    pub(super) fn change(&mut self, index: usize, change: impl FnOnce(&mut TranscriptEntry)) {
        if let Some(item) = self.items.get_mut(index) {
            change(&mut item.entry);
            item.revision = item.revision.wrapping_add(1);
            self.touch(index);
        }
    }

    pub(super) fn set_turn(&mut self, index: usize, turn: u32) {
        if let Some(item) = self.items.get_mut(index) {
            item.turn = turn;
        }
    }

    pub(super) fn hide(&mut self, index: usize, by: Option<usize>) {
        if let Some(item) = self.items.get_mut(index) {
            item.hidden_by = by;
            self.touch(index);
        }
    }

    pub(super) fn is_shown(&self, index: usize) -> bool {
        let Some(item) = self.items.get(index) else {
            return false;
        };
        // An undo entry comes after the entries that it hides, so the recursion ends.
        let is_hidden = item
            .hidden_by
            .is_some_and(|by| by <= index || !self.is_open(by) || !self.is_shown(by));
        !is_hidden && !item.entry.is_blank()
    }

    /// Whether the entry was undone.
    pub(super) fn is_void(&self, index: usize) -> bool {
        self.items
            .get(index)
            .is_some_and(|item| item.hidden_by.is_some())
    }

    pub(super) fn is_open(&self, index: usize) -> bool {
        let Some(item) = self.items.get(index) else {
            return false;
        };
        item.open.unwrap_or(match &item.entry {
            TranscriptEntry::Call(_) => self.are_calls_open || self.state.plan == Some(index),
            TranscriptEntry::Thinking(_) => self.is_thinking_open,
            _ => false,
        })
    }

    pub(super) fn opens(&self, index: usize) -> bool {
        self.is_shown(index) && self.items[index].entry.opens()
    }

    pub(super) fn set_open(&mut self, index: usize, is_open: bool) {
        let Some(item) = self.items.get_mut(index) else {
            return;
        };
        item.open = Some(is_open);
        self.update_estimate(index);
        if matches!(self.items[index].entry, TranscriptEntry::Undone { .. }) {
            // The hidden entries become visible or invisible.
            for hidden in 0..index {
                if self.is_void(hidden) {
                    self.touch(hidden);
                }
            }
        }
    }

    /// Opens or closes all calls.
    pub(super) fn toggle_calls(&mut self) {
        self.are_calls_open = !self.are_calls_open;
        self.reset_open(|entry| matches!(entry, TranscriptEntry::Call(_)));
    }

    pub(super) fn toggle_thinking(&mut self) {
        self.is_thinking_open = !self.is_thinking_open;
        self.reset_open(|entry| matches!(entry, TranscriptEntry::Thinking(_)));
    }

    fn reset_open(&mut self, is_meant: impl Fn(&TranscriptEntry) -> bool) {
        for item in &mut self.items {
            if is_meant(&item.entry) {
                item.open = None;
            }
        }
        self.update_all_estimates();
    }

    /// Estimated number of lines of the first entries.
    pub(super) fn weight(&self, entries: usize) -> usize {
        let first = &self.weights[..entries.min(self.weights.len())];
        first.iter().map(|weight| *weight as usize).sum()
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The items that changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    fn touch(&mut self, index: usize) {
        self.update_estimate(index);
        if self.changed.last() != Some(&index) {
            self.changed.push(index);
        }
    }

    fn update_estimate(&mut self, index: usize) {
        self.weights[index] = if self.is_shown(index) {
            self.items[index].entry.weight(self.is_open(index))
        } else {
            0
        };
    }

    fn update_all_estimates(&mut self) {
        for index in 0..self.items.len() {
            self.update_estimate(index);
        }
    }
}
