//! Brings a machine from its components to the waiting state: restored from a snapshot, or booted
//! and stored as a snapshot for the next one. Sends all requests to Firecracker, in order. Entry
//! point: [`start_machine`].

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::walls::cgroups::{AvailableControllers, group_name, is_abandoned};
use ::walls::machine::VmmProgram;
use protocol::Backend;
use tracing::{debug, warn};

use super::api::{
    self, ApiError, BootSource, Drive, FirecrackerApi, MachineConfig, SnapshotFiles, VmState, Vsock,
};
use super::jail::{self, Jail};
use super::native_walls::{FIRECRACKER_PATH, FirecrackerView, start_firecracker_walls};
use super::shared_dir::SharedDir;
use super::snapshot::{
    FirecrackerSnapshot, FirecrackerSnapshots, MEMORY_FILE, STATE_FILE, SnapshotIdentity,
};
use super::vmlinux::Vmlinux;
use super::vmm::{Vmm, VmmWatch};
use super::vsock::{self, MachinePorts, ReadySocket, VsockError};
use super::{
    DISK_PATH, FirecrackerPrograms, INITRAMFS_PATH, KERNEL_PATH, SHARED_DIR, WAKE_TIMEOUT,
};
use crate::backends::confined_guest::own_folder;
use crate::backends::machine::initramfs::Initramfs;
use crate::backends::machine::size::MachineSize;
use crate::backends::machine::step;
use crate::error::SandboxError;
use crate::error_chain::error_chain;
use crate::spec::SandboxSpec;

/// Firecracker creates its socket in milliseconds.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);

/// A boot takes about a second; much longer means that it does not work here.
const BOOT_TIMEOUT: Duration = Duration::from_secs(30);

/// The first vsock address of guests: lower ones are reserved for the host.
const GUEST_CID: u32 = 3;

/// The components of a machine.
#[derive(Debug)]
pub(super) struct FirecrackerMachine {
    pub(super) programs: FirecrackerPrograms,
    pub(super) vmlinux: Vmlinux,
    pub(super) initramfs: Initramfs,
    pub(super) disk: PathBuf,
    pub(super) disk_stamp: String,
    pub(super) size: MachineSize,
}

/// Why a machine did not reach the waiting state.
#[derive(Debug, thiserror::Error)]
enum BootError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Vsock(#[from] VsockError),
    #[error(transparent)]
    Ended(#[from] super::vmm::Ended),
    #[error("{what} takes longer than {} s", .patience.as_secs())]
    Late {
        what: &'static str,
        patience: Duration,
    },
    #[error("cannot use the room")]
    Room(#[from] io::Error),
}

impl BootError {
    /// Whether Firecracker itself refused.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Api(error) if error.is_refusal())
    }
}

impl FirecrackerMachine {
    fn identity<'a>(&'a self, host: &'a str, boot_args: &'a str) -> SnapshotIdentity<'a> {
        SnapshotIdentity {
            kernel: &self.vmlinux.key,
            initramfs: &self.initramfs.key,
            disk: &self.disk_stamp,
            size: self.size,
            version: &self.programs.version,
            host,
            boot_args,
        }
    }

    /// Its files, and their paths for Firecracker.
    fn files(&self, snapshot: Option<&FirecrackerSnapshot>) -> Vec<(PathBuf, &'static str)> {
        // A restored machine needs its disk; the kernel and the initramfs are in its memory.
        let mut files = vec![(self.disk.clone(), DISK_PATH)];
        match snapshot {
            Some(snapshot) => files.extend([
                (snapshot.state.clone(), "/state"),
                (snapshot.memory.clone(), "/memory"),
            ]),
            None => files.extend([
                (self.vmlinux.file.clone(), KERNEL_PATH),
                (self.initramfs.file.clone(), INITRAMFS_PATH),
            ]),
        }
        files
    }
}

/// The kernel command line of the machine.
fn boot_args() -> String {
    let words = [
        // Firecracker ends when the guest resets through the keyboard controller.
        "reboot=k",
        "panic=-1",
        // There is no console, and probing for missing devices costs time.
        "8250.nr_uarts=0",
        "pci=off",
        "i8042.noaux",
        "i8042.nomux",
        "i8042.dumbkbd",
        "quiet",
        "transparent_hugepage=never",
        "lsm=landlock,yama",
        "audit=0",
        "nowatchdog",
        "random.trust_cpu=on",
        "hotcell.ports=vsock",
        "--",
        "init",
    ];
    words.join(" ")
}

/// Kernel and processor of the host.
fn host() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .filter(|line| line.starts_with("model name") || line.starts_with("microcode"))
        .take(2);
    model.fold(release, |text, line| text + line)
}

