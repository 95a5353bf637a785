//! Compares the cache of the kernel inside with the folder, and invalidates outdated entries.
//!
//! Only differences are sent, so a change that was made inside causes no invalidation. Runs with the
//! exclusive lock on names: no lookup is between its `stat` of a file and the update of the node.

use std::ffi::CStr;
use std::io;

use rustix::fs::inotify::ReadFlags;

use super::nodes::CachedEntry;
use super::stat::{FileIdentity, FileVersion, Stat};
use super::{ShareServer, lock};
use crate::abi::notice;
use crate::wire::FuseReply;

impl ShareServer {
    /// Handles an inotify event of a folder or one of its entries.
    pub(super) fn handle_event(
        &self,
        watch: i32,
        name: Option<&CStr>,
        flags: ReadFlags,
    ) -> io::Result<()> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.recheck_all();
        }
        let folder = lock(&self.nodes).folder_of_watch(watch);
        if flags.contains(ReadFlags::IGNORED) {
            lock(&self.nodes).end_watch(watch);
        }
        let Some(folder) = folder else {
            return Ok(());
        };
        let contents = ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE;
        if let Some(name) = name {
            self.recheck_entry(folder, name, flags.intersects(contents))?;
        }
        if contents.contains(flags) {
            Ok(())
        } else {
            self.recheck_folder(folder)
        }
    }

    /// After an overflow of the event queue.
    fn recheck_all(&self) -> io::Result<()> {
        let everything = lock(&self.nodes).everything();
        for (folder, names) in everything {
            for name in names {
                self.recheck_entry(folder, &name, true)?;
            }
            self.recheck_folder(folder)?;
        }
        Ok(())
    }

    fn recheck_folder(&self, folder: u64) -> io::Result<()> {
        let now = self.stat(folder).ok().map(|stat| stat.version());
        self.recheck_attributes(folder, now, false)
    }

    /// Compares an entry with the kernel's cache.
    fn recheck_entry(&self, folder: u64, name: &CStr, is_content: bool) -> io::Result<()> {
        let found = self
            .folder(folder)
            .and_then(|open| Stat::of(open, name))
            .ok();
        let identity = found.map(|stat| stat.identity());
        let nodes = lock(&self.nodes);
        let child = nodes.child(folder, name);
        let known = |node| nodes.identity(node).ok();
        let is_right = match child {
            CachedEntry::Unknown => true,
            CachedEntry::Absent => identity.is_none(),
            CachedEntry::Node(node) => identity.is_some() && identity == known(node),
        };
        // The kernel may know the file by another name as well.
        let node = identity.and_then(|identity: FileIdentity| nodes.by_identity(&identity));
        drop(nodes);
        if !is_right {
            lock(&self.nodes).take(folder, name);
            self.invalidate_entry(folder, name)?;
            if let CachedEntry::Node(node) = child {
                self.recheck_attributes(node, None, false)?;
            }
        }
        match (node, found) {
            (Some(node), Some(stat)) => {
                self.recheck_attributes(node, Some(stat.version()), is_content)
            }
            _ => Ok(()),
        }
    }

    fn recheck_attributes(
        &self,
        node: u64,
        now: Option<FileVersion>,
        is_content: bool,
    ) -> io::Result<()> {
        let mut nodes = lock(&self.nodes);
        let told = nodes.told(node);
        // Writes by the machine itself leave its cached content valid.
        let is_foreign = is_content && !nodes.has_writers(node);
        let is_right = match told {
            None => !is_foreign,
            Some(_) => told == now,
        };
        if is_right {
            return Ok(());
        }
        nodes.clear_known_version(node);
        drop(nodes);
        self.invalidate_attributes(node, is_foreign)
    }

    pub(super) fn invalidate_attributes(&self, node: u64, has_content: bool) -> io::Result<()> {
        let mut message = FuseReply::default();
        message.begin();
        message.u64(node);
        // Offset and length of the content to invalidate. Offset -1: no content; length 0: to the end.
        message.u64(if has_content { 0 } else { u64::MAX });
        message.u64(0);
        self.notify(message.finish_notice(notice::INVALIDATE_INODE))
    }

    fn invalidate_entry(&self, folder: u64, name: &CStr) -> io::Result<()> {
        let mut message = FuseReply::default();
        message.begin();
        message.u64(folder);
        message.u32(name.count_bytes() as u32);
        message.u32(0);
        message.extend(name.to_bytes_with_nul());
        self.notify(message.finish_notice(notice::INVALIDATE_ENTRY))
    }
}
