//! Snapshots: a machine that booted once and waits, stored so that others start from it.
//!
//! Memory and state are in sealed memory files, shared by all machines of this process: a machine
//! maps the memory privately, so its changes are its own. QEMU never sees the files in the cache,
//! so a machine that takes QEMU over cannot poison them.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use protocol::Backend;
use tokio::sync::OnceCell;
use tracing::info;
use walls::cgroups::is_abandoned;

use super::blueprint::{Blueprint, MachineStart};
use super::folder::OwnedFolder;
use super::qemu::{Qemu, QemuStart};
use super::tsc;
use crate::backends::machine::{self, assignment, step};
use crate::error::SandboxError;
use crate::spec::SandboxSpec;

/// Timeout of a boot, which takes seconds; an emulated one on a busy host takes longer.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout of a trial boot. With KVM it takes a second or never ends.
const TRIAL_BOOT_TIMEOUT: Duration = Duration::from_secs(20);

const PAGE_BYTES: usize = 4096;

/// Snapshots to keep: several sizes, for several versions of their components.
const MAX_SNAPSHOTS: usize = 12;

/// A waiting machine from which any number of others can start.
#[derive(Debug)]
pub(super) struct MicrovmSnapshot {
    pub(super) memory: OwnedFd,
    pub(super) state: OwnedFd,
}

/// A snapshot that is known or being made.
type SnapshotCell = Arc<OnceCell<Arc<MicrovmSnapshot>>>;

/// The snapshots of this process, by key.
static SNAPSHOTS: Mutex<Option<HashMap<String, SnapshotCell>>> = Mutex::new(None);

impl MicrovmSnapshot {
    /// Gets a snapshot from this process, from the cache, or from a boot.
    pub(super) async fn get(
        spec: &SandboxSpec,
        blueprint: &Blueprint,
    ) -> Result<Arc<Self>, SandboxError> {
        let key = blueprint.key();
        let cell = {
            let mut known = SNAPSHOTS.lock().unwrap_or_else(PoisonError::into_inner);
            let known = known.get_or_insert_default();
            known.entry(key.clone()).or_default().clone()
        };
        let found = cell.get_or_try_init(|| find(spec, blueprint, &key)).await?;
        Ok(found.clone())
    }

    /// Removes a snapshot that machines cannot start from, here and in the cache.
    pub(super) fn forget(spec: &SandboxSpec, blueprint: &Blueprint) {
        let key = blueprint.key();
        let mut known = SNAPSHOTS.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().remove(&key);
        let _ = fs::remove_dir_all(spec.provisions.cache.join("machines").join(&key));
    }
}

async fn find(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    key: &str,
) -> Result<Arc<MicrovmSnapshot>, SandboxError> {
    let failed = |source| step(Backend::Microvm, "store a snapshot", source);
    let folder = machine::folder(&spec.provisions.cache).map_err(failed)?;
    let kept = folder.join(key);
    let look = {
        let (kept, lock) = (kept.clone(), folder.join(format!("{key}.lock")));
        move || look(&kept, &lock)
    };
    let looked = tokio::task::spawn_blocking(look).await;
    let lock = match looked.map_err(io::Error::other).and_then(|looked| looked) {
        Ok(CacheLookup::Found(snapshot)) => return Ok(Arc::new(snapshot)),
        Ok(CacheLookup::Nothing(lock)) => lock,
        Err(error) => return Err(failed(error)),
    };
    info!(key, "booting a machine for a snapshot");
    let snapshot = Arc::new(boot(spec, blueprint).await?);
    let keep = {
        let snapshot = snapshot.clone();
        move || {
            let outcome = store(&snapshot, &folder, &kept);
            drop(lock);
            outcome
        }
    };
    let stored = tokio::task::spawn_blocking(keep).await;
    stored
        .map_err(io::Error::other)
        .and_then(|stored| stored)
        .map_err(failed)?;
    Ok(snapshot)
}

