//! The one program that runs inside every sandbox, as its first process.
//!
//! `serve` is the guest: it answers the host's requests over the link on standard input and
//! ends with it. `walls` is the supervisor of the native backend, outside the sandbox; it
//! becomes nothing else. It reads no environment and no configuration: the host says all.

mod disk;
mod exec;
mod files;
mod inspect;
mod jobs;
mod listing;
mod ports;
mod processes;
mod readiness;
mod refusal;
mod search;
mod session;
mod shell;
mod spawn;
mod state;
mod survey;
mod tails;
mod terminal;
mod walk;
mod watch;
mod workers;

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    let role = std::env::args().nth(1);
    // SAFETY: the starter gave this process descriptors 0 and 1 for good; nothing else here
    // uses them.
    let (link, control) = unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) };
    match role.as_deref() {
        Some("walls") => walls::supervise(link, UnixStream::from(control), session::serve),
        Some("serve") => {
            // Standard output stays open, so that no later file takes its number.
            std::mem::forget(control);
            session::serve(link)
        }
        _ => ExitCode::from(2),
    }
}
