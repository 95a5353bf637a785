//! Reads the attributes of a file and writes them to a reply. Never follows a symlink.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::Errno;

use crate::abi::{FILE_TYPE_MASK, FOLDER, REGULAR};
use crate::wire::FuseReply;

/// Identifies a file independent of its name. The birth time distinguishes a file from an earlier one
/// with the same inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
    kind: u32,
}

impl FileIdentity {
    pub(super) fn device(&self) -> (u32, u32) {
        self.device
    }

    pub(super) fn is_folder(&self) -> bool {
        self.kind == FOLDER
    }

    pub(super) fn is_regular(&self) -> bool {
        self.kind == REGULAR
    }
}

/// Distinguishes versions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersion {
    changed: (i64, u32),
    modified: (i64, u32),
    size: u64,
}

impl FileVersion {
    /// Time of the last change of content or metadata: seconds and nanoseconds.
    pub(super) fn changed(&self) -> (i64, u32) {
        self.changed
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stat(Statx);

impl Stat {
    /// Attributes of an entry of a folder.
    pub(super) fn of(folder: impl AsFd, name: &CStr) -> Result<Self, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        statx(folder, name, flags, mask).map(Self)
    }

    /// Attributes of an open file or path.
    pub(super) fn of_open(file: impl AsFd) -> Result<Self, Errno> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        statx(file, c"", AtFlags::EMPTY_PATH, mask).map(Self)
    }

    pub(super) fn identity(&self) -> FileIdentity {
        let has_birth = self.0.stx_mask & StatxFlags::BTIME.bits() != 0;
        FileIdentity {
            device: (self.0.stx_dev_major, self.0.stx_dev_minor),
            inode: self.0.stx_ino,
            born: if has_birth {
                timestamp(&self.0.stx_btime)
            } else {
                (0, 0)
            },
            kind: self.kind(),
        }
    }

    pub(super) fn version(&self) -> FileVersion {
        FileVersion {
            changed: timestamp(&self.0.stx_ctime),
            modified: timestamp(&self.0.stx_mtime),
            size: self.0.stx_size,
        }
    }

    pub(super) fn kind(&self) -> u32 {
        u32::from(self.0.stx_mode) & FILE_TYPE_MASK
    }

    /// Number of hard links.
    pub(super) fn links(&self) -> u32 {
        self.0.stx_nlink
    }

    pub(super) fn owner(&self) -> (u32, u32) {
        (self.0.stx_uid, self.0.stx_gid)
    }

    /// Writes the attributes in the format of the protocol.
    pub(super) fn write(&self, reply: &mut FuseReply) {
        let stat = &self.0;
        reply.u64(stat.stx_ino);
        reply.u64(stat.stx_size);
        reply.u64(stat.stx_blocks);
        for time in [&stat.stx_atime, &stat.stx_mtime, &stat.stx_ctime] {
            // Times before 1970 keep their bits.
            reply.u64(time.tv_sec as u64);
        }
        for time in [&stat.stx_atime, &stat.stx_mtime, &stat.stx_ctime] {
            reply.u32(time.tv_nsec);
        }
        reply.u32(u32::from(stat.stx_mode));
        reply.u32(stat.stx_nlink);
        reply.u32(stat.stx_uid);
        reply.u32(stat.stx_gid);
        reply.u32(device_number(stat.stx_rdev_major, stat.stx_rdev_minor));
        reply.u32(stat.stx_blksize);
        reply.u32(0);
    }
}

fn timestamp(time: &StatxTimestamp) -> (i64, u32) {
    (time.tv_sec, time.tv_nsec)
}

/// The 32-bit device number in the kernel's encoding.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}
