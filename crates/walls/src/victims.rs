//! When memory runs out, the kernel kills the largest of a sandbox, which may be the guest: what
//! commands have sent and nobody received is counted, but as nobody's. So commands start as those who go
//! first. They may change that, and take their own sandbox with them.
//!
//! The file for it can be opened only before the process closes itself to others. Entry points:
//! [`prepare`], [`going_first`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

const FIRST: &[u8] = b"1000";

/// The file of this process, and what it said before. Closed at exec.
static OWN: OnceLock<(File, Vec<u8>)> = OnceLock::new();

/// Where it does not open, commands are victims like any other.
pub(crate) fn prepare() {
    let open = || -> io::Result<(File, Vec<u8>)> {
        let mut options = File::options();
        let mut file = options
            .read(true)
            .write(true)
            .open("/proc/self/oom_score_adj")?;
        let mut usual = Vec::new();
        file.read_to_end(&mut usual)?;
        Ok((file, usual))
    };
    if let Ok(own) = open() {
        let _ = OWN.set(own);
    }
}

/// The number of the file, for whoever closes all others.
pub(crate) fn descriptor() -> Option<RawFd> {
    OWN.get().map(|(file, _)| file.as_raw_fd())
}

/// What is started meanwhile goes first.
pub fn going_first<T>(start: impl FnOnce() -> T) -> T {
    let Some((file, usual)) = OWN.get() else {
        return start();
    };
    // What the kernel refuses here leaves everything as it was.
    let _ = file.write_at(FIRST, 0);
    let started = start();
    let _ = file.write_at(usual, 0);
    started
}
