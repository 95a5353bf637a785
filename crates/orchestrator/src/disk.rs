//! Disk space of the data folder: a reserve for the store, a minimum for starting jobs, and grants
//! for what each sandbox may write.
//!
//! The reserve is a preallocated file. When the store finds the disk full, the file is removed, so
//! that jobs can still be listed, cancelled and deleted. It is created again when there is enough
//! space. Entry type: [`Disk`].

use std::collections::HashMap;
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;
use protocol::job::JobId;
use tracing::{debug, warn};

/// Size of the reserve: the smaller of this and a fraction of the disk.
const MAX_RESERVE_BYTES: u64 = 64 << 20;
const RESERVE_DIVISOR: u64 = 64;

/// Default minimum of free space: the smaller of this and a fraction of the disk.
const MAX_FLOOR_BYTES: u64 = 512 << 20;
const FLOOR_DIVISOR: u64 = 20;

/// A sandbox with less space is useless.
const MIN_GRANT_BYTES: u64 = 1 << 20;

/// A job may need space for its files three times: in the workspace, in a checkpoint and in the
/// zip.
const GRANT_DIVISOR: u64 = 4;

#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    reserve: u64,
    floor: u64,
    state: Mutex<DiskState>,
}

#[derive(Debug, Default)]
struct DiskState {
    /// Bytes that running sandboxes may write.
    granted: HashMap<JobId, u64>,
    has_reserve: bool,
}

impl Disk {
    /// Creates the reserve if there is space for it. If the disk is full, an existing reserve is
    /// removed at once, so that the store can be opened.
    pub(crate) fn new(folder: &Path, floor: Option<u64>) -> Self {
        let size = size(folder).unwrap_or(u64::MAX);
        let disk = Self {
            folder: folder.to_owned(),
            reserve: (size / RESERVE_DIVISOR).min(MAX_RESERVE_BYTES),
            floor: floor.unwrap_or((size / FLOOR_DIVISOR).min(MAX_FLOOR_BYTES)),
            state: Mutex::default(),
        };
        disk.state().has_reserve = disk.path().exists();
        if disk.is_nearly_full() {
            disk.release();
        } else {
            disk.refill()
        }
        disk
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn free(&self) -> u64 {
        free(&self.folder).unwrap_or(u64::MAX)
    }

    /// Whether there is enough free space to start jobs.
    pub(crate) fn has_room(&self) -> bool {
        self.free() >= self.floor
    }

    /// Whether the reserve is in use. New jobs are refused then.
    pub(crate) fn is_on_reserve(&self) -> bool {
        !self.state().has_reserve && self.free() < self.reserve.saturating_mul(2)
    }

    /// Whether there may be too little space to open the store.
    fn is_nearly_full(&self) -> bool {
        self.free() < self.reserve
    }

    /// Removes the reserve. False if there is none.
    pub(crate) fn release(&self) -> bool {
        let mut state = self.state();
        if !std::mem::take(&mut state.has_reserve) {
            return false;
        }
        match remove_file(self.path()) {
            Ok(()) => {
                warn!(
                    bytes = self.reserve,
                    "disk is full: the reserve was released"
                );
                true
            }
            Err(error) => {
                warn!(%error, "cannot remove the disk reserve");
                false
            }
        }
    }

    /// Creates the reserve again if twice its size is free.
    pub(crate) fn refill(&self) {
        let mut state = self.state();
        if state.has_reserve || self.free() < self.reserve.saturating_mul(2) {
            return;
        }
        match self.make() {
            Ok(()) => {
                state.has_reserve = true;
                debug!(bytes = self.reserve, "disk reserve created");
            }
            Err(error) => {
                let _ = remove_file(self.partial());
                warn!(%error, "cannot create the disk reserve");
            }
        }
    }

    fn make(&self) -> io::Result<()> {
        let partial = self.partial();
        let file: File = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        let length = i64::try_from(self.reserve).unwrap_or(i64::MAX);
        fallocate(&file, FallocateFlags::empty(), 0, length)?;
        rename(partial, self.path())
    }

    /// Grants a job's sandbox up to `wanted` bytes; `None` if there is too little space. All grants
    /// together never exceed the free space above the floor.
    pub(crate) fn grant(&self, job: JobId, wanted: u64) -> Option<u64> {
        let mut state = self.state();
        state.granted.remove(&job);
        let granted = state
            .granted
            .values()
            .fold(0_u64, |sum, one| sum.saturating_add(*one));
        let room = self
            .free()
            .saturating_sub(self.floor)
            .saturating_sub(granted);
        let grant = wanted.min(room / GRANT_DIVISOR);
        if grant < MIN_GRANT_BYTES.min(wanted) {
            return None;
        }
        state.granted.insert(job, grant);
        Some(grant)
    }

    /// Releases a job's grant after its sandbox has ended.
    pub(crate) fn release_grant(&self, job: JobId) {
        self.state().granted.remove(&job);
    }

    fn path(&self) -> PathBuf {
        self.folder.join("reserve")
    }

    fn partial(&self) -> PathBuf {
        self.folder.join("reserve.partial")
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free(folder: &Path) -> Option<u64> {
    let state = statvfs(folder).ok()?;
    Some(
        state
            .blocks_available()
            .saturating_mul(state.fragment_size()),
    )
}

fn size(folder: &Path) -> Option<u64> {
    let state = statvfs(folder).ok()?;
    Some(state.blocks().saturating_mul(state.fragment_size()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use uuid::Uuid;

    use super::*;

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(number))
    }

    #[test]
    fn the_reserve_is_made_given_up_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), None);
        let path = folder.path().join("reserve");
        assert_eq!(path.metadata().unwrap().len(), disk.reserve);
        assert!(!disk.is_on_reserve());
        assert!(disk.release());
        assert!(!path.exists());
        assert!(!disk.release(), "once");
        disk.refill();
        assert!(path.exists());
        // The next server finds it.
        let disk = Disk::new(folder.path(), None);
        assert!(disk.release());
    }

    #[test]
    fn grants_together_are_less_than_what_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), Some(0));
        let free = disk.free();
        let mut sum = 0;
        for number in 0..20 {
            let Some(grant) = disk.grant(job(number), u64::MAX) else {
                break;
            };
            sum += grant;
        }
        assert!(sum > free / 2 && sum < free + (1 << 30), "{sum} of {free}");
        assert_eq!(disk.grant(job(100), 10).unwrap_or(10), 10);
        disk.release_grant(job(0));
        assert!(disk.grant(job(101), u64::MAX).unwrap() >= 1 << 20);
        let full = Disk::new(folder.path(), Some(u64::MAX));
        assert!(!full.has_room());
        assert_eq!(full.grant(job(1), 1 << 30), None);
    }
}
