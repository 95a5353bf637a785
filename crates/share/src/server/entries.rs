//! Looks up and creates folder entries. Never replaces an existing entry.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::RwLockReadGuard;

use rustix::fs::{AtFlags, FileType, Mode, linkat, mkdirat, mknodat, readlinkat_raw, symlinkat};
use rustix::io::Errno;

use super::resolve::fd_name;
use super::stat::Stat;
use super::{ShareServer, lock};
use crate::abi::{
    FIFO, FILE_TYPE_MASK, PERMISSIONS_MASK, REGULAR, SETUID_OR_SETGID, SOCKET, SYMLINK,
};
use crate::wire::{Fields, FuseReply};

/// Length of an entry with its attributes in the protocol.
pub(super) const ENTRY_LEN: usize = 128;
/// Longest target of a symlink.
const MAX_LINK_TARGET_BYTES: usize = 4096;

impl ShareServer {
    /// Shared lock on names: this server removes and moves no entry while it is held.
    pub(super) fn lock_names_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look_up(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let name = fields.name()?;
        let _names = self.lock_names_shared();
        let open = self.folder(folder)?;
        self.watch(folder, &open);
        match self.reply_with_entry(folder, &open, name, reply) {
            Err(Errno::NOENT) => self.reply_absent(folder, name, reply),
            outcome => outcome,
        }
    }

    /// Replies with the current state of an entry. The kernel knows the entry from then on.
    pub(super) fn reply_with_entry(
        &self,
        folder: u64,
        open: &OwnedFd,
        name: &CStr,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let stat = Stat::of(open, name)?;
        self.write_entry(folder, name, &stat, reply)?;
        Ok(())
    }

    /// Replies that the entry does not exist, cacheable if possible.
    fn reply_absent(&self, folder: u64, name: &CStr, reply: &mut FuseReply) -> Result<(), Errno> {
        let term = self.entry_ttl(folder);
        if term == 0 || !lock(&self.nodes).tell_absent(folder, name) {
            return Err(Errno::NOENT);
        }
        reply.u64(0);
        reply.u64(0);
        reply.term(term);
        reply.extend(&[0; ENTRY_LEN - 24]);
        Ok(())
    }

    /// Writes an entry to the reply and returns its node number. The caller must have taken the shared
    /// lock on names before it got `stat`.
    pub(super) fn write_entry(
        &self,
        folder: u64,
        name: &CStr,
        stat: &Stat,
        reply: &mut FuseReply,
    ) -> Result<u64, Errno> {
        let node = lock(&self.nodes).remember(folder, name, stat.identity())?;
        write_node(
            node,
            stat,
            self.entry_ttl(folder),
            self.attribute_ttl(node, stat),
            reply,
        );
        Ok(node)
    }

    pub(super) fn read_link(&self, node: u64, reply: &mut FuseReply) -> Result<(), Errno> {
        let _names = self.lock_names_shared();
        let link = self.object(node)?;
        if Stat::of_open(&link)?.kind() != SYMLINK {
            return Err(Errno::INVAL);
        }
        reply.fill(MAX_LINK_TARGET_BYTES, |target| {
            readlinkat_raw(&link, c"", target)
        })
    }

    pub(super) fn make_symlink(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let name = fields.name()?;
        let target = fields.text()?;
        let _names = self.lock_names_shared();
        let open = self.folder(folder)?;
        symlinkat(target, &open, name)?;
        self.reply_with_entry(folder, &open, name, reply)
    }

    pub(super) fn make_node(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let mode = fields.u32()?;
        fields.skip(12)?;
        let name = fields.name()?;
        let kind = match mode & FILE_TYPE_MASK {
            REGULAR => FileType::RegularFile,
            FIFO => FileType::Fifo,
            SOCKET => FileType::Socket,
            // No devices.
            _ => return Err(Errno::PERM),
        };
        let mode = unprivileged_mode(mode)?;
        let _names = self.lock_names_shared();
        let open = self.folder(folder)?;
        mknodat(&open, name, kind, mode, 0)?;
        self.reply_with_entry(folder, &open, name, reply)
    }

    pub(super) fn make_folder(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let mode = fields.u32()?;
        fields.u32()?;
        let name = fields.name()?;
        // Dropped silently, as `mkdir` does.
        let mode = unprivileged_mode(mode & !SETUID_OR_SETGID)?;
        let _names = self.lock_names_shared();
        let open = self.folder(folder)?;
        mkdirat(&open, name, mode)?;
        self.reply_with_entry(folder, &open, name, reply)
    }

    pub(super) fn link(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let existing = fields.u64()?;
        let name = fields.name()?;
        let _names = self.lock_names_shared();
        let existing = self.object(existing)?;
        let open = self.folder(folder)?;
        linkat(
            &self.descriptors,
            fd_name(&existing),
            &open,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?;
        self.reply_with_entry(folder, &open, name, reply)
    }
}

/// The mode of a new file. Setuid and setgid bits are refused.
pub(super) fn unprivileged_mode(mode: u32) -> Result<Mode, Errno> {
    match mode & SETUID_OR_SETGID {
        0 => Ok(Mode::from_raw_mode(mode & PERMISSIONS_MASK)),
        _ => Err(Errno::PERM),
    }
}

/// Writes a node: number, cache lifetimes of its name and its attributes, and the attributes.
pub(super) fn write_node(
    node: u64,
    stat: &Stat,
    name: u64,
    attributes: u64,
    reply: &mut FuseReply,
) {
    reply.u64(node);
    // Generation: numbers are never reused.
    reply.u64(0);
    reply.term(name);
    reply.term(attributes);
    reply.u32(0);
    reply.u32(0);
    stat.write(reply);
}