/// Returns a waiting machine and its ports.
pub(super) async fn start_machine(
    spec: &SandboxSpec,
    machine: &FirecrackerMachine,
) -> Result<(Vmm, MachinePorts), SandboxError> {
    let failed = |source| step(Backend::Firecracker, "use the folder of snapshots", source);
    let snapshots = FirecrackerSnapshots::open(&spec.provisions.cache).map_err(failed)?;
    let key = machine.identity(&host(), &boot_args()).key();
    if let Some(snapshot) = snapshots.find(&key, machine.size) {
        let mut vmm = start(spec, machine, Some(&snapshot)).await?;
        match restore(&mut vmm).await {
            Ok(ports) => return Ok((vmm, ports)),
            Err(error) => {
                warn!(%key, error = %error_chain(&error), "cannot use a snapshot; booting instead");
                vmm.end().await;
                snapshots.forget(&key);
            }
        }
    }
    let mut vmm = start(spec, machine, None).await?;
    match boot(&mut vmm, machine, &snapshots, &key).await {
        Ok(ports) => Ok((vmm, ports)),
        Err(error) => {
            vmm.end().await;
            Err(step(Backend::Firecracker, "start a machine", error))
        }
    }
}

/// Starts Firecracker with access to the files of a machine.
async fn start(
    spec: &SandboxSpec,
    machine: &FirecrackerMachine,
    snapshot: Option<&FirecrackerSnapshot>,
) -> Result<Vmm, SandboxError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let failed = |error| step(Backend::Firecracker, "start Firecracker", error);
    let name = group_name(u64::from(number))
        .map(|name| format!("{name}-fc"))
        .ok_or_else(|| failed(io::Error::other("`/proc` does not say who this process is")))?;
    let cache = &spec.provisions.cache;
    let files = machine.files(snapshot);
    let socket = format!("{SHARED_DIR}/{}", api::API_SOCKET);
    let deadline = spec.deadline().map(|wall| wall + Duration::from_secs(10));
    let programs = &machine.programs;
    if let Some(jailer) = &programs.jailer {
        let memory = machine.size.memory;
        let group = jail::group(&AvailableControllers::detect(), &name, memory, &spec.limits);
        // Includes the process id, so that sandboxes of several host processes differ too.
        let number = (std::process::id() << 10).wrapping_add(number);
        let make = || {
            let jail = Jail::new(cache, &programs.firecracker, name, number, group)?;
            let furnished = jail.populate(&files);
            if furnished.is_err() {
                jail.remove();
            }
            Vmm::start_jailed(jail, jailer, &socket, &furnished?, deadline)
        };
        return make().map_err(failed);
    }
    let room = rooms(cache).and_then(|rooms| {
        let room = rooms.join(&name);
        fs::DirBuilder::new().mode(0o700).create(&room)?;
        Ok(room)
    });
    let room = room.map_err(failed)?;
    let sight = FirecrackerView {
        firecracker: &programs.firecracker,
        kvm: &spec.provisions.machines.kvm,
        files: &files,
        room: &room,
    };
    let stood = start_firecracker_walls(spec, machine.size, &sight).await;
    if stood.is_err() {
        let _ = fs::remove_dir_all(&room);
    }
    let (standing, link) = stood?;
    let program = VmmProgram {
        path: FIRECRACKER_PATH.into(),
        arguments: ["--id", &name, "--api-sock", &socket]
            .map(str::to_owned)
            .into(),
    };
    Vmm::start_walled(standing, link, program, &room).map_err(failed)
}

/// The shared folders of machines behind native walls; a jail has its own.
fn rooms(cache: &Path) -> io::Result<PathBuf> {
    // A writable folder is mounted by its real path.
    own_folder(&cache.join("firecracker").join("rooms"))?.canonicalize()
}

/// Removes the leftovers of dead processes.
pub(super) fn remove_stale(cache: &Path) {
    jail::remove_stale(cache);
    if let Ok(snapshots) = FirecrackerSnapshots::open(cache) {
        snapshots.make_room();
    }
    let Ok(rooms) = rooms(cache) else { return };
    for room in fs::read_dir(rooms).into_iter().flatten().flatten() {
        if room.file_name().to_str().is_some_and(is_abandoned) {
            let _ = fs::remove_dir_all(room.path());
        }
    }
}

/// Loads the snapshot that Firecracker has access to, and connects to the machine.
async fn restore(vmm: &mut Vmm) -> Result<MachinePorts, BootError> {
    let (room, mut watch) = vmm.parts();
    let api = FirecrackerApi::new(room);
    let files = SnapshotFiles {
        state: "/state",
        memory: "/memory",
    };
    let socket = room.wait_until_listening(api::API_SOCKET);
    with_timeout(&mut watch, "Firecracker's start", SOCKET_TIMEOUT, socket).await?;
    let load = api.load_snapshot(files);
    with_timeout(&mut watch, "loading a snapshot", WAKE_TIMEOUT, load).await?;
    let meet = vsock::connect_machine(room);
    with_timeout(&mut watch, "connecting to the machine", WAKE_TIMEOUT, meet).await
}

