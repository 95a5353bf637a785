//! Brings a machine from its components to the waiting state: restored from a snapshot, or booted
//! and stored as a snapshot for the next one. Sends all requests to Firecracker, in order. Entry
//! point: [`begin`].

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::walls::cgroups::{Available, group_name, is_abandoned};
use ::walls::machine::Program;
use tracing::{debug, warn};

use super::api::{self, Api, ApiError, BootSource, Drive, MachineConfig, SnapshotFiles, Vm, Vsock};
use super::jail::{self, Jail};
use super::room::Room;
use super::snapshot::{Identity, MEMORY, STATE, Snapshot, Snapshots};
use super::vmlinux::Vmlinux;
use super::vmm::{Vmm, Watch};
use super::vsock::{self, Announcement, Ports, VsockError};
use super::walls::{PROGRAM, Sight, around_firecracker};
use super::{DISK, INITRAMFS, KERNEL, Programs, ROOM, WAKE};
use crate::backends::contained::own_folder;
use crate::backends::machine::initramfs::Initramfs;
use crate::backends::machine::size::Size;
use crate::backends::machine::step;
use crate::error::SandboxError;
use crate::spec::{Backend, SandboxSpec};

/// Firecracker creates its socket in milliseconds.
const SOCKET: Duration = Duration::from_secs(5);

/// A boot takes about a second; much longer means that it does not work here.
const BOOT: Duration = Duration::from_secs(30);

/// The first vsock address of guests: lower ones are reserved for the host.
const CID: u32 = 3;

/// The components of a machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) programs: Programs,
    pub(super) vmlinux: Vmlinux,
    pub(super) initramfs: Initramfs,
    pub(super) disk: PathBuf,
    pub(super) disk_stamp: String,
    pub(super) size: Size,
}

/// Why a machine did not reach the waiting state.
#[derive(Debug, thiserror::Error)]
enum Trouble {
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

impl Trouble {
    /// Whether Firecracker itself refused.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Api(error) if error.is_refusal())
    }
}

