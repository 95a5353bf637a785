//! The native walls of this backend: around Firecracker if there is no jailer, and around the
//! process that serves the workspace to the machine. Each sees only the part of the host that it
//! needs. Entry points: [`start_firecracker_walls`], [`start_file_server`].

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::Backend;
use tokio::net::UnixStream;
use walls::machine::HelperTask;
use walls::plan::{MountAccess, Process1Role, RootEntry, WallsPlan};

use super::SHARED_DIR;
use crate::backends::machine::size::MachineSize;
use crate::backends::machine::step;
use crate::backends::native;
use crate::backends::root_entries::host_entry;
use crate::error::SandboxError;
use crate::limits::SandboxLimits;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};

/// In addition to the machine's memory: Firecracker itself, and cached pages of its files.
const MEMORY_OVERHEAD_BYTES: u64 = 128 << 20;

/// Memory of the file server.
const SERVER_MEMORY_BYTES: u64 = 256 << 20;

const MAX_THREADS: u32 = 32;

/// Time after the deadline in which the inside may end by itself.
const DEADLINE_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Library folders, for a Firecracker that is dynamically linked.
const LIBRARY_PATHS: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
];

/// Path of Firecracker in its own root.
pub(super) const FIRECRACKER_PATH: &str = "/firecracker";
const KVM_PATH: &str = "/dev/kvm";

/// The parts of the host that Firecracker sees.
#[derive(Debug)]
pub(super) struct FirecrackerView<'a> {
    pub(super) firecracker: &'a Path,
    pub(super) kvm: &'a Path,
    /// Read-only files, and their paths for Firecracker.
    pub(super) files: &'a [(PathBuf, &'static str)],
    pub(super) room: &'a Path,
}

/// Starts walls that are still empty.
pub(super) async fn start_firecracker_walls(
    spec: &SandboxSpec,
    size: MachineSize,
    sight: &FirecrackerView<'_>,
) -> Result<(native::NativeWalls, UnixStream), SandboxError> {
    let outside = outside(
        spec,
        SandboxLimits {
            memory: size.memory + MEMORY_OVERHEAD_BYTES,
            // A snapshot stores the whole memory in one file.
            disk: size.memory + MEMORY_OVERHEAD_BYTES,
            pids: MAX_THREADS + size.processors as u32,
            cpus: size.processors as f64,
            ..spec.limits
        },
    );
    let adapt = |plan: &mut WallsPlan| {
        plan.role = Process1Role::VmmHelper;
        plan.root_entries = firecracker_entries(sight);
        plan.writable = [SHARED_DIR, KVM_PATH, "/dev/null"]
            .map(PathBuf::from)
            .into();
    };
    let facts = native::gather_facts(&outside)?;
    let (standing, link, _) = native::start_walls(&outside, &facts, adapt, None).await?;
    Ok((standing, link))
}

/// Serves the workspace on this connection as long as the walls run.
pub(super) async fn start_file_server(
    spec: &SandboxSpec,
    files: UnixStream,
) -> Result<FileServer, SandboxError> {
    let outside = outside(
        spec,
        SandboxLimits {
            memory: SERVER_MEMORY_BYTES,
            cpus: spec.limits.cpus.max(1.0),
            pids: MAX_THREADS,
            open_files: 4096,
            ..spec.limits
        },
    );
    let adapt = |plan: &mut WallsPlan| {
        let workspace = plan.root_entries.drain(..).find(is_workspace);
        plan.role = Process1Role::VmmHelper;
        plan.root_entries = basic_entries();
        plan.root_entries.extend(workspace);
        plan.writable = [WORKSPACE_PATH, "/dev/null", "/proc"]
            .map(PathBuf::from)
            .into();
    };
    let facts = native::gather_facts(&outside)?;
    let (standing, link, _) = native::start_walls(&outside, &facts, adapt, None).await?;
    let send = || {
        let link = link.into_std()?;
        link.set_nonblocking(false)?;
        let errand = HelperTask {
            program: None,
            folder: Some(WORKSPACE_PATH.into()),
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
    pub(super) standing: native::NativeWalls,
    /// Closing it would end the server.
    _link: std::os::unix::net::UnixStream,
}

fn outside(spec: &SandboxSpec, limits: SandboxLimits) -> SandboxSpec {
    SandboxSpec {
        backend: Backend::Native,
        root: RootSpec::Host,
        limits: SandboxLimits {
            wall: spec.limits.wall.map(|wall| wall + DEADLINE_GRACE_PERIOD),
            ..limits
        },
        ..spec.clone()
    }
}

fn is_workspace(fitting: &RootEntry) -> bool {
    matches!(fitting, RootEntry::Bind { target, .. } if target == Path::new(WORKSPACE_PATH))
}

/// The entries that every process needs.
fn basic_entries() -> Vec<RootEntry> {
    vec![
        folder("/dev"),
        bind("/dev/null", "/dev/null", MountAccess::Device),
        RootEntry::Proc {
            target: "/proc".into(),
        },
    ]
}

fn firecracker_entries(sight: &FirecrackerView<'_>) -> Vec<RootEntry> {
    let mut all = basic_entries();
    for path in LIBRARY_PATHS {
        if let Some(host_entry) = host_entry(path.into()) {
            all.extend(Path::new(path).parent().map(folder));
            all.push(host_entry);
        }
    }
    all.push(bind("/dev/urandom", "/dev/urandom", MountAccess::Device));
    all.push(bind(sight.kvm, KVM_PATH, MountAccess::Device));
    all.push(bind(
        sight.firecracker,
        FIRECRACKER_PATH,
        MountAccess::ReadOnly,
    ));
    for (source, target) in sight.files {
        all.push(bind(source, target, MountAccess::ReadOnly));
    }
    all.push(bind(sight.room, SHARED_DIR, MountAccess::ReadWrite));
    all
}

fn folder(target: impl Into<PathBuf>) -> RootEntry {
    RootEntry::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

fn bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>, access: MountAccess) -> RootEntry {
    RootEntry::Bind {
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
        let sight = FirecrackerView {
            firecracker: Path::new("/opt/firecracker"),
            kvm: Path::new("/dev/kvm"),
            files: &files,
            room: Path::new("/cache/room"),
        };
        let mut written = Vec::new();
        let mut seen = Vec::new();
        for fitting in firecracker_entries(&sight) {
            if let RootEntry::Bind {
                source,
                target,
                access,
                ..
            } = fitting
            {
                if access == MountAccess::ReadWrite {
                    written.push(target.clone());
                }
                seen.push((source, target));
            }
        }
        assert_eq!(written, [PathBuf::from(SHARED_DIR)]);
        for (source, target) in [
            ("/opt/firecracker", FIRECRACKER_PATH),
            ("/cache/disk-1", "/disk"),
        ] {
            assert!(seen.contains(&(source.into(), target.into())), "{seen:?}");
        }
        let is_home = |path: &PathBuf| path.starts_with("/home") || path == Path::new("/");
        assert!(!seen.iter().any(|(source, _)| is_home(source)), "{seen:?}");
    }
}
