//! Reads and changes attributes of files, as far as the sandbox's user may. Never sets a setuid or
//! setgid bit and never gives a file to another user.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmodat, chownat,
    fstatvfs, ftruncate, utimensat,
};
use rustix::io::Errno;

use super::resolve::fd_name;
use super::stat::Stat;
use super::{ShareServer, lock};
use crate::abi::{GETATTR_BY_HANDLE, PERMISSIONS_MASK, SETUID_OR_SETGID, set};
use crate::wire::{Fields, FuseReply};

/// The attribute changes of a request.
#[derive(Debug)]
struct AttributeChanges {
    which: u32,
    handle: u64,
    size: u64,
    accessed: (u64, u32),
    modified: (u64, u32),
    mode: u32,
    uid: u32,
    gid: u32,
}

impl AttributeChanges {
    fn parse(mut fields: Fields<'_>) -> Result<Self, Errno> {
        let which = fields.u32()?;
        fields.u32()?;
        let (handle, size) = (fields.u64()?, fields.u64()?);
        // Lock owner.
        fields.u64()?;
        let (accessed, modified) = (fields.u64()?, fields.u64()?);
        // The change time cannot be set.
        fields.u64()?;
        let (accessed_part, modified_part) = (fields.u32()?, fields.u32()?);
        fields.u32()?;
        let mode = fields.u32()?;
        fields.u32()?;
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        Ok(Self {
            which,
            handle,
            size,
            accessed: (accessed, accessed_part),
            modified: (modified, modified_part),
            mode,
            uid,
            gid,
        })
    }

    fn has(&self, which: u32) -> bool {
        self.which & which != 0
    }

    fn times(&self) -> Result<Timestamps, Errno> {
        let time = |sets, now, (seconds, part): (u64, u32)| {
            let part = match (self.has(sets), self.has(now)) {
                (false, _) => UTIME_OMIT,
                (true, true) => UTIME_NOW,
                (true, false) if part < 1_000_000_000 => part.into(),
                (true, false) => return Err(Errno::INVAL),
            };
            Ok(Timespec {
                tv_sec: seconds as i64,
                tv_nsec: part,
            })
        };
        Ok(Timestamps {
            last_access: time(set::ACCESSED, set::ACCESSED_NOW, self.accessed)?,
            last_modification: time(set::MODIFIED, set::MODIFIED_NOW, self.modified)?,
        })
    }
}

impl ShareServer {
    pub(super) fn get_attributes(
        &self,
        node: u64,
        mut fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let flags = fields.u32()?;
        fields.u32()?;
        let handle = fields.u64()?;
        let _names = self.lock_names_shared();
        let stat = match flags & GETATTR_BY_HANDLE {
            0 => self.stat(node)?,
            _ => Stat::of_open(&lock(&self.handles).file(handle)?.file)?,
        };
        write_attributes(&stat, self.attribute_ttl(node, &stat), reply);
        Ok(())
    }

    pub(super) fn set_attributes(
        &self,
        node: u64,
        fields: Fields<'_>,
        reply: &mut FuseReply,
    ) -> Result<(), Errno> {
        let changes = AttributeChanges::parse(fields)?;
        let _names = self.lock_names_shared();
        let open = if changes.has(set::HANDLE) {
            Some(lock(&self.handles).file(changes.handle)?)
        } else {
            None
        };
        let object = match &open {
            Some(handle) => Arc::clone(&handle.file),
            None => self.object(node)?,
        };
        let before = Stat::of_open(&object)?;
        // Check everything before the first change.
        if changes.has(set::MODE) && changes.mode & SETUID_OR_SETGID != 0 {
            return Err(Errno::PERM);
        }
        let owner = self.new_owner(&changes, &before)?;
        let times = changes.times()?;
        if changes.has(set::SIZE) {
            self.set_size(open.is_some(), &object, &before, changes.size)?;
        }
        if changes.has(set::UID | set::GID) {
            chownat(&object, c"", owner.0, owner.1, AtFlags::EMPTY_PATH)?;
        }
        if changes.has(set::MODE) {
            let mode = Mode::from_raw_mode(changes.mode & PERMISSIONS_MASK);
            chmodat(&self.descriptors, fd_name(&object), mode, AtFlags::empty())?;
        }
        if changes.has(set::ACCESSED | set::MODIFIED) {
            utimensat(
                &self.descriptors,
                fd_name(&object),
                &times,
                AtFlags::empty(),
            )?;
        }
        write_attributes(&Stat::of_open(&object)?, 0, reply);
        Ok(())
    }

    /// The owner can only stay the same or become the user of this process.
    fn new_owner(
        &self,
        changes: &AttributeChanges,
        before: &Stat,
    ) -> Result<(Option<Uid>, Option<Gid>), Errno> {
        let (uid, gid) = before.owner();
        let may = |asked, now, own| {
            if asked == now || asked == own {
                Ok(())
            } else {
                Err(Errno::PERM)
            }
        };
        let (mut new_uid, mut new_gid) = (None, None);
        if changes.has(set::UID) {
            may(changes.uid, uid, self.owner.0)?;
            new_uid = Some(Uid::from_raw(changes.uid));
        }
        if changes.has(set::GID) {
            may(changes.gid, gid, self.owner.1)?;
            new_gid = Some(Gid::from_raw(changes.gid));
        }
        Ok((new_uid, new_gid))
    }

    fn set_size(
        &self,
        is_open: bool,
        object: &OwnedFd,
        before: &Stat,
        size: u64,
    ) -> Result<(), Errno> {
        if !before.identity().is_regular() {
            return Err(Errno::INVAL);
        }
        if i64::try_from(size).is_err() {
            return Err(Errno::FBIG);
        }
        if is_open {
            ftruncate(object, size)
        } else {
            ftruncate(self.reopen(object, OFlags::WRONLY)?, size)
        }
    }

    /// Also serves as a barrier: replies after the invalidations for all earlier changes of the host.
    pub(super) fn stat_file_system(&self, reply: &mut FuseReply) -> Result<(), Errno> {
        self.process_host_events().map_err(|_| Errno::IO)?;
        let state = fstatvfs(&self.root)?;
        for count in [
            state.f_blocks,
            state.f_bfree,
            state.f_bavail,
            state.f_files,
            state.f_ffree,
        ] {
            reply.u64(count);
        }
        reply.u32(state.f_bsize as u32);
        reply.u32(state.f_namemax as u32);
        reply.u32(state.f_frsize as u32);
        reply.extend(&[0; 28]);
        Ok(())
    }
}

fn write_attributes(stat: &Stat, term: u64, reply: &mut FuseReply) {
    reply.term(term);
    reply.u32(0);
    reply.u32(0);
    stat.write(reply);
}
