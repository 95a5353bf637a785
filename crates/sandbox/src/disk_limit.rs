//! Selects the mechanism that enforces the disk limit of a sandbox, and holds it while the sandbox
//! lives.
//!
//! | mechanism | where | past the limit |
//! |---|---|---|
//! | bounded file system | the workspace's file system is no larger than the limit | `ENOSPC` |
//! | project quota | ext4 or xfs mounted with `prjquota`, started by root | `EDQUOT` |
//! | scan | everywhere else: the guest counts (`guest/src/disk`) | everything is killed |
//!
//! Entry point: [`DiskLimiter::hold`].

use std::path::Path;

use nix::sys::statvfs::statvfs;
use protocol::Backend;
use tracing::debug;
use walls::quota::ProjectQuota;

use crate::backends::native::is_initial_user_namespace;
use crate::error_chain::error_chain;
use crate::limits::{BYTES_PER_INODE, LimitEnforcement, LimitEnforcer, LimitKind};
use crate::spec::{RootSpec, SandboxSpec};

/// Records the owner of each project id. Fixed, because all sandboxes of a machine must share it.
const PROJECT_LOCK_DIR: &str = "/run/hotcell/projects";

/// The mechanism that enforces the limit.
#[derive(Debug)]
pub(crate) struct DiskLimiter {
    /// The limit for the guest, if the guest enforces it.
    pub(crate) scanned: Option<link::request::DiskGrowthLimit>,
    quota: Option<ProjectQuota>,
}

impl DiskLimiter {
    /// No enforcement.
    pub(crate) fn none() -> Self {
        Self {
            scanned: None,
            quota: None,
        }
    }

    /// Sets the best mechanism available for the workspace, and notes it among the limits.
    pub(crate) async fn hold(spec: &SandboxSpec, limits: &mut [LimitEnforcement]) -> Self {
        let stated = limits.iter_mut().find(|one| one.limit == LimitKind::Disk);
        let Some(stated) = stated.filter(|one| one.enforcer == LimitEnforcer::Scan) else {
            return Self::none();
        };
        // Docker keeps changes to an image on its own disk, and only the scan covers both places.
        let has_other_places =
            spec.backend == Backend::Docker && matches!(spec.root, RootSpec::Image(_));
        let mut quota = None;
        if has_other_places {
            debug!("disk limit is enforced by scanning: the image is writable too");
        } else if is_bounded(&spec.workspace, spec.limits.disk) {
            stated.enforcer = LimitEnforcer::BoundedFileSystem;
        } else {
            quota = set_quota(spec).await;
            if quota.is_some() {
                stated.enforcer = LimitEnforcer::ProjectQuota;
            }
        }
        let is_scanned = stated.enforcer == LimitEnforcer::Scan;
        Self {
            scanned: is_scanned.then_some(link::request::DiskGrowthLimit {
                bytes: spec.limits.disk,
                inodes: inodes(spec.limits.disk),
                has_other_places,
            }),
            quota,
        }
    }

    /// Removes the limit from the workspace, once no process runs in it.
    pub(crate) async fn release(mut self) {
        if let Some(quota) = self.quota.take() {
            // Dropping a quota visits every file of the workspace.
            let _ = tokio::task::spawn_blocking(move || drop(quota)).await;
        }
    }
}

impl Drop for DiskLimiter {
    fn drop(&mut self) {
        if let Some(quota) = self.quota.take() {
            std::thread::spawn(move || drop(quota));
        }
    }
}

fn inodes(bytes: u64) -> u64 {
    bytes / BYTES_PER_INODE
}

/// Whether the whole file system is no larger than the limit.
fn is_bounded(workspace: &Path, limit: u64) -> bool {
    statvfs(workspace).is_ok_and(|all| {
        let bytes = all.blocks().saturating_mul(all.fragment_size());
        // Some file systems report 0 for unknown.
        (1..=limit).contains(&bytes) && (1..=inodes(limit)).contains(&all.files())
    })
}

async fn set_quota(spec: &SandboxSpec) -> Option<ProjectQuota> {
    if !nix::unistd::geteuid().is_root() || !is_initial_user_namespace() {
        return None;
    }
    let workspace = spec.workspace.clone();
    let bytes = spec.limits.disk;
    let set = move || {
        let locks = Path::new(PROJECT_LOCK_DIR);
        ProjectQuota::set(&workspace, locks, bytes, inodes(bytes))
    };
    let is_set = match ProjectQuota::check_enforced(&spec.workspace) {
        Ok(()) => tokio::task::spawn_blocking(set).await.ok()?,
        Err(reason) => Err(reason),
    };
    match is_set {
        Ok(quota) => Some(quota),
        Err(reason) => {
            debug!(
                reason = error_chain(&reason),
                "workspace has no project quota"
            );
            None
        }
    }
}
