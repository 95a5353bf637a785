//! Docker: a container of a running daemon, over its socket.
//!
//! Docker cannot start a folder, so the generated root is imported as an image of a few hundred
//! kilobytes, named after its content, and an image folder as an image with all of its files
//! ([`images`]). Docker has no user mapping per container either: the guest is started as a host
//! user that belongs to the sandbox, and enters its own user namespace before anything else runs.
//! The owner of the workspace is mapped by a mount that exists only until Docker has mounted it
//! into the container. A caller who may use the daemon's socket but is not root starts the guest
//! under their own user.
//!
//! Weaker than other backends: the daemon is root and makes the namespaces; an image's root is a
//! layer of Docker's on disk (the guest measures its size, if it is on the same disk as the
//! workspace); and all sandboxes on one image share one host user. New names directly in an image's
//! `/` need a daemon that keeps layers in folders (`overlay2`) and a caller who is root.
//! Entry point: [`start_backend`].

mod create_body;
mod daemon;
mod images;
mod running;

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Backend;
use walls::cgroups;
use walls::plan::{self, IdMap, LandlockStatus, MountAccess};
use walls::staging::{StagedMount, StagingPlan};

use self::create_body::DockerContainerSpec;
use self::daemon::DockerDaemon;
use self::running::DockerContainer;
use super::bundle::{Bundle, BundleMount};
use super::confined_guest;
use super::container::cgroup_limits::CgroupLimits;
use super::container::folder::{self, ContainerFolder};
use super::container::link_socket::{GuestConnection, LinkSocket};
use super::container::{
    EngineError, LINK_PATH, MountOwners, SandboxUids, failed, fence, next_number,
    with_engine_disk_caveat,
};
use super::native::is_initial_user_namespace;
use super::root_entries::UID;
use super::{RunningWalls, StartedBackend, check_strict, wall_descriptions};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::LimitEnforcer;
use crate::spec::{RootSpec, SandboxSpec};

const BACKEND: Backend = Backend::Docker;

/// The host user of all sandboxes on images, which owns their files.
const IMAGE_UID: u32 = 0x6fff_ffff;

/// The host user of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DockerIdentity {
    uid: u32,
    gid: u32,
    /// Whether owners can be mapped to it; otherwise it is the caller.
    is_mapped: bool,
}

impl DockerIdentity {
    fn of(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        if uid.is_root() && is_initial_user_namespace() {
            let own = match spec.root {
                RootSpec::Host => SandboxUids::of(next_number()).user,
                RootSpec::Image(_) => IMAGE_UID,
            };
            return Ok(Self {
                uid: own,
                gid: own,
                is_mapped: true,
            });
        }
        if uid.is_root() {
            return Err(SandboxError::Unavailable {
                backend: BACKEND,
                reason: "the root of a user namespace cannot give a sandbox a user".into(),
                advice: Some("run it as an ordinary user who may use the socket".into()),
            });
        }
        Ok(Self {
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            is_mapped: false,
        })
    }
}

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let owners = MountOwners::look(spec)?;
    let identity = DockerIdentity::of(spec)?;
    let daemon = DockerDaemon::find(&spec.provisions).await?;
    remove_stale(spec, &daemon).await;
    let (mut walls, visitor) = start(spec, &daemon, owners, identity).await?;
    let holds = CgroupLimits::of(visitor.pid, &spec.limits);
    walls.watch(visitor.pid, spec.limits.wall, holds.kill_counter());
    let mut limits = holds.enforcements(&spec.limits, LimitEnforcer::Guest);
    if spec.root != RootSpec::Host {
        limits = with_engine_disk_caveat(limits);
    }
    let mut link = visitor.link;
    let confined = match spec.strict_limits.then(|| check_strict(&limits)) {
        Some(Err(weak)) => Err(weak),
        _ => confined_guest::confine(&mut link, &holds.confinement(spec, Some(UID)))
            .await
            .map_err(|source| failed(BACKEND, "confine the guest", source)),
    };
    // Only now the guest has its own user namespace.
    fence(visitor.pid, &spec.root).await;
    match confined {
        Ok(landlock) => {
            let names = describe(&daemon, spec, landlock);
            Ok(
                StartedBackend::usual(BACKEND, link, Box::new(walls), names, limits)
                    .with_landlock(landlock),
            )
        }
        Err(error) => {
            drop(link);
            walls.take_down().await;
            Err(error)
        }
    }
}

fn describe(
    daemon: &DockerDaemon,
    spec: &SandboxSpec,
    landlock: Option<LandlockStatus>,
) -> Vec<String> {
    let root = match spec.root {
        RootSpec::Host => wall_descriptions::root(&spec.root),
        RootSpec::Image(_) => "image under a layer of Docker's",
    };
    let mut walls = vec![
        format!("docker {}, whose daemon is root", daemon.version()),
        "mount, pid, network, ipc, uts and cgroup namespaces".into(),
        "user namespace of its own, made by the guest".into(),
        root.into(),
        wall_descriptions::UNPRIVILEGED.into(),
        "seccomp allow-list, the engine's and the guest's own".into(),
    ];
    walls.extend(wall_descriptions::landlock(landlock));
    walls
}

