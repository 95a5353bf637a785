//! Lists folders. A listed entry with attributes counts as looked up by the kernel.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, RawDir, RawDirEntry, SeekFrom, seek};
use rustix::io::Errno;

use super::entries::ENTRY_LEN;
use super::handles::HandleKind;
use super::stat::Stat;
use super::{ShareServer, lock};
use crate::abi::MAX_CONTENT_BYTES;
use crate::wire::{Fields, FuseReply};

/// Length of the header before the name of a listed entry.
const DIRENT_HEADER_LEN: usize = 24;
/// Bytes per read of a folder. No entry is longer.
const READ_DIR_BUFFER_BYTES: usize = 4096;

impl ShareServer {
    pub(super) fn open_folder(&self, node: u64, reply: &mut FuseReply) -> Result<(), Errno> {
        let _names = self.lock_names_shared();
        lock(&self.handles).check_capacity()?;
        let path = self.folder(node)?;
        self.watch(node, &path);
        let folder = self.reopen(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let handle = lock(&self.handles).add(Arc::new(folder), node, HandleKind::Folder);
        reply.u64(handle);
        reply.u32(0);
        reply.u32(0);
        Ok(())
    }

    /// Lists from the position that came with the last entry the kernel has read.
    pub(super) fn read_folder(
        &self,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
        has_attributes: bool,
    ) -> Result<(), Errno> {
        let (number, position, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let size = (size as usize).min(MAX_CONTENT_BYTES);
        let handle = lock(&self.handles).folder(number)?;
        let _names = self.lock_names_shared();
        let _reading = lock(&handle.reading);
        // A hostile kernel may send any position: all of them are safe.
        seek(&handle.file, SeekFrom::Start(position))?;
        let mut buffer = [MaybeUninit::uninit(); READ_DIR_BUFFER_BYTES];
        let mut entries = RawDir::new(&*handle.file, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let length = (DIRENT_HEADER_LEN + name.len()).next_multiple_of(8);
            let length = length + if has_attributes { ENTRY_LEN } else { 0 };
            if reply.length() + length > size {
                return match reply.length() {
                    0 => Err(Errno::INVAL),
                    _ => Ok(()),
                };
            }
            if has_attributes {
                self.write_entry_or_zeros(handle.node, &handle.file, &entry, reply);
            }
            reply.u64(entry.ino());
            reply.u64(entry.next_entry_cookie());
            reply.u32(name.len() as u32);
            // The file type is in the bits above the permissions.
            reply.u32(entry.file_type().as_raw_mode() >> 12);
            reply.extend(name);
            reply.align();
        }
        Ok(())
    }

    /// Writes the attributes of an entry, or zeros if the kernel has to look it up.
    fn write_entry_or_zeros(
        &self,
        folder: u64,
        open: &OwnedFd,
        entry: &RawDirEntry<'_>,
        reply: &mut FuseReply,
    ) {
        let name = entry.file_name();
        let is_itself = matches!(name.to_bytes(), b"." | b"..");
        let stat = if is_itself {
            None
        } else {
            Stat::of(open, name).ok()
        };
        let known = stat.is_some_and(|stat| self.write_entry(folder, name, &stat, reply).is_ok());
        if !known {
            reply.extend(&[0; ENTRY_LEN]);
        }
    }
}
