//! Cached probe results of this machine, stored in proofs.json of the cache folder.
//!
//! A result is valid for the machine, kernel, release and programs that it was made with: an
//! upgrade of any of them invalidates it. A file that is broken, or that another user could have
//! written, is ignored. The cache can change which of the allowed backends is tried first, never
//! which ones are allowed. Entry type: [`ProbeCache`].

mod fingerprint;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use protocol::Backend;
use serde::{Deserialize, Serialize};

use crate::backend_config::BackendConfig;
use crate::backends::confined_guest::own_folder;

/// Version of the file format.
const FORMAT_VERSION: u32 = 1;
/// Timeout for the lock. Other processes hold it for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// A larger file was not written by this program.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The result of starting one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    pub backend: Backend,
    pub works: bool,
    /// Whether its machine is emulated in software.
    pub is_emulated: bool,
    /// Why it does not work.
    pub problem: Option<String>,
    pub hint: Option<String>,
    /// The components it uses here, in a few words each.
    pub notes: Vec<String>,
    /// Time from the start to the end of the first command.
    pub start_ms: Option<f64>,
    /// Time of a further command.
    pub exec_ms: Option<f64>,
    /// Bytes of host memory of an idle sandbox.
    pub memory: Option<u64>,
    /// Seconds since 1970.
    pub at: u64,
    /// Hash of everything that the result depends on.
    pub(crate) stamp: String,
}

impl ProbeResult {
    /// A result of a backend about which nothing is known yet.
    pub(crate) fn of(backend: Backend) -> Self {
        Self {
            backend,
            works: false,
            is_emulated: false,
            problem: None,
            hint: None,
            notes: Vec::new(),
            start_ms: None,
            exec_ms: None,
            memory: None,
            at: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_secs()),
            stamp: String::new(),
        }
    }
}

/// The results that are currently valid.
#[derive(Debug, Default)]
pub(crate) struct ProbeCache {
    all: Vec<ProbeResult>,
}

#[derive(Serialize, Deserialize)]
struct ProbeCacheFile {
    version: u32,
    proofs: Vec<ProbeResult>,
}

impl ProbeCache {
    /// Reads the stored results that are still valid; none if the file cannot be read or trusted.
    pub(crate) fn read(provisions: &BackendConfig) -> Self {
        let mut all = read_file(&file(provisions)).unwrap_or_default();
        all.retain(|proof| proof.stamp == fingerprint::fingerprint(proof.backend, provisions));
        Self { all }
    }

    pub(crate) fn all(&self) -> &[ProbeResult] {
        &self.all
    }

    /// Stores a result, replacing an older one of the same backend.
    pub(crate) fn keep(
        &mut self,
        mut proof: ProbeResult,
        provisions: &BackendConfig,
    ) -> io::Result<()> {
        proof.stamp = fingerprint::fingerprint(proof.backend, provisions);
        self.all.retain(|other| other.backend != proof.backend);
        self.all.push(proof.clone());
        change(provisions, |kept| {
            kept.retain(|other| other.backend != proof.backend);
            kept.push(proof);
        })
    }

    /// Removes a result that turned out to be wrong.
    pub(crate) fn forget(
        &mut self,
        backend: Backend,
        provisions: &BackendConfig,
    ) -> io::Result<()> {
        self.all.retain(|other| other.backend != backend);
        change(provisions, |kept| {
            kept.retain(|other| other.backend != backend);
        })
    }
}

fn file(provisions: &BackendConfig) -> PathBuf {
    provisions.cache.join("proofs.json")
}

fn read_file(file: &Path) -> Option<Vec<ProbeResult>> {
    let found = fs::symlink_metadata(file).ok()?;
    let is_own = found.is_file()
        && found.uid() == nix::unistd::geteuid().as_raw()
        && found.mode() & 0o022 == 0
        && found.len() <= MAX_FILE_BYTES;
    if !is_own {
        return None;
    }
    let written: ProbeCacheFile = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (written.version == FORMAT_VERSION).then_some(written.proofs)
}

/// Rewrites the file as a whole. Concurrent processes wait for each other.
fn change(
    provisions: &BackendConfig,
    change: impl FnOnce(&mut Vec<ProbeResult>),
) -> io::Result<()> {
    let folder = own_folder(&provisions.cache)?;
    let lock = open_private(&folder.join("proofs.lock"))?;
    let _lock = lock_within(lock, LOCK_TIMEOUT)?;
    let file = file(provisions);
    let mut proofs = read_file(&file).unwrap_or_default();
    change(&mut proofs);
    let text = serde_json::to_vec_pretty(&ProbeCacheFile {
        version: FORMAT_VERSION,
        proofs,
    })?;
    // Only the holder of the lock writes to this name.
    let made = folder.join(".proofs.json");
    let mut writing = open_private(&made)?;
    writing.set_len(0)?;
    writing.write_all(&text)?;
    writing.sync_all()?;
    fs::rename(made, file)
}

/// Locks a file with a timeout, because the process that holds the lock may be stopped.
fn lock_within(mut file: fs::File, limit: Duration) -> io::Result<Flock<fs::File>> {
    let give_up = Instant::now() + limit;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((again, Errno::EWOULDBLOCK | Errno::EINTR)) if Instant::now() < give_up => {
                file = again;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err((_, Errno::EWOULDBLOCK)) => {
                let message = format!("cannot lock `proofs.lock` within {limit:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err((_, error)) => return Err(error.into()),
        }
    }
}

fn open_private(file: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(file)
}

#[cfg(test)]
mod tests;
