//! Prepares a Podman container: its folder with the generated root and the socket, the mounts to
//! make beforehand, and the arguments of `podman`. Mounts and starts nothing. Entry type:
//! [`PreparedContainer`].

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use walls::plan::{IdMap, MountAccess};
use walls::staging::{StagedMount, StagingPlan};

use super::super::bundle::{Bundle, BundleMount};
use super::super::confined_guest::{self, GUEST_PATH};
use super::super::container::folder::ContainerFolder;
use super::super::container::link_socket::LinkSocket;
use super::super::container::{LINK_PATH, MountOwners, SandboxUids, next_number, profile};
use super::BACKEND;
use super::arguments::{PodmanContainerSpec, PodmanIdentity};
use super::engine::{self, PodmanEngine};
use crate::spec::{RootSpec, SandboxSpec};

/// Everything that a start needs on disk, and its arguments.
#[derive(Debug)]
pub(super) struct PreparedContainer {
    pub(super) folder: ContainerFolder,
    pub(super) door: LinkSocket,
    /// Arguments of the `podman` program.
    pub(super) arguments: Vec<String>,
    pub(super) staging: Option<StagingPlan>,
    /// The guest program, for mounts inside Podman's user namespace.
    pub(super) guest: PathBuf,
}

pub(super) fn prepare(
    spec: &SandboxSpec,
    engine: &PodmanEngine,
    owners: MountOwners,
    users: SandboxUids,
) -> io::Result<PreparedContainer> {
    let folder = ContainerFolder::make(&spec.provisions, BACKEND, next_number())?;
    let door = LinkSocket::open(folder.path())?;
    let workspace = folder.path().join("mounts/workspace");
    let mut bundle = Bundle::make(spec, folder.path(), &workspace)?;
    let staging = if engine.is_rootful {
        Some(root_staging(spec, &folder, owners, users, &mut bundle)?)
    } else {
        // Through a symlink, because a workspace path may contain characters that Podman's
        // arguments do not allow.
        symlink(spec.real_workspace()?, &workspace)?;
        caller_staging(spec, &folder, &mut bundle)?
    };
    bundle.mounts.push(BundleMount::Bind {
        source: door.path().to_owned(),
        target: LINK_PATH.into(),
        read_only: true,
    });
    if spec.root == RootSpec::Host {
        // The root is read-only, so the mount point must exist beforehand.
        fs::write(bundle.root.join(&LINK_PATH[1..]), "")?;
    }
    let seccomp = folder.path().join("seccomp.json");
    fs::write(&seccomp, profile::json(false))?;
    let container = PodmanContainerSpec {
        name: folder.name(),
        owner: &folder.owner(),
        identity: if engine.is_rootful {
            PodmanIdentity::Mapped(users)
        } else {
            PodmanIdentity::Caller
        },
        bundle: &bundle,
        is_image: spec.root != RootSpec::Host,
        seccomp: &seccomp,
        limits: &spec.limits,
        processes: engine::max_processes(&spec.limits),
    };
    let mut arguments = engine.globals.clone();
    arguments.extend(container.arguments());
    Ok(PreparedContainer {
        folder,
        door,
        arguments,
        staging,
        guest: confined_guest::guest_file(&spec.provisions.cache)?,
    })
}

/// Mounts that need the host's root: the workspace and an image with their owners mapped, and the
/// guest at a path that the sandbox's users can reach.
fn root_staging(
    spec: &SandboxSpec,
    folder: &ContainerFolder,
    owners: MountOwners,
    users: SandboxUids,
    bundle: &mut Bundle,
) -> io::Result<StagingPlan> {
    let idmap = |owner: (u32, u32)| IdMap {
        disk_uid: owner.0,
        disk_gid: owner.1,
    };
    let mut mounts = vec![StagedMount::Bind {
        source: spec.real_workspace()?,
        target: folder.mount_point("workspace")?,
        access: MountAccess::ReadWrite,
        idmap: Some(idmap(owners.workspace)),
    }];
    let guest = folder.mount_file("guest")?;
    for mount in &mut bundle.mounts {
        if let BundleMount::Bind { source, target, .. } = mount
            && *target == Path::new(GUEST_PATH)
        {
            mounts.push(StagedMount::Bind {
                source: std::mem::replace(source, guest.clone()),
                target: guest.clone(),
                access: MountAccess::ReadOnly,
                idmap: None,
            });
        }
    }
    mounts.extend(overlay(spec, folder, owners.image.map(idmap), bundle)?);
    Ok(StagingPlan {
        is_private: true,
        folder: spec.provisions.containers.run.clone(),
        owner: (users.user, users.user),
        mounts,
    })
}

/// Mounts that an ordinary user makes in the user namespace of all their containers.
fn caller_staging(
    spec: &SandboxSpec,
    folder: &ContainerFolder,
    bundle: &mut Bundle,
) -> io::Result<Option<StagingPlan>> {
    let overlay = overlay(spec, folder, None, bundle)?;
    Ok(overlay.map(|overlay| StagingPlan {
        is_private: true,
        folder: spec.provisions.containers.run.clone(),
        // The caller, inside that namespace.
        owner: (0, 0),
        mounts: vec![overlay],
    }))
}

/// An image under an overlay in memory, which becomes the root.
fn overlay(
    spec: &SandboxSpec,
    folder: &ContainerFolder,
    idmap: Option<IdMap>,
    bundle: &mut Bundle,
) -> io::Result<Option<StagedMount>> {
    let RootSpec::Image(image) = &spec.root else {
        return Ok(None);
    };
    let target = folder.mount_point("root")?;
    bundle.root = target.clone();
    Ok(Some(StagedMount::Overlay {
        lower: image.canonicalize()?,
        idmap,
        target,
        layer: folder.mount_point("layer")?,
        // At most half of the memory, so that the other half is left for processes.
        bytes: spec.limits.disk.min(spec.limits.memory / 2),
    }))
}
