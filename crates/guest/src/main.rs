//! The one program that runs inside every sandbox, as its first process.
//!
//! It answers the host's requests over the link and ends when the link ends. Its first argument is its role:
//!
//! - `serve`: no walls; the link is standard input.
//! - `walls`: the supervisor of native walls, outside the sandbox.
//! - `machine`: process 1 behind native walls, which starts the VMM of a virtual machine.
//! - `init`: process 1 inside the virtual machine.
//! - `warden SECONDS`: outside; runs a VMM that sets up its own walls, for at most that time.
//! - `fence PID DIR…`: outside; limits the container whose first process is PID.
//! - `stage PROGRAM …`: outside; makes the mounts that standard input describes, then executes the program.
//! - `contained [PATH]`, `piped`: process 1 behind the walls of another program; the link is the socket at
//!   PATH, standard input, or standard input and output.
//!
//! It reads no environment and no configuration: all settings come from the host.

mod channel;
mod contained;
mod descriptors;
mod disk;
mod exec;
mod files;
mod init;
mod inspect;
mod jobs;
mod keys;
mod listing;
mod machine;
mod memory;
mod ports;
mod processes;
mod readiness;
mod refusal;
mod search;
mod session;
mod shell;
mod signals;
mod spawn;
mod state;
mod survey;
mod tails;
mod terminal;
mod walk;
mod warden;
mod watch;
mod workers;

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use channel::Channel;
use signals::Kernel;
use walls::plan::Behind;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next();
    // SAFETY: this process owns descriptors 0 and 1 from its start; nothing else here uses them.
    let (input, output) = unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) };
    match role.as_ref().and_then(|role| role.to_str()) {
        Some("walls") => walls::supervise(input, output, inside),
        // Only used if the supervisor has to execute this program again.
        Some("machine") => {
            keep(output);
            machine::serve(input)
        }
        Some("warden") => {
            keep(output);
            let seconds = arguments.next();
            let seconds = seconds.and_then(|text| text.to_str()?.parse().ok());
            warden::serve(input, seconds.unwrap_or(0))
        }
        Some("fence") => {
            keep(input);
            keep(output);
            let pid = arguments
                .next()
                .and_then(|text| text.to_str()?.parse().ok());
            let folders: Vec<_> = arguments.map(PathBuf::from).collect();
            pid.map_or(ExitCode::from(2), |pid| walls::fence::serve(pid, &folders))
        }
        Some("stage") => {
            keep(output);
            let program: Vec<_> = arguments.collect();
            walls::staging::serve(input, &program)
        }
        Some("init") => {
            keep(input);
            keep(output);
            init::run()
        }
        Some("serve") => {
            keep(output);
            serve(input)
        }
        Some("contained") => {
            keep(output);
            let socket = arguments.next();
            contained::serve(match &socket {
                Some(path) => {
                    keep(input);
                    contained::Link::Path(Path::new(path))
                }
                None => contained::Link::Socket(input),
            })
        }
        Some("piped") => contained::serve(contained::Link::Pipes(input, output)),
        _ => ExitCode::from(2),
    }
}

/// The entry point of process 1 behind native walls.
fn inside(behind: Behind) -> walls::Inside {
    match behind {
        Behind::Guest => walls::Inside {
            run: serve,
            role: c"serve",
        },
        Behind::Machine => walls::Inside {
            run: machine::serve,
            role: c"machine",
        },
    }
}

fn serve(link: OwnedFd) -> ExitCode {
    match Channel::both_ways(link) {
        Ok(channel) => session::serve(channel, Kernel::Linux),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Keeps a standard descriptor open, so that no other file gets its number.
fn keep(descriptor: OwnedFd) {
    std::mem::forget(descriptor);
}
