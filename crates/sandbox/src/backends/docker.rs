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
//! Entry point: [`raise`].

mod body;
mod daemon;
mod images;
mod standing;

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use walls::cgroups;
use walls::plan::{self, Access, IdMap, Landlocked};
use walls::staging::{Staged, Staging};

use self::body::Container;
use self::daemon::Daemon;
use self::standing::Walls;
use super::bundle::{Bundle, Mount};
use super::contained;
use super::container::door::{Door, Visitor};
use super::container::folder::{self, Folder};
use super::container::holds::Holds;
use super::container::{
    LINK_INSIDE, Owners, Said, Users, bounded_by_disk, failed, fence, next_number,
};
use super::furnishing::UID;
use super::native::maps_everyone;
use super::{Raised, Standing, check_strict, words};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::Enforcer;
use crate::spec::{Backend, RootSpec, SandboxSpec};

const BACKEND: Backend = Backend::Docker;

/// The host user of all sandboxes on images, which owns their files.
const IMAGE_USER: u32 = 0x6fff_ffff;

/// The host user of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    uid: u32,
    gid: u32,
    /// Whether owners can be mapped to it; otherwise it is the caller.
    is_mapped: bool,
}

impl Identity {
    fn of(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        if uid.is_root() && maps_everyone() {
            let own = match spec.root {
                RootSpec::Host => Users::of(next_number()).user,
                RootSpec::Image(_) => IMAGE_USER,
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

pub(crate) async fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let owners = Owners::look(spec)?;
    let identity = Identity::of(spec)?;
    let daemon = Daemon::find(&spec.provisions).await?;
    sweep(spec, &daemon).await;
    let (mut walls, visitor) = start(spec, &daemon, owners, identity).await?;
    let holds = Holds::of(visitor.pid, &spec.limits);
    walls.watch(visitor.pid, spec.limits.wall, holds.kill_counter());
    let mut limits = holds.enforcements(&spec.limits, Enforcer::Guest);
    if spec.root != RootSpec::Host {
        limits = bounded_by_disk(limits);
    }
    let mut link = visitor.link;
    let confined = match spec.strict_limits.then(|| check_strict(&limits)) {
        Some(Err(weak)) => Err(weak),
        _ => contained::confine(&mut link, &holds.confinement(spec, Some(UID)))
            .await
            .map_err(|source| failed(BACKEND, "confine the guest", source)),
    };
    // Only now the guest has its own user namespace.
    fence(visitor.pid, &spec.root).await;
    match confined {
        Ok(landlock) => {
            let names = describe(&daemon, spec, landlock);
            Ok(Raised::usual(BACKEND, link, Box::new(walls), names, limits))
        }
        Err(error) => {
            drop(link);
            walls.take_down().await;
            Err(error)
        }
    }
}

fn describe(daemon: &Daemon, spec: &SandboxSpec, landlock: Option<Landlocked>) -> Vec<String> {
    let root = match spec.root {
        RootSpec::Host => words::root(&spec.root),
        RootSpec::Image(_) => "image under a layer of Docker's",
    };
    let mut walls = vec![
        format!("docker {}, whose daemon is root", daemon.version()),
        "mount, pid, network, ipc, uts and cgroup namespaces".into(),
        "user namespace of its own, made by the guest".into(),
        root.into(),
        words::UNPRIVILEGED.into(),
        "seccomp allow-list, the engine's and the guest's own".into(),
    ];
    walls.extend(words::landlock(landlock));
    walls
}

/// Removes the containers and folders of dead owners, and images that were not used for a long
/// time.
async fn sweep(spec: &SandboxSpec, daemon: &Daemon) {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if SWEPT.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut names = folder::left_over(&spec.provisions, BACKEND);
    // A container can exist without its folder if its owner died while making it.
    let listed = daemon.sandboxes().await.into_iter();
    names.extend(listed.filter(|name| cgroups::is_abandoned(name)));
    for name in &names {
        daemon.remove(name).await;
    }
    folder::remove(&spec.provisions, BACKEND, &names);
    images::forget_old(daemon).await;
}

/// Creates and starts the container, and waits until the guest connects or the container ends.
async fn start(
    spec: &SandboxSpec,
    daemon: &Daemon,
    owners: Owners,
    identity: Identity,
) -> Result<(Walls, Visitor), SandboxError> {
    let unprepared = |source: io::Error| failed(BACKEND, "prepare a container", source);
    let folder = Folder::make(&spec.provisions, BACKEND, next_number()).map_err(unprepared)?;
    let door = Door::open(folder.path()).map_err(unprepared)?;
    let bundle = prepare(spec, &folder, &door, owners, identity)
        .await
        .map_err(unprepared)?;
    let image = images::Root::of(spec, &bundle, identity.uid).map_err(unprepared)?;
    let container = Container {
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
    let mut walls = Walls::new(daemon.clone(), folder);
    if !walls.create(body.clone()).await? {
        image.bring(daemon).await?;
        if !walls.create(body).await? {
            return Err(failed(
                BACKEND,
                "make a container",
                Said(format!("there is no image `{}`", image.tag())),
            ));
        }
    }
    if spec.root != RootSpec::Host {
        daemon.own_root(&name, identity.uid).await;
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
            Err(io::Error::other(Said("the container ended before the guest connected".into())))
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
    folder: &Folder,
    door: &Door,
    owners: Owners,
    identity: Identity,
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
    let bind = |source: &Path, target: &str| Mount::Bind {
        source: source.to_owned(),
        target: target.into(),
        read_only: true,
    };
    bundle.mounts.push(bind(door.path(), LINK_INSIDE));
    if spec.root == RootSpec::Host {
        std::fs::write(bundle.root.join(&LINK_INSIDE[1..]), "")?;
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
    owners: Owners,
    identity: Identity,
) -> io::Result<()> {
    let staging = Staging {
        is_private: false,
        folder: target.to_owned(),
        owner: (identity.uid, identity.gid),
        mounts: vec![Staged::Bind {
            source: workspace.to_owned(),
            target: target.to_owned(),
            access: Access::ReadWrite,
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
        Err(io::Error::other(Said::new(&String::from_utf8_lossy(
            &output.stderr,
        ))))
    }
}
