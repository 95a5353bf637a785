//! The kernel's calls for project quotas, with their structures. The only `unsafe` code of this module tree.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

use super::label::ProjectLabel;

/// `PRJQUOTA`.
const PROJECT_QUOTA: i32 = 2;

const GET_QUOTA: i32 = 0x80_0007;
const SET_QUOTA: i32 = 0x80_0008;
const GET_NEXT_QUOTA: i32 = 0x80_0009;
/// `Q_XGETQSTAT`.
const GET_QUOTA_STATE: i32 = (b'X' as i32) << 8 | 5;

/// `FS_QUOTA_PDQ_ENFD`: limits of projects are enforced, not only counted.
const PROJECT_ENFORCED: u16 = 1 << 5;

/// `QIF_LIMITS`: the fields of a [`QuotaRecord`] that a call sets.
const VALID_LIMITS: u32 = 1 | 4;

/// The unit of limits on space, in bytes.
const QUOTA_BLOCK_BYTES: u64 = 1024;

/// `FS_XFLAG_PROJINHERIT`.
const INHERIT_PROJECT_FLAG: u32 = 0x200;

/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`, as on all but some old architectures.
const GET_ATTRIBUTES: libc::Ioctl = 0x801c_581f;
const SET_ATTRIBUTES: libc::Ioctl = 0x401c_5820;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FileAttributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

/// `struct if_nextdqblk`, which begins as `struct if_dqblk`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct QuotaRecord {
    block_hard: u64,
    block_soft: u64,
    used_bytes: u64,
    inode_hard: u64,
    inode_soft: u64,
    used_inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
    id: u32,
}

/// Limits and usage of a project. A limit of 0 means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProjectLimits {
    pub bytes: u64,
    pub inodes: u64,
    pub used_bytes: u64,
    pub used_inodes: u64,
}

impl ProjectLimits {
    pub(super) fn is_limited(self) -> bool {
        self.bytes > 0 || self.inodes > 0
    }
}

/// Calls `quotactl_fd` for the file system of a file.
fn quota_call<T>(file: &File, command: i32, id: u32, argument: &mut T) -> io::Result<()> {
    let command = (command << 8) | PROJECT_QUOTA;
    // SAFETY: the argument outlives the call and is the structure that the command takes.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            file.as_raw_fd(),
            command,
            id,
            &raw mut *argument,
        )
    };
    Errno::result(returned)?;
    Ok(())
}

/// Fails if the file system does not enforce the limits of projects.
pub(super) fn check_enforced(file: &File) -> io::Result<()> {
    // `struct fs_quota_stat` begins with a version and 16 bits of flags; the array is larger than it.
    let mut state = [0u16; 64];
    quota_call(file, GET_QUOTA_STATE, 0, &mut state)?;
    match state[1] & PROJECT_ENFORCED {
        0 => Err(Errno::ESRCH.into()),
        _ => Ok(()),
    }
}

pub(super) fn limits(file: &File, id: u32) -> io::Result<ProjectLimits> {
    let mut quota = QuotaRecord::default();
    match quota_call(file, GET_QUOTA, id, &mut quota) {
        Ok(()) => Ok(ProjectLimits {
            bytes: quota.block_hard.saturating_mul(QUOTA_BLOCK_BYTES),
            inodes: quota.inode_hard,
            used_bytes: quota.used_bytes,
            used_inodes: quota.used_inodes,
        }),
        // xfs reports this if no file has the id.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(ProjectLimits::default()),
        Err(error) => Err(error),
    }
}

pub(super) fn set_limits(file: &File, id: u32, limits: ProjectLimits) -> io::Result<()> {
    let mut quota = QuotaRecord {
        block_hard: limits.bytes.div_ceil(QUOTA_BLOCK_BYTES),
        inode_hard: limits.inodes,
        valid: VALID_LIMITS,
        ..QuotaRecord::default()
    };
    quota_call(file, SET_QUOTA, id, &mut quota)
}

/// The first project that the file system knows, from this id on.
pub(super) fn next_project(file: &File, id: u32) -> io::Result<Option<u32>> {
    let mut quota = QuotaRecord::default();
    match quota_call(file, GET_NEXT_QUOTA, id, &mut quota) {
        Ok(()) => Ok(Some(quota.id)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn attributes(file: &File) -> io::Result<FileAttributes> {
    let mut attributes = FileAttributes::default();
    // SAFETY: the structure is the one that the request writes, and outlives the call.
    let returned = unsafe { libc::ioctl(file.as_raw_fd(), GET_ATTRIBUTES, &raw mut attributes) };
    Errno::result(returned)?;
    Ok(attributes)
}

/// The project of a file.
pub(super) fn label_of(file: &File) -> io::Result<ProjectLabel> {
    let attributes = attributes(file)?;
    Ok(ProjectLabel {
        id: attributes.project,
        is_inherited: attributes.flags & INHERIT_PROJECT_FLAG != 0,
    })
}

/// Assigns a file to a project. If the label of a folder is inherited, its new files get it too.
pub(super) fn set_label(file: &File, label: ProjectLabel) -> io::Result<()> {
    let mut attributes = attributes(file)?;
    attributes.project = label.id;
    attributes.flags &= !INHERIT_PROJECT_FLAG;
    if label.is_inherited {
        attributes.flags |= INHERIT_PROJECT_FLAG;
    }
    // SAFETY: the structure is the one that the request reads, and outlives the call.
    let returned = unsafe { libc::ioctl(file.as_raw_fd(), SET_ATTRIBUTES, &raw const attributes) };
    Errno::result(returned)?;
    Ok(())
}