/// Boots a machine, stores it as a snapshot, and connects to it.
async fn boot(
    vmm: &mut Vmm,
    machine: &FirecrackerMachine,
    snapshots: &FirecrackerSnapshots,
    key: &str,
) -> Result<MachinePorts, BootError> {
    let (room, mut watch) = vmm.parts();
    let api = FirecrackerApi::new(room);
    let socket = room.wait_until_listening(api::API_SOCKET);
    with_timeout(&mut watch, "Firecracker's start", SOCKET_TIMEOUT, socket).await?;
    let ready = ReadySocket::expect(room)?;
    let configure = configure(&api, machine);
    with_timeout(&mut watch, "making a machine", WAKE_TIMEOUT, configure).await?;
    with_timeout(&mut watch, "starting a machine", WAKE_TIMEOUT, api.start()).await?;
    with_timeout(
        &mut watch,
        "booting a machine",
        BOOT_TIMEOUT,
        ready.wait_for_connection(),
    )
    .await?;
    match store_snapshot(&api, room, snapshots, key).await {
        Ok(()) => debug!(%key, "snapshot stored"),
        // The machine works without a snapshot too; the next one boots again.
        Err(error) => warn!(%key, error = %error_chain(&error), "cannot store a snapshot"),
    }
    let resume = api.set(VmState::Resumed);
    with_timeout(&mut watch, "resuming a machine", WAKE_TIMEOUT, resume).await?;
    let meet = vsock::connect_machine(room);
    with_timeout(&mut watch, "connecting to the machine", WAKE_TIMEOUT, meet).await
}

async fn configure(api: &FirecrackerApi<'_>, machine: &FirecrackerMachine) -> Result<(), ApiError> {
    let instance = api.instance().await?;
    debug!(
        state = instance.state,
        version = instance.vmm_version,
        "Firecracker answers"
    );
    api.machine_config(&MachineConfig {
        vcpu_count: machine.size.processors,
        mem_size_mib: machine.size.memory >> 20,
        smt: false,
        track_dirty_pages: false,
    })
    .await?;
    api.boot_source(&BootSource {
        kernel_image_path: KERNEL_PATH.into(),
        initrd_path: INITRAMFS_PATH.into(),
        boot_args: boot_args(),
    })
    .await?;
    api.drive(&Drive {
        drive_id: "image".into(),
        path_on_host: DISK_PATH.into(),
        is_root_device: false,
        is_read_only: true,
    })
    .await?;
    api.vsock(&Vsock {
        guest_cid: GUEST_CID,
        uds_path: format!("{SHARED_DIR}/{}", vsock::DEVICE_SOCKET),
    })
    .await?;
    api.entropy().await
}

/// Takes a snapshot of a waiting machine. It stays paused.
async fn store_snapshot(
    api: &FirecrackerApi<'_>,
    room: &SharedDir,
    snapshots: &FirecrackerSnapshots,
    key: &str,
) -> Result<(), BootError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    api.set(VmState::Paused).await?;
    let (state, memory) = (
        format!("{SHARED_DIR}/{STATE_FILE}"),
        format!("{SHARED_DIR}/{MEMORY_FILE}"),
    );
    let files = SnapshotFiles {
        state: &state,
        memory: &memory,
    };
    let made = FirecrackerSnapshot {
        state: room.path().join(STATE_FILE),
        memory: room.path().join(MEMORY_FILE),
    };
    api.create_snapshot(files).await?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let draft = group_name(u64::from(number)).unwrap_or_else(|| "draft".into());
    let (snapshots, key) = (snapshots.clone(), key.to_owned());
    let publish = move || snapshots.publish(&key, &draft, &made);
    let published = tokio::task::spawn_blocking(publish).await;
    Ok(published.map_err(io::Error::other)??)
}

/// Runs a step with Firecracker; fails if Firecracker ends meanwhile or the step times out.
async fn with_timeout<T, E>(
    watch: &mut VmmWatch<'_>,
    what: &'static str,
    patience: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, BootError>
where
    BootError: From<E>,
{
    /// A closed connection is seen before the end of the process, which gives the reason.
    const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(1);
    let done = tokio::select! {
        done = work => done.map_err(BootError::from),
        ended = watch.ended() => return Err(ended.into()),
        () = tokio::time::sleep(patience) => return Err(BootError::Late { what, patience }),
    };
    match done {
        Err(error) if !error.is_refusal() => {
            match tokio::time::timeout(EXIT_GRACE_PERIOD, watch.ended()).await {
                Ok(ended) => Err(ended.into()),
                Err(_) => Err(error),
            }
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_to_end_and_who_its_init_is() {
        let said = boot_args();
        for word in ["reboot=k", "panic=-1", "hotcell.ports=vsock"] {
            assert!(said.split(' ').any(|one| one == word), "{said}");
        }
        assert!(said.ends_with("-- init"), "{said}");
        // The kernel has modules.
        assert!(!said.contains("nomodule"), "{said}");
    }
}
