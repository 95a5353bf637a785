//! OOM scores: makes commands the first victims of the kernel's OOM killer, instead of the guest.
//!
//! By default the kernel kills the largest process of the sandbox. That can be the guest, because data in
//! socket buffers counts against the limit but belongs to no process. So commands start with the highest
//! `oom_score_adj`. A command may lower it again, and then risks only its own sandbox.
//!
//! `/proc/self/oom_score_adj` can only be opened before the process becomes undumpable. Entry points:
//! [`open_score_file`], [`with_oom_victim_score`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

const COMMAND_SCORE: &[u8] = b"1000";

/// The open `oom_score_adj` of this process, and its original content. Closed at exec.
static SCORE_FILE: OnceLock<(File, Vec<u8>)> = OnceLock::new();

/// Opens the score file. If that fails, commands keep the default score.
pub(crate) fn open_score_file() {
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
        let _ = SCORE_FILE.set(own);
    }
}

/// The descriptor of the score file, which must stay open when all others are closed.
pub(crate) fn score_file_descriptor() -> Option<RawFd> {
    SCORE_FILE.get().map(|(file, _)| file.as_raw_fd())
}

/// Runs the closure with the highest score. A process that it starts inherits the score.
pub fn with_oom_victim_score<T>(start: impl FnOnce() -> T) -> T {
    let Some((file, usual)) = SCORE_FILE.get() else {
        return start();
    };
    // If the kernel refuses the write, the score stays unchanged.
    let _ = file.write_at(COMMAND_SCORE, 0);
    let started = start();
    let _ = file.write_at(usual, 0);
    started
}
