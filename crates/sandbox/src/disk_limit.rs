//! Chooses what holds the disk limit of a sandbox, and keeps it as long as the sandbox lives.
//!
//! | mechanism | where | past the limit |
//! |---|---|---|
//! | bounded file system | the workspace's file system is no larger than the limit | `ENOSPC` |
//! | project quota | ext4 or xfs mounted with `prjquota`, started by root | `EDQUOT` |
//! | scan | everywhere else: the guest counts (`guest/src/disk`) | everything is killed |
//!
//! Entry point: [`DiskLimit::hold`].

use std::path::Path;

use nix::sys::statvfs::statvfs;
use tracing::debug;
use walls::quota::ProjectQuota;

use crate::backends::Description;
use crate::backends::native::maps_everyone;
use crate::limits::{BYTES_PER_INODE, Enforcer, LimitKind};
use crate::spec::{Backend, RootSpec, SandboxSpec};

/// Where owners of project ids are on record. Not a setting: all sandboxes of a machine must agree.
const PROJECT_LOCKS: &str = "/run/hotcell/projects";

/// What holds the limit.
#[derive(Debug)]
pub(crate) struct DiskLimit {
    /// As the guest needs it, if the guest is what holds it.
    pub(crate) scanned: Option<link::request::DiskLimit>,
    quota: Option<ProjectQuota>,
}

impl DiskLimit {
    /// Nothing holds it.
    pub(crate) fn none() -> Self {
        Self {
            scanned: None,
            quota: None,
        }
    }

    /// Sets the best mechanism that there is for the workspace, and says in the description which.
    pub(crate) async fn hold(spec: &SandboxSpec, description: &mut Description) -> Self {
        let mut limits = description.limits.iter_mut();
        let stated = limits.find(|one| one.limit == LimitKind::Disk);
        let Some(stated) = stated.filter(|one| one.enforcer == Enforcer::Scan) else {
            return Self::none();
        };
        // Docker keeps changes to an image on its own disk: only the scan knows of both places.
        let has_other_places = description.backend == Backend::Docker.name()
            && matches!(spec.root, RootSpec::Image(_));
        let mut quota = None;
        if has_other_places {
            debug!("disk limit is scanned: there is a second place to write to");
        } else if is_bounded(&spec.workspace, spec.limits.disk) {
            stated.enforcer = Enforcer::BoundedFileSystem;
        } else {
            quota = set_quota(spec).await;
            if quota.is_some() {
                stated.enforcer = Enforcer::ProjectQuota;
            }
        }
        let is_scanned = stated.enforcer == Enforcer::Scan;
        Self {
            scanned: is_scanned.then_some(link::request::DiskLimit {
                bytes: spec.limits.disk,
                inodes: inodes(spec.limits.disk),
                has_other_places,
            }),
            quota,
        }
    }

    /// Takes the limit off the workspace, once nothing runs in it any more.
    pub(crate) async fn release(mut self) {
        if let Some(quota) = self.quota.take() {
            // It goes through all of the workspace's files.
            let _ = tokio::task::spawn_blocking(move || drop(quota)).await;
        }
    }
}

impl Drop for DiskLimit {
    fn drop(&mut self) {
        if let Some(quota) = self.quota.take() {
            std::thread::spawn(move || drop(quota));
        }
    }
}

fn inodes(bytes: u64) -> u64 {
    bytes / BYTES_PER_INODE
}

/// Whether all of a file system is no more than the limit.
fn is_bounded(workspace: &Path, limit: u64) -> bool {
    statvfs(workspace).is_ok_and(|all| {
        let bytes = all.blocks().saturating_mul(all.fragment_size());
        // Some say 0 because they do not know.
        (1..=limit).contains(&bytes) && (1..=inodes(limit)).contains(&all.files())
    })
}

async fn set_quota(spec: &SandboxSpec) -> Option<ProjectQuota> {
    if !nix::unistd::geteuid().is_root() || !maps_everyone() {
        return None;
    }
    let workspace = spec.workspace.clone();
    let bytes = spec.limits.disk;
    let set = move || {
        let locks = Path::new(PROJECT_LOCKS);
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
                reason = crate::doctor::chain(&reason),
                "workspace has no project quota"
            );
            None
        }
    }
}
