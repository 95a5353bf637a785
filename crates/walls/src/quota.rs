//! A project quota for one folder: the kernel's own limit on the space and the inodes of a tree, on ext4
//! and xfs mounted with `prjquota`. Only root can set it; no process in a user namespace can change it.
//!
//! Every file of the folder is labelled with the same project id, which new files inherit. The file system
//! limits what all files with that id occupy, including removed files that are still open. A process that
//! exceeds the limit gets `EDQUOT`.
//!
//! A process owns an id while it holds the lock on the id's file in the lock folder. The kernel releases
//! the lock when the process ends. The next start removes the limits of ids without an owner, which it finds
//! in the file system's list of limits. Entry type: [`ProjectQuota`].

mod calls;
mod label;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use self::calls::ProjectLimits;
use self::label::{LabelError, ProjectLabel};

/// The project ids of sandboxes: far above what administrators give out by hand.
const PROJECT_IDS: Range<u32> = 0x7c00_0000..0x7d00_0000;

/// How many ids are tried before the start gives up on a quota.
const MAX_ID_ATTEMPTS: u32 = 64;

/// Why a folder has no project quota.
#[derive(Debug, thiserror::Error)]
pub enum ProjectQuotaError {
    #[error("its file system enforces no project quota")]
    NotEnforced(#[source] io::Error),
    #[error("it belongs to project {0}, which is not a sandbox's")]
    OtherProject(u32),
    #[error("another sandbox has the quota of this folder")]
    InUse,
    #[error("it holds more than {0} files")]
    TooManyFiles(usize),
    #[error("cannot {step}")]
    Failed {
        step: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Names the step that failed.
trait QuotaContext<T> {
    fn at(self, step: &'static str) -> Result<T, ProjectQuotaError>;
}

impl<T> QuotaContext<T> for io::Result<T> {
    fn at(self, step: &'static str) -> Result<T, ProjectQuotaError> {
        self.map_err(|source| ProjectQuotaError::Failed { step, source })
    }
}

/// A limit that the kernel enforces until this value is dropped.
#[derive(Debug)]
pub struct ProjectQuota {
    folder: File,
    id: ProjectId,
}

impl ProjectQuota {
    /// Whether the file system of a folder enforces project quotas. Cheap, unlike [`ProjectQuota::set`],
    /// which labels every file.
    pub fn check_enforced(folder: &Path) -> Result<(), ProjectQuotaError> {
        let folder = File::open(folder).at("open the folder")?;
        calls::check_enforced(&folder).map_err(ProjectQuotaError::NotEnforced)
    }

    /// Limits how much a folder may grow from what it holds now.
    pub fn set(
        folder: &Path,
        locks: &Path,
        bytes: u64,
        inodes: u64,
    ) -> Result<Self, ProjectQuotaError> {
        let folder = File::open(folder).at("open the folder")?;
        calls::check_enforced(&folder).map_err(ProjectQuotaError::NotEnforced)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(locks)
            .at("make the lock folder")?;
        remove_abandoned_limits(&folder, locks).at("remove abandoned limits")?;
        let id = match calls::label_of(&folder).at("read the folder's project")?.id {
            0 => ProjectId::lock_unused(locks, &folder)?,
            // Left by a process that was killed.
            left if PROJECT_IDS.contains(&left) => ProjectId::try_lock(locks, left)
                .at("lock the folder's project id")?
                .ok_or(ProjectQuotaError::InUse)?,
            other => return Err(ProjectQuotaError::OtherProject(other)),
        };
        // From here on, dropping `quota` undoes everything.
        let quota = Self { folder, id };
        label::label_tree(&quota.folder, ProjectLabel::inherited(quota.id.number)).map_err(
            |error| match error {
                LabelError::TooManyFiles(most) => ProjectQuotaError::TooManyFiles(most),
                LabelError::OtherProject(other) => ProjectQuotaError::OtherProject(other),
                LabelError::Io(source) => ProjectQuotaError::Failed {
                    step: "label the folder's files",
                    source,
                },
            },
        )?;
        let used = quota.limits().at("read the folder's usage")?;
        let limits = ProjectLimits {
            bytes: used.used_bytes.saturating_add(bytes),
            inodes: used.used_inodes.saturating_add(inodes),
            ..used
        };
        calls::set_limits(&quota.folder, quota.id.number, limits).at("set the limit")?;
        Ok(quota)
    }

    /// The limits and the current usage.
    pub fn limits(&self) -> io::Result<ProjectLimits> {
        calls::limits(&self.folder, self.id.number)
    }
}

impl Drop for ProjectQuota {
    fn drop(&mut self) {
        let _ = calls::set_limits(&self.folder, self.id.number, ProjectLimits::default());
        // A label without a limit is harmless, so files that cannot be reached may keep it.
        let _ = label::label_tree(&self.folder, ProjectLabel::default());
    }
}

/// Removes the limits of all sandbox projects whose owner has ended.
fn remove_abandoned_limits(folder: &File, locks: &Path) -> io::Result<()> {
    let mut next = PROJECT_IDS.start;
    while let Some(id) = calls::next_project(folder, next)? {
        if !PROJECT_IDS.contains(&id) {
            break;
        }
        let limits = calls::limits(folder, id)?;
        if limits.is_limited()
            && let Some(_owned) = ProjectId::try_lock(locks, id)?
        {
            calls::set_limits(folder, id, ProjectLimits::default())?;
        }
        next = id + 1;
    }
    Ok(())
}

/// A project id that this process owns.
#[derive(Debug)]
struct ProjectId {
    number: u32,
    path: PathBuf,
    _lock: File,
}

impl ProjectId {
    /// Locks an id that is not in use on the folder's file system.
    fn lock_unused(locks: &Path, folder: &File) -> Result<Self, ProjectQuotaError> {
        let spread = PROJECT_IDS.end - PROJECT_IDS.start;
        let first = std::process::id().wrapping_mul(0x9e37_79b1) % spread;
        for attempt in 0..MAX_ID_ATTEMPTS {
            let number = PROJECT_IDS.start + (first + attempt) % spread;
            let Some(id) = Self::try_lock(locks, number).at("lock a project id")? else {
                continue;
            };
            let limits = calls::limits(folder, number).at("read a project's limits")?;
            if limits == ProjectLimits::default() {
                return Ok(id);
            }
        }
        Err(ProjectQuotaError::InUse)
    }

    /// Locks an id; `None` if it has an owner.
    fn try_lock(locks: &Path, number: u32) -> io::Result<Option<Self>> {
        let path = locks.join(format!("{number:08x}"));
        loop {
            let mut options = OpenOptions::new();
            let lock = options.write(true).create(true).mode(0o600).open(&path)?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last owner may have removed the file between open and lock.
            let is_current = fs::metadata(&path)
                .is_ok_and(|now| lock.metadata().is_ok_and(|own| own.ino() == now.ino()));
            if is_current {
                return Ok(Some(Self {
                    number,
                    path,
                    _lock: lock,
                }));
            }
        }
    }
}

impl Drop for ProjectId {
    fn drop(&mut self) {
        // The file is removed while it is still locked: see `ProjectId::try_lock`.
        let _ = fs::remove_file(&self.path);
    }
}