enum CacheLookup {
    Found(MicrovmSnapshot),
    /// Holds the lock for making it.
    Nothing(File),
}

/// Looks in the cache. If there is no snapshot, waits for another process that makes it, or returns
/// the lock for making it.
fn look(kept: &Path, lock: &Path) -> io::Result<CacheLookup> {
    if let Ok(snapshot) = load(kept) {
        return Ok(CacheLookup::Found(snapshot));
    }
    let lock = File::create(lock)?;
    lock.lock()?;
    Ok(match load(kept) {
        Ok(snapshot) => CacheLookup::Found(snapshot),
        Err(_) => CacheLookup::Nothing(lock),
    })
}

/// Boots a machine until it waits, and saves its memory and state.
async fn boot(spec: &SandboxSpec, blueprint: &Blueprint) -> Result<MicrovmSnapshot, SandboxError> {
    let failed = |error: io::Error| step(Backend::Microvm, "boot a machine", error);
    let memory = memory_file("hotcell-machine").map_err(failed)?;
    memory.set_len(blueprint.size.memory).map_err(failed)?;
    let state = memory_file("hotcell-state").map_err(failed)?;
    let (mut qemu, _workspace) = start_boot(spec, blueprint, &memory).await?;
    let waits = async {
        qemu.control.awake().await?;
        qemu.monitor.save(state.as_fd()).await?;
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    };
    let outcome = tokio::time::timeout(BOOT_TIMEOUT, waits).await;
    let outcome = outcome.unwrap_or_else(|_| Err("it did not boot in time".into()));
    if let Err(error) = outcome {
        let said = qemu.last_words().await;
        qemu.take_down().await;
        return Err(match said {
            Some(said) => step(Backend::Microvm, "boot a machine", said),
            None => step(Backend::Microvm, "boot a machine", error),
        });
    }
    qemu.take_down().await;
    seal(&memory).map_err(failed)?;
    seal(&state).map_err(failed)?;
    Ok(MicrovmSnapshot {
        memory: memory.into(),
        state: state.into(),
    })
}

/// Tries to boot a machine from the blueprint.
pub(super) async fn try_boot(spec: &SandboxSpec, blueprint: &Blueprint) -> Result<(), String> {
    let memory = memory_file("hotcell-machine").map_err(|error| error.to_string())?;
    memory
        .set_len(blueprint.size.memory)
        .map_err(|error| error.to_string())?;
    let (mut qemu, _workspace) = start_boot(spec, blueprint, &memory)
        .await
        .map_err(|error| error.to_string())?;
    let verdict = match tokio::time::timeout(TRIAL_BOOT_TIMEOUT, qemu.control.awake()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(match qemu.last_words().await {
            Some(said) => format!("a guest ends while it boots: {said}"),
            None => format!("a guest does not boot: {error}"),
        }),
        Err(_) => Err(format!(
            "a guest does not boot within {} s",
            TRIAL_BOOT_TIMEOUT.as_secs()
        )),
    };
    qemu.take_down().await;
    verdict
}

/// Starts booting a machine, with an empty folder as its placeholder workspace.
async fn start_boot(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    memory: &File,
) -> Result<(Qemu, OwnedFolder), SandboxError> {
    let counter = tokio::task::spawn_blocking(tsc::tsc_khz).await;
    let failed = |error: io::Error| step(Backend::Microvm, "boot a machine", error);
    let folder = machine::folder(&spec.provisions.cache).map_err(failed)?;
    let workspace = OwnedFolder::make(&folder).map_err(failed)?;
    let spec = SandboxSpec {
        workspace: workspace.path().to_owned(),
        ..spec.clone()
    };
    let mut qemu = Qemu::start(&QemuStart {
        blueprint,
        beginning: MachineStart::Boot {
            counter: counter.ok().flatten(),
        },
        memory: memory.as_fd(),
        state: None,
        spec: &spec,
    })
    .await?;
    let likely = assignment::plan(&spec, blueprint.size.processors);
    match qemu.control.expect(&likely).await {
        Ok(()) => Ok((qemu, workspace)),
        Err(error) => Err(super::machine_error(qemu, "boot a machine", error).await),
    }
}

