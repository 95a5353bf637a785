//! Prepares a Podman container: its folder with the generated root and the socket, the mounts to
//! make beforehand, and the arguments of `podman`. Mounts and starts nothing. Entry type:
//! [`Prepared`].

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use walls::plan::{Access, IdMap};
use walls::staging::{Staged, Staging};

use super::super::bundle::{Bundle, Mount};
use super::super::contained::{self, GUEST_INSIDE};
use super::super::container::door::Door;
use super::super::container::folder::Folder;
use super::super::container::{LINK_INSIDE, Owners, Users, next_number, profile};
use super::BACKEND;
use super::arguments::{Container, Identity};
use super::engine::{self, Engine};
use crate::spec::{RootSpec, SandboxSpec};

/// Everything that a start needs on disk, and its arguments.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) folder: Folder,
    pub(super) door: Door,
    /// Arguments of the `podman` program.
    pub(super) arguments: Vec<String>,
    pub(super) staging: Option<Staging>,
    /// The guest program, for mounts inside Podman's user namespace.
    pub(super) guest: PathBuf,
}

pub(super) fn prepare(
    spec: &SandboxSpec,
    engine: &Engine,
    owners: Owners,
    users: Users,
) -> io::Result<Prepared> {
    let folder = Folder::make(&spec.provisions, BACKEND, next_number())?;
    let door = Door::open(folder.path())?;
    let workspace = folder.path().join("mounts/workspace");
    let mut bundle = Bundle::make(spec, folder.path(), &workspace)?;
    let staging = if engine.is_rootful {
        Some(stage(spec, &folder, owners, users, &mut bundle)?)
    } else {
        // Through a symlink, because a workspace path may contain characters that Podman's
        // arguments do not allow.
        symlink(spec.real_workspace()?, &workspace)?;
        stage_for_caller(spec, &folder, &mut bundle)?
    };
    bundle.mounts.push(Mount::Bind {
        source: door.path().to_owned(),
        target: LINK_INSIDE.into(),
        read_only: true,
    });
    if spec.root == RootSpec::Host {
        // The root is read-only, so the mount point must exist beforehand.
        fs::write(bundle.root.join(&LINK_INSIDE[1..]), "")?;
    }
    let seccomp = folder.path().join("seccomp.json");
    fs::write(&seccomp, profile::json(false))?;
    let container = Container {
        name: folder.name(),
        owner: &folder.owner(),
        identity: if engine.is_rootful {
            Identity::Mapped(users)
        } else {
            Identity::Caller
        },
        bundle: &bundle,
        is_image: spec.root != RootSpec::Host,
        seccomp: &seccomp,
        limits: &spec.limits,
        processes: engine::processes(&spec.limits),
    };
    let mut arguments = engine.globals.clone();
    arguments.extend(container.arguments());
    Ok(Prepared {
        folder,
        door,
        arguments,
        staging,
        guest: contained::guest_file(&spec.provisions.cache)?,
    })
}

/// Mounts that need the host's root: the workspace and an image with their owners mapped, and the
/// guest at a path that the sandbox's users can reach.
fn stage(
    spec: &SandboxSpec,
    folder: &Folder,
    owners: Owners,
    users: Users,
    bundle: &mut Bundle,
) -> io::Result<Staging> {
    let idmap = |owner: (u32, u32)| IdMap {
        disk_uid: owner.0,
        disk_gid: owner.1,
    };
    let mut mounts = vec![Staged::Bind {
        source: spec.real_workspace()?,
        target: folder.mount_point("workspace")?,
        access: Access::ReadWrite,
        idmap: Some(idmap(owners.workspace)),
    }];
    let guest = folder.mount_file("guest")?;
    for mount in &mut bundle.mounts {
        if let Mount::Bind { source, target, .. } = mount
            && *target == Path::new(GUEST_INSIDE)
        {
            mounts.push(Staged::Bind {
                source: std::mem::replace(source, guest.clone()),
                target: guest.clone(),
                access: Access::ReadOnly,
                idmap: None,
            });
        }
    }
    mounts.extend(overlay(spec, folder, owners.image.map(idmap), bundle)?);
    Ok(Staging {
        is_private: true,
        folder: spec.provisions.containers.run.clone(),
        owner: (users.user, users.user),
        mounts,
    })
}

/// Mounts that an ordinary user makes in the user namespace of all their containers.
fn stage_for_caller(
    spec: &SandboxSpec,
    folder: &Folder,
    bundle: &mut Bundle,
) -> io::Result<Option<Staging>> {
    let overlay = overlay(spec, folder, None, bundle)?;
    Ok(overlay.map(|overlay| Staging {
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
    folder: &Folder,
    idmap: Option<IdMap>,
    bundle: &mut Bundle,
) -> io::Result<Option<Staged>> {
    let RootSpec::Image(image) = &spec.root else {
        return Ok(None);
    };
    let target = folder.mount_point("root")?;
    bundle.root = target.clone();
    Ok(Some(Staged::Overlay {
        lower: image.canonicalize()?,
        idmap,
        target,
        layer: folder.mount_point("layer")?,
        // At most half of the memory, so that the other half is left for processes.
        bytes: spec.limits.disk.min(spec.limits.memory / 2),
    }))
}
