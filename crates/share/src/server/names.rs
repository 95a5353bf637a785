//! Removes and renames entries. The only module that removes anything.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};

use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;

use super::nodes::Nodes;
use super::stat::Stat;
use super::{ShareServer, lock};
use crate::wire::Fields;

/// A node that may lose its last name while the kernel inside still knows it.
type RemovedEntry = Option<(u64, Arc<OwnedFd>)>;

impl ShareServer {
    /// Exclusive lock on names.
    pub(super) fn lock_names_exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remove(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        is_folder: bool,
    ) -> Result<(), Errno> {
        let name = fields.name()?;
        let flags = if is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let _names = self.lock_names_exclusive();
        let open = self.folder(folder)?;
        let leaving = self.leaving(folder, &open, name);
        unlinkat(&open, name, flags)?;
        lock(&self.nodes).take(folder, name);
        self.hold_unlinked(leaving);
        Ok(())
    }

    pub(super) fn rename(
        &self,
        from: u64,
        mut fields: Fields<'_>,
        has_flags: bool,
    ) -> Result<(), Errno> {
        let to = fields.u64()?;
        let flags = if has_flags {
            let flags = fields.u32()?;
            fields.u32()?;
            flags
        } else {
            0
        };
        let (name, new_name) = (fields.name()?, fields.name()?);
        let flags = match RenameFlags::from_bits_retain(flags) {
            flags if flags.is_empty() => flags,
            flags if flags == RenameFlags::NOREPLACE || flags == RenameFlags::EXCHANGE => flags,
            _ => return Err(Errno::INVAL),
        };
        let _names = self.lock_names_exclusive();
        let (old_folder, new_folder) = (self.folder(from)?, self.folder(to)?);
        let leaving = if flags == RenameFlags::EXCHANGE {
            None
        } else {
            self.leaving(to, &new_folder, new_name)
        };
        renameat_with(&old_folder, name, &new_folder, new_name, flags)?;
        let mut nodes = lock(&self.nodes);
        if flags == RenameFlags::EXCHANGE {
            exchange_entries(&mut nodes, (from, name), (to, new_name))
        } else {
            move_entry(&mut nodes, (from, name), (to, new_name))
        }
        drop(nodes);
        self.hold_unlinked(leaving);
        Ok(())
    }

    /// Opens an entry before it is removed, if the kernel knows it.
    fn leaving(&self, folder: u64, open: &OwnedFd, name: &CStr) -> RemovedEntry {
        let node = lock(&self.nodes).entry(folder, name)?;
        let identity = lock(&self.nodes).identity(node).ok()?;
        let path = self.open_entry(open, name).ok()?;
        let is_same = Stat::of_open(&path).ok()?.identity() == identity;
        is_same.then(|| (node, Arc::new(path)))
    }

    /// Keeps a file without a name open while the kernel knows it.
    fn hold_unlinked(&self, leaving: RemovedEntry) {
        let Some((node, path)) = leaving else {
            return;
        };
        let is_gone = Stat::of_open(&path).is_ok_and(|stat| stat.links() == 0);
        let mut nodes = lock(&self.nodes);
        if is_gone {
            nodes.detach(node);
        }
        nodes.hold(node, path);
    }
}

type EntryKey<'a> = (u64, &'a CStr);

fn move_entry(nodes: &mut Nodes, from: EntryKey<'_>, to: EntryKey<'_>) {
    let moved = nodes.entry(from.0, from.1);
    // Two names of one file: `rename` does nothing then.
    if moved.is_some() && moved == nodes.entry(to.0, to.1) {
        return;
    }
    nodes.take(from.0, from.1);
    nodes.take(to.0, to.1);
    if let Some(moved) = moved {
        nodes.put(to.0, to.1, moved);
    }
}

fn exchange_entries(nodes: &mut Nodes, one: EntryKey<'_>, other: EntryKey<'_>) {
    let was_one = nodes.take(one.0, one.1);
    let was_other = nodes.take(other.0, other.1);
    if let Some(node) = was_one {
        nodes.put(other.0, other.1, node);
    }
    if let Some(node) = was_other {
        nodes.put(one.0, one.1, node);
    }
}