/// Removes the containers and folders of dead owners, and images that were not used for a long
/// time.
async fn remove_stale(spec: &SandboxSpec, daemon: &DockerDaemon) {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if SWEPT.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut names = folder::stale_names(&spec.provisions, BACKEND);
    // A container can exist without its folder if its owner died while making it.
    let listed = daemon.sandbox_names().await.into_iter();
    names.extend(listed.filter(|name| cgroups::is_abandoned(name)));
    for name in &names {
        daemon.remove(name).await;
    }
    folder::remove_folders(&spec.provisions, BACKEND, &names);
    images::remove_old(daemon).await;
}

/// Creates and starts the container, and waits until the guest connects or the container ends.
async fn start(
    spec: &SandboxSpec,
    daemon: &DockerDaemon,
    owners: MountOwners,
    identity: DockerIdentity,
) -> Result<(DockerContainer, GuestConnection), SandboxError> {
    let unprepared = |source: io::Error| failed(BACKEND, "prepare a container", source);
    let folder =
        ContainerFolder::make(&spec.provisions, BACKEND, next_number()).map_err(unprepared)?;
    let door = LinkSocket::open(folder.path()).map_err(unprepared)?;
    let bundle = prepare(spec, &folder, &door, owners, identity)
        .await
        .map_err(unprepared)?;
    let image = images::RootImage::of(spec, &bundle, identity.uid).map_err(unprepared)?;
    let container = DockerContainerSpec {
        name: folder.name(),
        owner: &folder.owner(),
        identity: (identity.uid, identity.gid),
        image: image.tag(),
        bundle: &bundle,
        is_image: spec.root != RootSpec::Host,
        limits: &spec.limits,
    };
    let body = container.body();
    let name = folder.name().to_owned();
    let mut walls = DockerContainer::new(daemon.clone(), folder);
    if !walls.create(body.clone()).await? {
        image.upload(daemon).await?;
        if !walls.create(body).await? {
            return Err(failed(
                BACKEND,
                "make a container",
                EngineError(format!("there is no image `{}`", image.tag())),
            ));
        }
    }
    if spec.root != RootSpec::Host {
        daemon.chown_root(&name, identity.uid).await;
    }
    let starting = async {
        daemon.start(&name).await?;
        // It runs: wait for its end, in case the guest never connects.
        daemon.gone(&name).await;
        Ok::<_, SandboxError>(())
    };
    let entered = tokio::select! {
        entered = door.enter(identity.uid) => entered,
        ended = starting => {
            ended?;
            Err(io::Error::other(EngineError("the container ended before the guest connected".into())))
        }
    };
    let visitor = entered.map_err(|source| failed(BACKEND, "reach the guest", source))?;
    // The container has its own mounts by now.
    walls.unmount();
    Ok((walls, visitor))
}

/// Makes the generated root and all mounts, with the workspace's owner mapped.
async fn prepare(
    spec: &SandboxSpec,
    folder: &ContainerFolder,
    door: &LinkSocket,
    owners: MountOwners,
    identity: DockerIdentity,
) -> io::Result<Bundle> {
    let workspace = spec.real_workspace()?;
    let shown = if identity.is_mapped {
        let shown = folder.mount_point("workspace")?;
        mount(&workspace, &shown, owners, identity).await?;
        shown
    } else {
        workspace
    };
    let mut bundle = Bundle::make(spec, folder.path(), &shown)?;
    let bind = |source: &Path, target: &str| BundleMount::Bind {
        source: source.to_owned(),
        target: target.into(),
        read_only: true,
    };
    bundle.mounts.push(bind(door.path(), LINK_PATH));
    if spec.root == RootSpec::Host {
        std::fs::write(bundle.root.join(&LINK_PATH[1..]), "")?;
        // Docker would mount its own files over these, with the host's name servers.
        for target in ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"] {
            let source = bundle.root.join(&target[1..]);
            bundle.mounts.push(bind(&source, target));
        }
    }
    Ok(bundle)
}

/// Mounts the workspace where the daemon finds it, with its owner mapped to the sandbox's user.
async fn mount(
    workspace: &Path,
    target: &Path,
    owners: MountOwners,
    identity: DockerIdentity,
) -> io::Result<()> {
    let staging = StagingPlan {
        is_private: false,
        folder: target.to_owned(),
        owner: (identity.uid, identity.gid),
        mounts: vec![StagedMount::Bind {
            source: workspace.to_owned(),
            target: target.to_owned(),
            access: MountAccess::ReadWrite,
            idmap: Some(IdMap {
                disk_uid: owners.workspace.0,
                disk_gid: owners.workspace.1,
            }),
        }],
    };
    let mut child = guest_program::command("stage")?
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(input) = child.stdin.take() {
        plan::send(input, &staging)?;
    }
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = ended.await.map_err(io::Error::other)??;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(EngineError::new(
            &String::from_utf8_lossy(&output.stderr),
        )))
    }
}
