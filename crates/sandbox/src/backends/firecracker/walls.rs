//! The native walls of this backend: around Firecracker if there is no jailer, and around the
//! process that serves the workspace to the machine. Each sees only the part of the host that it
//! needs. Entry points: [`around_firecracker`], [`around_files`].

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use walls::machine::Errand;
use walls::plan::{Access, Behind, Fitting, Plan};

use super::ROOM;
use crate::backends::furnishing::shown;
use crate::backends::machine::size::Size;
use crate::backends::machine::step;
use crate::backends::native;
use crate::error::SandboxError;
use crate::limits::Limits;
use crate::spec::{Backend, RootSpec, SandboxSpec, WORKSPACE};

/// In addition to the machine's memory: Firecracker itself, and cached pages of its files.
const OVERHEAD: u64 = 128 << 20;

/// Memory of the file server.
const SERVER_MEMORY: u64 = 256 << 20;

const THREADS: u32 = 32;

/// Time after the deadline in which the inside may end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// Library folders, for a Firecracker that is dynamically linked.
const LIBRARIES: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
];

/// Path of Firecracker in its own root.
pub(super) const PROGRAM: &str = "/firecracker";
const KVM: &str = "/dev/kvm";

/// The parts of the host that Firecracker sees.
#[derive(Debug)]
pub(super) struct Sight<'a> {
    pub(super) firecracker: &'a Path,
    pub(super) kvm: &'a Path,
    /// Read-only files, and their paths for Firecracker.
    pub(super) files: &'a [(PathBuf, &'static str)],
    pub(super) room: &'a Path,
}

/// Starts walls that are still empty.
pub(super) async fn around_firecracker(
    spec: &SandboxSpec,
    size: Size,
    sight: &Sight<'_>,
) -> Result<(native::Standing, UnixStream), SandboxError> {
    let outside = outside(
        spec,
        Limits {
            memory: size.memory + OVERHEAD,
            // A snapshot stores the whole memory in one file.
            disk: size.memory + OVERHEAD,
            pids: THREADS + size.processors as u32,
            cpus: size.processors as f64,
            ..spec.limits
        },
    );
    let adapt = |plan: &mut Plan| {
        plan.behind = Behind::Machine;
        plan.fittings = furnish(sight);
        plan.writable = [ROOM, KVM, "/dev/null"].map(PathBuf::from).into();
    };
    let facts = native::gather(&outside)?;
    let (standing, link, _) = native::stand(&outside, &facts, adapt, None).await?;
    Ok((standing, link))
}

/// Serves the workspace on this connection as long as the walls run.
pub(super) async fn around_files(
    spec: &SandboxSpec,
    files: UnixStream,
) -> Result<FileServer, SandboxError> {
    let outside = outside(
        spec,
        Limits {
            memory: SERVER_MEMORY,
            cpus: spec.limits.cpus.max(1.0),
            pids: THREADS,
            open_files: 4096,
            ..spec.limits
        },
    );
    let adapt = |plan: &mut Plan| {
        let workspace = plan.fittings.drain(..).find(is_workspace);
        plan.behind = Behind::Machine;
        plan.fittings = basics();
        plan.fittings.extend(workspace);
        plan.writable = [WORKSPACE, "/dev/null", "/proc"].map(PathBuf::from).into();
    };
    let facts = native::gather(&outside)?;
    let (standing, link, _) = native::stand(&outside, &facts, adapt, None).await?;
    let send = || {
        let link = link.into_std()?;
        link.set_nonblocking(false)?;
        let errand = Errand {
            program: None,
            folder: Some(WORKSPACE.into()),
        };
        // The server uses blocking I/O.
        let files = files.into_std()?;
        files.set_nonblocking(false)?;
        errand.send(&link, &[files.as_fd()])?;
        Ok::<_, std::io::Error>(link)
    };
    let link = send().map_err(|error| step(Backend::Firecracker, "serve the workspace", error))?;
    Ok(FileServer {
        standing,
        _link: link,
    })
}

/// The process that serves the workspace. Dropping it ends it.
#[derive(Debug)]
pub(super) struct FileServer {
    pub(super) standing: native::Standing,
    /// Closing it would end the server.
    _link: std::os::unix::net::UnixStream,
}

fn outside(spec: &SandboxSpec, limits: Limits) -> SandboxSpec {
    SandboxSpec {
        backend: Backend::Native,
        root: RootSpec::Host,
        limits: Limits {
            wall: spec.limits.wall.map(|wall| wall + GRACE),
            ..limits
        },
        ..spec.clone()
    }
}

fn is_workspace(fitting: &Fitting) -> bool {
    matches!(fitting, Fitting::Bind { target, .. } if target == Path::new(WORKSPACE))
}

/// The entries that every process needs.
fn basics() -> Vec<Fitting> {
    vec![
        folder("/dev"),
        bind("/dev/null", "/dev/null", Access::Device),
        Fitting::Proc {
            target: "/proc".into(),
        },
    ]
}

fn furnish(sight: &Sight<'_>) -> Vec<Fitting> {
    let mut all = basics();
    for path in LIBRARIES {
        if let Some(shown) = shown(path.into()) {
            all.extend(Path::new(path).parent().map(folder));
            all.push(shown);
        }
    }
    all.push(bind("/dev/urandom", "/dev/urandom", Access::Device));
    all.push(bind(sight.kvm, KVM, Access::Device));
    all.push(bind(sight.firecracker, PROGRAM, Access::ReadOnly));
    for (source, target) in sight.files {
        all.push(bind(source, target, Access::ReadOnly));
    }
    all.push(bind(sight.room, ROOM, Access::ReadWrite));
    all
}

fn folder(target: impl Into<PathBuf>) -> Fitting {
    Fitting::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

fn bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>, access: Access) -> Fitting {
    Fitting::Bind {
        source: source.into(),
        target: target.into(),
        access,
        idmap: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firecracker_sees_its_own_and_writes_only_to_the_room() {
        let files = [(PathBuf::from("/cache/disk-1"), "/disk")];
        let sight = Sight {
            firecracker: Path::new("/opt/firecracker"),
            kvm: Path::new("/dev/kvm"),
            files: &files,
            room: Path::new("/cache/room"),
        };
        let mut written = Vec::new();
        let mut seen = Vec::new();
        for fitting in furnish(&sight) {
            if let Fitting::Bind {
                source,
                target,
                access,
                ..
            } = fitting
            {
                if access == Access::ReadWrite {
                    written.push(target.clone());
                }
                seen.push((source, target));
            }
        }
        assert_eq!(written, [PathBuf::from(ROOM)]);
        for (source, target) in [("/opt/firecracker", PROGRAM), ("/cache/disk-1", "/disk")] {
            assert!(seen.contains(&(source.into(), target.into())), "{seen:?}");
        }
        let is_home = |path: &PathBuf| path.starts_with("/home") || path == Path::new("/");
        assert!(!seen.iter().any(|(source, _)| is_home(source)), "{seen:?}");
    }
}