fn memory_file(name: &str) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    Ok(memfd_create(name, flags)?.into())
}

fn seal(file: &File) -> io::Result<()> {
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

const MEMORY_FILE: &str = "memory";
const STATE_FILE: &str = "state";

/// Atomic: the snapshot appears as a whole or not at all.
fn store(snapshot: &MicrovmSnapshot, folder: &Path, kept: &Path) -> io::Result<()> {
    remove_old(folder)?;
    let own = OwnedFolder::make(folder)?;
    let draft = own.path();
    let write = || -> io::Result<()> {
        for (name, content) in [
            (MEMORY_FILE, &snapshot.memory),
            (STATE_FILE, &snapshot.state),
        ] {
            let target = File::create(draft.join(name))?;
            copy_sparse(&File::from(content.try_clone()?), &target)?;
            target.sync_all()?;
        }
        fs::rename(draft, kept)
    };
    let outcome = write();
    let _ = fs::remove_dir_all(draft);
    outcome
}

/// Removes the leftovers of crashes, and the least recently used snapshots.
fn remove_old(folder: &Path) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if entry.file_name().to_str().is_some_and(is_abandoned) {
            let _ = fs::remove_dir_all(&path);
        } else if let Ok(used) =
            fs::metadata(path.join(STATE_FILE)).and_then(|found| found.modified())
        {
            kept.push((used, path));
        }
    }
    kept.sort();
    for (_, path) in kept.iter().rev().skip(MAX_SNAPSHOTS - 1) {
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}

fn load(kept: &Path) -> io::Result<MicrovmSnapshot> {
    let read = |name: &str| -> io::Result<OwnedFd> {
        let source = File::open(kept.join(name))?;
        let target = memory_file("hotcell-machine")?;
        copy_data(&source, &target)?;
        seal(&target)?;
        Ok(target.into())
    };
    let snapshot = MicrovmSnapshot {
        memory: read(MEMORY_FILE)?,
        state: read(STATE_FILE)?,
    };
    // Records the last use, for `remove_old`.
    let _ = File::open(kept.join(STATE_FILE)).and_then(|file| file.set_modified(SystemTime::now()));
    Ok(snapshot)
}

/// The non-hole ranges of a file, as start and length.
fn data_ranges(file: &File) -> io::Result<Vec<(u64, u64)>> {
    use nix::unistd::{Whence, lseek};
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let start = match lseek(file, at, Whence::SeekData) {
            Ok(start) => start,
            Err(nix::errno::Errno::ENXIO) => return Ok(found),
            Err(error) => return Err(error.into()),
        };
        at = lseek(file, start, Whence::SeekHole)?;
        found.push((start as u64, (at - start) as u64));
    }
}

/// Copies the data and keeps holes.
fn copy_data(mut source: &File, mut target: &File) -> io::Result<()> {
    target.set_len(source.metadata()?.len())?;
    for (start, length) in data_ranges(source)? {
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(length), &mut target)?;
    }
    Ok(())
}

/// Copies the data, and leaves holes for pages that are all zeros.
fn copy_sparse(source: &File, target: &File) -> io::Result<()> {
    target.set_len(source.metadata()?.len())?;
    let mut buffer = vec![0; 256 * PAGE_BYTES];
    for (start, length) in data_ranges(source)? {
        let mut at = start;
        while at < start + length {
            let room = buffer.len().min((start + length - at) as usize);
            let read = source.read_at(&mut buffer[..room], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (number, page) in buffer[..read].chunks(PAGE_BYTES).enumerate() {
                if page.iter().any(|byte| *byte != 0) {
                    target.write_all_at(page, at + (number * PAGE_BYTES) as u64)?;
                }
            }
            at += read as u64;
        }
    }
    let mut target = target;
    target.flush()
}
