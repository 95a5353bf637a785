//! Opens, creates, reads and writes regular files. Opens no other kind of file.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, SeekFrom, copy_file_range, fdatasync, fsync, openat, seek};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

use super::entries::{unprivileged_mode, write_node};
use super::handles::HandleKind;
use super::stat::Stat;
use super::{ShareServer, lock};
use crate::abi::{MAX_CONTENT_BYTES, OPEN_KEEP_CACHE, SYNC_DATA_ONLY, WRITE_FROM_PAGE_CACHE};
use crate::wire::{Fields, FuseReply};

/// Most bytes of one copy, so that it does not occupy a worker for too long.
const MAX_COPY_BYTES: u64 = 64 << 20;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl ShareServer {
    pub(super) fn open(
        &self,
        node: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let flags = fields.u32()?;
        let _names = self.lock_names_shared();
        lock(&self.handles).check_capacity()?;
        let path = self.object(node)?;
        let file = self.open_regular(&path, flags)?;
        // If the cached attributes are still valid, so is the cached content.
        let told = lock(&self.nodes).told(node);
        let is_known = told.is_some() && told == Some(Stat::of_open(&file)?.version());
        let keeps = if is_known { OPEN_KEEP_CACHE } else { 0 };
        self.write_handle(Arc::new(file), node, access(flags), keeps, reply);
        Ok(())
    }

    pub(super) fn create(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let (flags, mode) = (fields.u32()?, fields.u32()?);
        fields.skip(8)?;
        let name = fields.name()?;
        let mode = unprivileged_mode(mode)?;
        let _names = self.lock_names_shared();
        lock(&self.handles).check_capacity()?;
        let open = self.folder(folder)?;
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&open, name, new | access(flags), mode) {
            // The file was created concurrently: open it.
            Err(Errno::EXIST) if !OFlags::from_bits_retain(flags).contains(OFlags::EXCL) => {
                self.open_regular(&self.open_entry(&open, name)?, flags)?
            }
            outcome => outcome?,
        };
        let stat = Stat::of_open(&file)?;
        let node = self.write_entry(folder, name, &stat, reply)?;
        self.write_handle(Arc::new(file), node, access(flags), 0, reply);
        Ok(())
    }

    /// Creates a file without a name (`O_TMPFILE`).
    pub(super) fn create_temp_file(
        &self,
        folder: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let (flags, mode) = (fields.u32()?, fields.u32()?);
        let mode = unprivileged_mode(mode)?;
        let _names = self.lock_names_shared();
        lock(&self.handles).check_capacity()?;
        let open = self.folder(folder)?;
        let new = OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = Arc::new(openat(&open, c".", new | access(flags), mode)?);
        let stat = Stat::of_open(&file)?;
        let held = Arc::clone(&file);
        let node = lock(&self.nodes).remember_nameless(stat.identity(), held)?;
        write_node(node, &stat, 0, 0, reply);
        self.write_handle(file, node, access(flags), 0, reply);
        Ok(())
    }

    fn open_regular(&self, path: &OwnedFd, flags: u32) -> Result<OwnedFd, Errno> {
        let identity = Stat::of_open(path)?.identity();
        if identity.is_folder() {
            return Err(Errno::ISDIR);
        }
        if !identity.is_regular() {
            return Err(Errno::NXIO);
        }
        let truncates = OFlags::from_bits_retain(flags) & OFlags::TRUNC;
        self.reopen(path, access(flags) | truncates)
    }

    fn write_handle(
        &self,
        file: Arc<OwnedFd>,
        node: u64,
        access: OFlags,
        flags: u32,
        reply: &mut FuseReply,
    ) {
        let is_written = access != OFlags::RDONLY;
        if is_written {
            lock(&self.nodes).add_writer(node);
        }
        let kind = if is_written {
            HandleKind::Written
        } else {
            HandleKind::Read
        };
        let handle = lock(&self.handles).add(file, node, kind);
        reply.u64(handle);
        reply.u32(flags);
        reply.u32(0);
    }

    pub(super) fn read(&self, mut fields: Fields<'_>, reply: &mut FuseReply) -> Result<(), Errno> {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let handle = lock(&self.handles).file(handle)?;
        let size = (size as usize).min(MAX_CONTENT_BYTES);
        reply.fill(size, |buffer| {
            let mut filled = 0;
            while filled < size {
                match pread(
                    &handle.file,
                    &mut buffer[filled..],
                    offset.saturating_add(filled as u64),
                ) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(Errno::INTR) => {}
                    Err(_) if filled > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        })
    }

    pub(super) fn write(&self, mut fields: Fields<'_>, reply: &mut FuseReply) -> Result<(), Errno> {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let origin = fields.u32()?;
        fields.u64()?;
        let flags = OFlags::from_bits_retain(fields.u32()?);
        fields.u32()?;
        let content = fields.rest();
        if content.len() != size as usize {
            return Err(Errno::INVAL);
        }
        let handle = lock(&self.handles).file(handle)?;
        // Append at the end as the host sees it. Writes from the page cache have a fixed offset.
        let appends = flags.contains(OFlags::APPEND) && origin & WRITE_FROM_PAGE_CACHE == 0;
        let mut written = 0;
        while written < content.len() {
            let rest = &content[written..];
            let outcome = if appends {
                let rest = [IoSlice::new(rest)];
                pwritev2(&handle.file, &rest, 0, ReadWriteFlags::APPEND)
            } else {
                pwrite(&handle.file, rest, offset.saturating_add(written as u64))
            };
            match outcome {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        reply.u32(written as u32);
        reply.u32(0);
        Ok(())
    }

    pub(super) fn seek(&self, mut fields: Fields<'_>, reply: &mut FuseReply) -> Result<(), Errno> {
        let (handle, offset, whence) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let handle = lock(&self.handles).file(handle)?;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        // The changed file position has no effect: reads and writes carry an offset.
        reply.u64(seek(&handle.file, to)?);
        Ok(())
    }

    pub(super) fn copy_range(
        &self,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let (from, mut from_offset) = (fields.u64()?, fields.u64()?);
        fields.u64()?;
        let (to, mut to_offset) = (fields.u64()?, fields.u64()?);
        let (length, flags) = (fields.u64()?, fields.u64()?);
        if flags != 0 {
            return Err(Errno::INVAL);
        }
        let handles = lock(&self.handles);
        let (from, to) = (handles.file(from)?, handles.file(to)?);
        drop(handles);
        let copied = copy_file_range(
            &from.file,
            Some(&mut from_offset),
            &to.file,
            Some(&mut to_offset),
            length.min(MAX_COPY_BYTES) as usize,
        )?;
        reply.u32(copied as u32);
        reply.u32(0);
        Ok(())
    }

    pub(super) fn sync(&self, mut fields: Fields<'_>, is_folder: bool) -> Result<(), Errno> {
        let (handle, flags) = (fields.u64()?, fields.u32()?);
        let handles = lock(&self.handles);
        let handle = if is_folder {
            handles.folder(handle)?
        } else {
            handles.file(handle)?
        };
        drop(handles);
        match flags & SYNC_DATA_ONLY {
            0 => fsync(&handle.file),
            _ => fdatasync(&handle.file),
        }
    }

    pub(super) fn release(&self, mut fields: Fields<'_>, is_folder: bool) -> Result<(), Errno> {
        let number = fields.u64()?;
        let mut handles = lock(&self.handles);
        if is_folder {
            handles.folder(number)?
        } else {
            handles.file(number)?
        };
        let closed = handles.remove(number);
        drop(handles);
        let Some(handle) = closed else {
            return Ok(());
        };
        let (node, kind) = (handle.node, handle.kind);
        drop(handle);
        if kind == HandleKind::Written {
            // Process the events of its own writes while it still counts as a writer.
            let outcome = self.process_host_events();
            lock(&self.nodes).remove_writer(node);
            outcome.map_err(|_| Errno::IO)?;
        }
        Ok(())
    }
}

/// The access mode. The kernel inside handles all other open flags.
fn access(flags: u32) -> OFlags {
    OFlags::from_bits_retain(flags) & OFlags::ACCMODE
}
