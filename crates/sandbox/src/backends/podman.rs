//! Podman: a container without an image, started by the `podman` program. Needs no daemon and no
//! socket, and works the same for root and for an ordinary user.
//!
//! Root gives every sandbox its own user namespace (`--uidmap`), and maps the owner of the
//! workspace with a mount in a mount namespace that only Podman's processes are in, so nothing is
//! left on the host after any kind of end. For an ordinary user the sandbox's user is that user
//! (--userns=keep-id). On machines with only version 1 cgroups, an ordinary user's containers
//! have no cgroup, and the guest enforces the limits as behind native walls.
//!
//! `provisions.containers.podman_runtime` names the runtime below Podman. `krun`, which starts a
//! virtual machine, is possible too. It needs KVM and has not been tested.
//!
//! The container ends with the link. `podman` itself does not keep running: its monitor does, and
//! removes the container. Entry point: [`start_backend`].

mod arguments;
mod engine;
mod preparation;
mod running;

use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::Backend;
use tokio::sync::oneshot;
use walls::plan::LandlockStatus;

use self::engine::PodmanEngine;
use self::preparation::{PreparedContainer, prepare};
use self::running::PodmanContainer;
use super::child::run_on_thread;
use super::confined_guest;
use super::container::cgroup_limits::CgroupLimits;
use super::container::folder;
use super::container::link_socket::GuestConnection;
use super::container::{EngineError, MountOwners, SandboxUids, failed, fence, next_number};
use super::{RunningWalls, StartedBackend, check_strict, wall_descriptions};
use crate::error::SandboxError;
use crate::limits::LimitEnforcer;
use crate::spec::SandboxSpec;

const BACKEND: Backend = Backend::Podman;

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let owners = MountOwners::look(spec)?;
    let engine = PodmanEngine::find(&spec.provisions)?;
    let users = SandboxUids::of(next_number());
    let user = if engine.is_rootful {
        users.user
    } else {
        nix::unistd::geteuid().as_raw()
    };
    remove_stale(spec, &engine).await;
    let prepared = prepare(spec, &engine, owners, users)
        .map_err(|source| failed(BACKEND, "prepare a container", source))?;
    let (mut walls, visitor) = start(&engine, prepared, user).await?;
    let pid = visitor.pid;
    let holds = CgroupLimits::of(pid, &spec.limits);
    walls.watch(pid, holds.kill_counter());
    let limits = holds.enforcements(&spec.limits, LimitEnforcer::GuestAndEngine);
    // Before confinement, which closes the guest to other processes, even of its own user.
    fence(pid, &spec.root).await;
    let mut link = visitor.link;
    let confined = match spec.strict_limits.then(|| check_strict(&limits)) {
        Some(Err(weak)) => Err(weak),
        _ => confined_guest::confine(&mut link, &holds.confinement(spec, None))
            .await
            .map_err(|source| failed(BACKEND, "confine the guest", source)),
    };
    match confined {
        Ok(landlock) => {
            let names = describe(&engine, spec, landlock);
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
    engine: &PodmanEngine,
    spec: &SandboxSpec,
    landlock: Option<LandlockStatus>,
) -> Vec<String> {
    let users = if engine.is_rootful {
        "user namespace of its own"
    } else {
        "user namespace of this user's"
    };
    let mut walls = vec![
        format!("podman with {}, {users}", engine.runtime_name()),
        "mount, pid, network, ipc, uts and cgroup namespaces".into(),
        wall_descriptions::root(&spec.root).into(),
        wall_descriptions::UNPRIVILEGED.into(),
        "seccomp allow-list, the engine's and the guest's own".into(),
    ];
    walls.extend(wall_descriptions::landlock(landlock));
    walls
}

/// Removes the containers and folders of dead owners, before the first sandbox starts.
async fn remove_stale(spec: &SandboxSpec, engine: &PodmanEngine) {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if SWEPT.swap(true, Ordering::Relaxed) {
        return;
    }
    let names = folder::stale_names(&spec.provisions, BACKEND);
    if !names.is_empty() {
        let (engine, provisions) = (engine.clone(), spec.provisions.clone());
        run_on_thread(move || {
            engine.remove(&names);
            folder::remove_folders(&provisions, BACKEND, &names);
        })
        .await;
    }
}

/// Starts the container and waits until the guest connects or Podman fails.
async fn start(
    engine: &PodmanEngine,
    prepared: PreparedContainer,
    user: u32,
) -> Result<(PodmanContainer, GuestConnection), SandboxError> {
    let PreparedContainer {
        folder,
        door,
        arguments,
        staging,
        guest,
    } = prepared;
    let run = engine
        .start(&arguments, staging.as_ref(), &guest)
        .map_err(SandboxError::Launch)?;
    let name = folder.name().to_owned();
    let mut walls = PodmanContainer::new(engine.clone(), folder, run);
    let entered = tokio::select! {
        entered = door.enter(user) => Some(entered),
        output = walls.started() => match output {
            // It runs: wait for the guest to connect, or for the container to end.
            Some(output) if output.status.success() => tokio::select! {
                entered = door.enter(user) => Some(entered),
                () = wait_for_end(engine, &name) => None,
            },
            output => return Err(start_error(engine, output)),
        },
    };
    match entered {
        Some(Ok(visitor)) => Ok((walls, visitor)),
        Some(Err(source)) => Err(failed(BACKEND, "reach the guest", source)),
        None => Err(failed(
            BACKEND,
            "reach the guest",
            EngineError("the container ended before the guest connected".into()),
        )),
    }
}

/// Waits until a container has ended.
async fn wait_for_end(engine: &PodmanEngine, name: &str) {
    let (engine, name) = (engine.clone(), name.to_owned());
    run_on_thread(move || engine.wait(&name)).await;
}

fn start_error(engine: &PodmanEngine, output: Option<Output>) -> SandboxError {
    let printed = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let said = EngineError::new(&printed.unwrap_or_default());
    match engine.advise(&said.0) {
        Some(advice) => SandboxError::Unavailable {
            backend: BACKEND,
            reason: said.0,
            advice: Some(advice),
        },
        None => failed(BACKEND, "start a container", said),
    }
}

/// A running `podman run`.
#[derive(Debug)]
struct PodmanRun {
    /// Also its process group id.
    pid: i32,
    /// Sent by the thread that waits for it.
    ended: oneshot::Receiver<Output>,
}
