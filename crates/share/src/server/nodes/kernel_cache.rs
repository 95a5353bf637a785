//! Tracks what the kernel inside may have cached, and the folder watches that make caching safe.
//!
//! An entry is removed here only together with an invalidation. So this record always covers
//! everything in the kernel's cache.

use std::ffi::CStr;
use std::sync::Arc;

use super::{FileIdentity, FileVersion, Nodes, WatchState};

/// Limits the memory that watches take in the host's kernel.
const MAX_WATCHES: usize = 8192;
const MAX_ABSENT_ENTRIES: usize = 1 << 16;

/// What the kernel may have cached about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum CachedEntry {
    Unknown,
    Absent,
    Node(u64),
}

/// All watched folders with their known entries.
pub(in super::super) type WatchedFolders = Vec<(u64, Vec<Arc<CStr>>)>;

impl Nodes {
    /// Whether a folder is watched.
    pub(in super::super) fn is_watched(&self, folder: u64) -> bool {
        let node = self.known.get(&folder);
        node.is_some_and(|node| matches!(node.watch, WatchState::Kept(_)))
    }

    /// Whether a watch has not been tried yet and the limit is not reached.
    pub(in super::super) fn can_watch(&self, folder: u64) -> bool {
        let node = self.known.get(&folder);
        node.is_some_and(|node| node.watch == WatchState::NotYet)
            && self.watches.len() < MAX_WATCHES
    }

    /// Stores the result of adding a watch; `None` if it failed.
    pub(in super::super) fn set_watch(&mut self, folder: u64, watch: Option<i32>) {
        let Some(node) = self.known.get_mut(&folder) else {
            return;
        };
        node.watch = match watch {
            Some(watch) => {
                self.watches.insert(watch, folder);
                WatchState::Kept(watch)
            }
            None => WatchState::Impossible,
        };
    }

    pub(in super::super) fn folder_of_watch(&self, watch: i32) -> Option<u64> {
        self.watches.get(&watch).copied()
    }

    /// Handles the end of a watch by the host's kernel: the folder was removed.
    pub(in super::super) fn end_watch(&mut self, watch: i32) {
        if let Some(folder) = self.watches.remove(&watch)
            && let Some(node) = self.known.get_mut(&folder)
            && node.watch == WatchState::Kept(watch)
        {
            node.watch = WatchState::Impossible;
        }
    }

    /// Whether the attributes of a node may be cached: a folder must be watched itself, a file's most
    /// recent folder must be watched.
    pub(in super::super) fn is_observed(&self, number: u64) -> bool {
        let Some(node) = self.known.get(&number) else {
            return false;
        };
        if node.identity.is_folder() {
            self.is_watched(number)
        } else {
            let place = node.places.last();
            place.is_some_and(|place| self.is_watched(place.folder))
        }
    }

    pub(in super::super) fn tell(&mut self, number: u64, version: FileVersion) {
        if let Some(node) = self.known.get_mut(&number) {
            node.told = Some(version);
        }
    }

    pub(in super::super) fn told(&self, number: u64) -> Option<FileVersion> {
        self.known.get(&number)?.told
    }

    pub(in super::super) fn clear_known_version(&mut self, number: u64) {
        if let Some(node) = self.known.get_mut(&number) {
            node.told = None;
        }
    }

    pub(in super::super) fn child(&self, folder: u64, name: &CStr) -> CachedEntry {
        let folder = self.known.get(&folder);
        match folder.and_then(|folder| folder.children.get(name)) {
            None => CachedEntry::Unknown,
            Some(None) => CachedEntry::Absent,
            Some(Some(node)) => CachedEntry::Node(*node),
        }
    }

    /// Records an entry as cached as absent; false if there are too many.
    pub(in super::super) fn tell_absent(&mut self, folder: u64, name: &CStr) -> bool {
        self.take(folder, name);
        let has_room = self.absent < MAX_ABSENT_ENTRIES;
        if let Some(node) = self.known.get_mut(&folder)
            && has_room
        {
            node.children.insert(name.into(), None);
            self.absent += 1;
        }
        has_room
    }

    pub(in super::super) fn by_identity(&self, identity: &FileIdentity) -> Option<u64> {
        self.by_identity.get(identity).copied()
    }

    pub(in super::super) fn has_writers(&self, number: u64) -> bool {
        self.known.get(&number).is_some_and(|node| node.writers > 0)
    }

    pub(in super::super) fn add_writer(&mut self, number: u64) {
        if let Some(node) = self.known.get_mut(&number) {
            node.writers += 1;
        }
    }

    pub(in super::super) fn remove_writer(&mut self, number: u64) {
        if let Some(node) = self.known.get_mut(&number) {
            node.writers = node.writers.saturating_sub(1);
        }
    }

    pub(in super::super) fn everything(&self) -> WatchedFolders {
        let folders = self.watches.values();
        folders
            .filter_map(|folder| {
                let node = self.known.get(folder)?;
                Some((*folder, node.children.keys().cloned().collect()))
            })
            .collect()
    }
}
