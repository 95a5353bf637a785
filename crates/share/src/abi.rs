//! Constants of the FUSE protocol, as in `linux/fuse.h`.

/// Supported protocol version. A kernel with another minor version adapts to it.
pub(crate) const FUSE_MAJOR_VERSION: u32 = 7;
pub(crate) const FUSE_MINOR_VERSION: u32 = 38;

/// Header of a request: length, operation, unique number, node, user, group, process, extensions.
pub(crate) const REQUEST_HEADER_LEN: usize = 40;
/// Header of a reply: length, error, unique number.
pub(crate) const REPLY_HEADER_LEN: usize = 16;

/// Most bytes of content in one read or write.
pub(crate) const MAX_CONTENT_BYTES: usize = 1 << 20;
/// Longest message in either direction.
pub(crate) const MAX_MESSAGE_BYTES: usize = MAX_CONTENT_BYTES + 4096;
pub(crate) const PAGE_BYTES: usize = 4096;

/// Opcode of the request that [`settle`](crate::settle) waits for.
pub(crate) const STATFS_OPCODE: u32 = 17;

/// Operation that a kernel requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FuseOperation {
    Lookup,
    Forget,
    GetAttributes,
    SetAttributes,
    ReadLink,
    Symlink,
    MakeNode,
    MakeFolder,
    Unlink,
    RemoveFolder,
    Rename,
    Link,
    Open,
    Read,
    Write,
    StatFileSystem,
    Release,
    Sync,
    Init,
    OpenFolder,
    ReadFolder,
    ReleaseFolder,
    SyncFolder,
    Create,
    Destroy,
    Ioctl,
    ForgetMany,
    ReadFolderPlus,
    RenameWith,
    Seek,
    CopyRange,
    Temporary,
    /// Any operation that is not implemented here.
    Unsupported,
}

impl FuseOperation {
    pub(crate) fn of(number: u32) -> Self {
        match number {
            1 => Self::Lookup,
            2 => Self::Forget,
            3 => Self::GetAttributes,
            4 => Self::SetAttributes,
            5 => Self::ReadLink,
            6 => Self::Symlink,
            8 => Self::MakeNode,
            9 => Self::MakeFolder,
            10 => Self::Unlink,
            11 => Self::RemoveFolder,
            12 => Self::Rename,
            13 => Self::Link,
            14 => Self::Open,
            15 => Self::Read,
            16 => Self::Write,
            STATFS_OPCODE => Self::StatFileSystem,
            18 => Self::Release,
            20 => Self::Sync,
            26 => Self::Init,
            27 => Self::OpenFolder,
            28 => Self::ReadFolder,
            29 => Self::ReleaseFolder,
            30 => Self::SyncFolder,
            35 => Self::Create,
            38 => Self::Destroy,
            39 => Self::Ioctl,
            42 => Self::ForgetMany,
            44 => Self::ReadFolderPlus,
            45 => Self::RenameWith,
            46 => Self::Seek,
            47 => Self::CopyRange,
            51 => Self::Temporary,
            _ => Self::Unsupported,
        }
    }
}

impl FuseOperation {
    /// Whether it usually neither transfers content nor waits for a disk.
    pub(crate) fn is_short(self) -> bool {
        matches!(
            self,
            Self::Lookup
                | Self::Forget
                | Self::ForgetMany
                | Self::GetAttributes
                | Self::ReadLink
                | Self::OpenFolder
                | Self::ReleaseFolder
                | Self::Unsupported
        )
    }
}

/// Flags that the two ends negotiate in `Init`.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u32 = 1 << 0;
    pub(crate) const ATOMIC_TRUNCATE: u32 = 1 << 3;
    pub(crate) const BIG_WRITES: u32 = 1 << 5;
    pub(crate) const INVALIDATE_BY_TIME: u32 = 1 << 12;
    pub(crate) const READ_FOLDER_PLUS: u32 = 1 << 13;
    pub(crate) const READ_FOLDER_PLUS_AUTO: u32 = 1 << 14;
    pub(crate) const ASYNC_DIRECT: u32 = 1 << 15;
    pub(crate) const PARALLEL_FOLDERS: u32 = 1 << 18;
    pub(crate) const MAX_PAGES: u32 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u32 = 1 << 23;
}

/// Flags for the attributes that a request sets.
pub(crate) mod set {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ACCESSED: u32 = 1 << 4;
    pub(crate) const MODIFIED: u32 = 1 << 5;
    pub(crate) const HANDLE: u32 = 1 << 6;
    pub(crate) const ACCESSED_NOW: u32 = 1 << 7;
    pub(crate) const MODIFIED_NOW: u32 = 1 << 8;
}

/// Codes of unsolicited notifications to the kernel.
pub(crate) mod notice {
    pub(crate) const INVALIDATE_INODE: i32 = 2;
    pub(crate) const INVALIDATE_ENTRY: i32 = 3;
}

/// The attributes are requested for an open file.
pub(crate) const GETATTR_BY_HANDLE: u32 = 1 << 0;
/// The write comes from the page cache, not directly from a program.
pub(crate) const WRITE_FROM_PAGE_CACHE: u32 = 1 << 0;
/// Sync only the content, not all attributes.
pub(crate) const SYNC_DATA_ONLY: u32 = 1 << 0;
/// The kernel's cached content of the file is still valid.
pub(crate) const OPEN_KEEP_CACHE: u32 = 1 << 1;

/// Mask of the file type in a mode, followed by the types.
pub(crate) const FILE_TYPE_MASK: u32 = 0o170_000;
pub(crate) const FOLDER: u32 = 0o040_000;
pub(crate) const REGULAR: u32 = 0o100_000;
pub(crate) const SYMLINK: u32 = 0o120_000;
pub(crate) const FIFO: u32 = 0o010_000;
pub(crate) const SOCKET: u32 = 0o140_000;
/// Programs with these bits run with the rights of their owner or group.
pub(crate) const SETUID_OR_SETGID: u32 = 0o6_000;
pub(crate) const PERMISSIONS_MASK: u32 = 0o7_777;
