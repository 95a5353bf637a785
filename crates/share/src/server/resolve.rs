//! Opens the file of a node number: walks from the root by names and checks at each step that it is
//! still the same file. Never follows a symlink.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::nodes::NodeLocation;
use super::stat::{FileIdentity, Stat};
use super::{FOLDER_PATH_FLAGS, ShareServer, lock};

/// Flags to open a file of any kind as a path (`O_PATH`).
const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl ShareServer {
    /// An `O_PATH` descriptor of a folder.
    pub(super) fn folder(&self, node: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.walk(node)
            .or_else(|error| self.find_open_file(node).ok_or(error))
    }

    fn walk(&self, node: u64) -> Result<Arc<OwnedFd>, Errno> {
        let (start, steps) = lock(&self.nodes).path_to(node)?;
        let mut at = match start {
            Some(open) => open,
            None => Arc::new(self.root.try_clone().map_err(|_| Errno::MFILE)?),
        };
        for step in steps.into_iter().rev() {
            let next = openat(&at, &*step.name, FOLDER_PATH_FLAGS, Mode::empty())
                .map_err(missing_to_stale)?;
            if Stat::of_open(&next)?.identity() != step.identity {
                return Err(Errno::STALE);
            }
            at = Arc::new(next);
            lock(&self.nodes).keep(step.node, &at);
        }
        Ok(at)
    }

    /// An `O_PATH` descriptor of a file of any kind.
    pub(super) fn object(&self, node: u64) -> Result<Arc<OwnedFd>, Errno> {
        let (identity, held) = self.known(node)?;
        if identity.is_folder() {
            return self.folder(node);
        }
        if let Some(held) = held {
            return Ok(held);
        }
        self.find(node, |place| {
            let found = self.open_location(&place)?;
            if Stat::of_open(&found)?.identity() == identity {
                Ok(Arc::new(found))
            } else {
                Err(Errno::STALE)
            }
        })
        .or_else(|error| self.find_open_file(node).ok_or(error))
    }

    /// The current attributes of a node.
    pub(super) fn stat(&self, node: u64) -> Result<Stat, Errno> {
        let (identity, held) = self.known(node)?;
        if identity.is_folder() || held.is_some() {
            return Stat::of_open(self.object(node)?);
        }
        // By its name, which needs no descriptor.
        self.find(node, |place| {
            let folder = self.folder(place.folder)?;
            let stat = Stat::of(folder, &place.name).map_err(missing_to_stale)?;
            if stat.identity() == identity {
                Ok(stat)
            } else {
                Err(Errno::STALE)
            }
        })
        .or_else(|error| match self.find_open_file(node) {
            Some(open) => Stat::of_open(open),
            None => Err(error),
        })
    }

    fn known(&self, node: u64) -> Result<(FileIdentity, Option<Arc<OwnedFd>>), Errno> {
        let nodes = lock(&self.nodes);
        Ok((nodes.identity(node)?, nodes.held(node)))
    }

    /// Tries all known places of a node.
    fn find<T>(
        &self,
        node: u64,
        mut look: impl FnMut(NodeLocation) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let places = lock(&self.nodes).places(node);
        let mut outcome = Err(Errno::STALE);
        for place in places {
            outcome = look(place);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The descriptor of an open handle, which works even if the name is gone.
    fn find_open_file(&self, node: u64) -> Option<Arc<OwnedFd>> {
        lock(&self.handles).find_by_node(node)
    }

    /// Opens an entry without checking its identity.
    pub(super) fn open_location(&self, place: &NodeLocation) -> Result<OwnedFd, Errno> {
        let folder = self.folder(place.folder)?;
        self.open_entry(&folder, &place.name)
    }

    pub(super) fn open_entry(&self, folder: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
        openat(folder, name, PATH_FLAGS, Mode::empty()).map_err(missing_to_stale)
    }

    /// Reopens an `O_PATH` descriptor. Only for regular files and folders: opening anything else could
    /// block, or access a device.
    pub(super) fn reopen(&self, path: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        openat(&self.descriptors, fd_name(path), flags, Mode::empty())
    }
}

/// The name of a descriptor in `/proc/self/fd`.
pub(super) fn fd_name(descriptor: &OwnedFd) -> CString {
    CString::new(descriptor.as_raw_fd().to_string()).expect("a decimal number has no zero byte")
}

/// Reports a missing file as `ESTALE`, on which the kernel inside resolves the path again.
fn missing_to_stale(error: Errno) -> Errno {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
        error => error,
    }
}
