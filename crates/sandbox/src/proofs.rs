//! What was seen to work on this machine, kept from one run to the next in `proofs.json` of the
//! cache folder.
//!
//! A verdict holds for the machine, kernel, release and programs that it was made with: an upgrade
//! of any of them voids it. A file that is broken, or that somebody else could have written,
//! proves nothing. What is here can change which of the allowed backends is tried first, never
//! which ones are allowed. Entry type: [`Proofs`].

mod stamp;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::backends::contained::own_folder;
use crate::provisions::Provisions;
use crate::spec::Backend;

/// Of the file's form.
const VERSION: u32 = 1;
/// How long to wait for others who change the file, which takes them milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes: more is not what was written here.
const LONGEST: u64 = 1 << 20;

/// The outcome of starting one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub backend: Backend,
    pub works: bool,
    /// Whether its machine is made of software.
    pub is_emulated: bool,
    /// Why it does not work, and how to make it.
    pub problem: Option<String>,
    pub hint: Option<String>,
    /// What it is made of here, in a few words each.
    pub notes: Vec<String>,
    /// From nothing to the end of a first command.
    pub start_ms: Option<f64>,
    /// A further command.
    pub exec_ms: Option<f64>,
    /// Bytes of the host's memory that an idle sandbox takes up.
    pub memory: Option<u64>,
    /// Seconds since 1970.
    pub at: u64,
    /// What it holds for, in a form that can only be compared.
    pub(crate) stamp: String,
}

impl Proof {
    /// Of a backend of which nothing is known yet.
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

/// The verdicts that hold at this moment.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    all: Vec<Proof>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    proofs: Vec<Proof>,
}

impl Proofs {
    /// Those that are kept and still hold; none when they cannot be read or trusted.
    pub(crate) fn read(provisions: &Provisions) -> Self {
        let mut all = read_file(&file(provisions)).unwrap_or_default();
        all.retain(|proof| proof.stamp == stamp::of(proof.backend, provisions));
        Self { all }
    }

    pub(crate) fn all(&self) -> &[Proof] {
        &self.all
    }

    /// Keeps a verdict in the place of an older one about the same backend.
    pub(crate) fn keep(&mut self, mut proof: Proof, provisions: &Provisions) -> io::Result<()> {
        proof.stamp = stamp::of(proof.backend, provisions);
        self.all.retain(|other| other.backend != proof.backend);
        self.all.push(proof.clone());
        change(provisions, |kept| {
            kept.retain(|other| other.backend != proof.backend);
            kept.push(proof);
        })
    }

    /// Drops a verdict that turned out false.
    pub(crate) fn forget(&mut self, backend: Backend, provisions: &Provisions) -> io::Result<()> {
        self.all.retain(|other| other.backend != backend);
        change(provisions, |kept| {
            kept.retain(|other| other.backend != backend);
        })
    }
}

fn file(provisions: &Provisions) -> PathBuf {
    provisions.cache.join("proofs.json")
}

fn read_file(file: &Path) -> Option<Vec<Proof>> {
    let found = fs::symlink_metadata(file).ok()?;
    let is_own = found.is_file()
        && found.uid() == nix::unistd::geteuid().as_raw()
        && found.mode() & 0o022 == 0
        && found.len() <= LONGEST;
    if !is_own {
        return None;
    }
    let written: Written = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (written.version == VERSION).then_some(written.proofs)
}

/// Changes the file as a whole. Processes that do so at the same time wait for each other.
fn change(provisions: &Provisions, change: impl FnOnce(&mut Vec<Proof>)) -> io::Result<()> {
    let folder = own_folder(&provisions.cache)?;
    let lock = open_own(&folder.join("proofs.lock"))?;
    let _lock = lock_within(lock, LOCK_TIMEOUT)?;
    let file = file(provisions);
    let mut proofs = read_file(&file).unwrap_or_default();
    change(&mut proofs);
    let text = serde_json::to_vec_pretty(&Written {
        version: VERSION,
        proofs,
    })?;
    // Under the lock nobody else writes to this name.
    let made = folder.join(".proofs.json");
    let mut writing = open_own(&made)?;
    writing.set_len(0)?;
    writing.write_all(&text)?;
    writing.sync_all()?;
    fs::rename(made, file)
}

/// Locks a file, but does not wait for ever: whoever holds the lock may be stopped.
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

fn open_own(file: &Path) -> io::Result<fs::File> {
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