impl Machine {
    fn identity<'a>(&'a self, host: &'a str, boot_args: &'a str) -> Identity<'a> {
        Identity {
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
    fn files(&self, snapshot: Option<&Snapshot>) -> Vec<(PathBuf, &'static str)> {
        // A restored machine needs its disk; the kernel and the initramfs are in its memory.
        let mut files = vec![(self.disk.clone(), DISK)];
        match snapshot {
            Some(snapshot) => files.extend([
                (snapshot.state.clone(), "/state"),
                (snapshot.memory.clone(), "/memory"),
            ]),
            None => files.extend([
                (self.vmlinux.file.clone(), KERNEL),
                (self.initramfs.file.clone(), INITRAMFS),
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
pub(super) async fn begin(
    spec: &SandboxSpec,
    machine: &Machine,
) -> Result<(Vmm, Ports), SandboxError> {
    let failed = |source| step(Backend::Firecracker, "use the folder of snapshots", source);
    let snapshots = Snapshots::open(&spec.provisions.cache).map_err(failed)?;
    let key = machine.identity(&host(), &boot_args()).key();
    if let Some(snapshot) = snapshots.find(&key, machine.size) {
        let mut vmm = start(spec, machine, Some(&snapshot)).await?;
        match restore(&mut vmm).await {
            Ok(ports) => return Ok((vmm, ports)),
            Err(error) => {
                warn!(%key, error = %words(&error), "cannot use a snapshot; booting instead");
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

/// An error and its causes in one line.
fn words(error: &Trouble) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Starts Firecracker with access to the files of a machine.
async fn start(
    spec: &SandboxSpec,
    machine: &Machine,
    snapshot: Option<&Snapshot>,
) -> Result<Vmm, SandboxError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let failed = |error| step(Backend::Firecracker, "start Firecracker", error);
    let name = group_name(u64::from(number))
        .map(|name| format!("{name}-fc"))
        .ok_or_else(|| failed(io::Error::other("`/proc` does not say who this process is")))?;
    let cache = &spec.provisions.cache;
    let files = machine.files(snapshot);
    let socket = format!("{ROOM}/{}", api::SOCKET);
    let deadline = spec.deadline().map(|wall| wall + Duration::from_secs(10));
    let programs = &machine.programs;
    if let Some(jailer) = &programs.jailer {
        let memory = machine.size.memory;
        let group = jail::group(&Available::detect(), &name, memory, &spec.limits);
        // Includes the process id, so that sandboxes of several host processes differ too.
        let number = (std::process::id() << 10).wrapping_add(number);
        let make = || {
            let jail = Jail::new(cache, &programs.firecracker, name, number, group)?;
            let furnished = jail.furnish(&files);
            if furnished.is_err() {
                jail.remove();
            }
            Vmm::jailed(jail, jailer, &socket, &furnished?, deadline)
        };
        return make().map_err(failed);
    }
    let room = rooms(cache).and_then(|rooms| {
        let room = rooms.join(&name);
        fs::DirBuilder::new().mode(0o700).create(&room)?;
        Ok(room)
    });
    let room = room.map_err(failed)?;
    let sight = Sight {
        firecracker: &programs.firecracker,
        kvm: &spec.provisions.machines.kvm,
        files: &files,
        room: &room,
    };
    let stood = around_firecracker(spec, machine.size, &sight).await;
    if stood.is_err() {
        let _ = fs::remove_dir_all(&room);
    }
    let (standing, link) = stood?;
    let program = Program {
        path: PROGRAM.into(),
        arguments: ["--id", &name, "--api-sock", &socket]
            .map(str::to_owned)
            .into(),
    };
    Vmm::walled(standing, link, program, &room).map_err(failed)
}

/// The shared folders of machines behind native walls; a jail has its own.
fn rooms(cache: &Path) -> io::Result<PathBuf> {
    // A writable folder is mounted by its real path.
    own_folder(&cache.join("firecracker").join("rooms"))?.canonicalize()
}

/// Removes the leftovers of dead processes.
pub(super) fn sweep(cache: &Path) {
    jail::sweep(cache);
    if let Ok(snapshots) = Snapshots::open(cache) {
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
async fn restore(vmm: &mut Vmm) -> Result<Ports, Trouble> {
    let (room, mut watch) = vmm.parts();
    let api = Api::new(room);
    let files = SnapshotFiles {
        state: "/state",
        memory: "/memory",
    };
    let socket = room.until_it_listens(api::SOCKET);
    meanwhile(&mut watch, "Firecracker's start", SOCKET, socket).await?;
    let load = api.load_snapshot(files);
    meanwhile(&mut watch, "loading a snapshot", WAKE, load).await?;
    let meet = vsock::meet(room);
    meanwhile(&mut watch, "connecting to the machine", WAKE, meet).await
}

/// Boots a machine, stores it as a snapshot, and connects to it.
async fn boot(
    vmm: &mut Vmm,
    machine: &Machine,
    snapshots: &Snapshots,
    key: &str,
) -> Result<Ports, Trouble> {
    let (room, mut watch) = vmm.parts();
    let api = Api::new(room);
    let socket = room.until_it_listens(api::SOCKET);
    meanwhile(&mut watch, "Firecracker's start", SOCKET, socket).await?;
    let ready = Announcement::expect(room)?;
    let configure = configure(&api, machine);
    meanwhile(&mut watch, "making a machine", WAKE, configure).await?;
    meanwhile(&mut watch, "starting a machine", WAKE, api.start()).await?;
    meanwhile(&mut watch, "booting a machine", BOOT, ready.heard()).await?;
    match keep(&api, room, snapshots, key).await {
        Ok(()) => debug!(%key, "snapshot stored"),
        // The machine works without a snapshot too; the next one boots again.
        Err(error) => warn!(%key, error = %words(&error), "cannot store a snapshot"),
    }
    let resume = api.set(Vm::Resumed);
    meanwhile(&mut watch, "resuming a machine", WAKE, resume).await?;
    let meet = vsock::meet(room);
    meanwhile(&mut watch, "connecting to the machine", WAKE, meet).await
}

async fn configure(api: &Api<'_>, machine: &Machine) -> Result<(), ApiError> {
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
        kernel_image_path: KERNEL.into(),
        initrd_path: INITRAMFS.into(),
        boot_args: boot_args(),
    })
    .await?;
    api.drive(&Drive {
        drive_id: "image".into(),
        path_on_host: DISK.into(),
        is_root_device: false,
        is_read_only: true,
    })
    .await?;
    api.vsock(&Vsock {
        guest_cid: CID,
        uds_path: format!("{ROOM}/{}", vsock::DEVICE),
    })
    .await?;
    api.entropy().await
}

/// Takes a snapshot of a waiting machine. It stays paused.
async fn keep(api: &Api<'_>, room: &Room, snapshots: &Snapshots, key: &str) -> Result<(), Trouble> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    api.set(Vm::Paused).await?;
    let (state, memory) = (format!("{ROOM}/{STATE}"), format!("{ROOM}/{MEMORY}"));
    let files = SnapshotFiles {
        state: &state,
        memory: &memory,
    };
    let made = Snapshot {
        state: room.path().join(STATE),
        memory: room.path().join(MEMORY),
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
async fn meanwhile<T, E>(
    watch: &mut Watch<'_>,
    what: &'static str,
    patience: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble>
where
    Trouble: From<E>,
{
    /// A closed connection is seen before the end of the process, which gives the reason.
    const LAST_WORDS: Duration = Duration::from_secs(1);
    let done = tokio::select! {
        done = work => done.map_err(Trouble::from),
        ended = watch.ended() => return Err(ended.into()),
        () = tokio::time::sleep(patience) => return Err(Trouble::Late { what, patience }),
    };
    match done {
        Err(error) if !error.is_refusal() => {
            match tokio::time::timeout(LAST_WORDS, watch.ended()).await {
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
