//! The one program that runs inside every sandbox, as its first process.
//!
//! It answers the host's requests over the link and ends when the link ends. Its first argument is its role:
//!
//! - `run`: no walls; the link is standard input.
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
mod listing;
mod machine;
mod memory;
mod output_tail;
mod ports;
mod processes;
mod readiness;
mod refusal;
mod search;
mod session;
mod shell;
mod shell_state;
mod signal_keys;
mod signals;
mod spawn;
mod survey;
mod terminal;
mod walk;
mod warden;
mod watch;
mod workers;

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use channel::Channel;
use signals::GuestKernel;
use walls::plan::Process1Role;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next();
    // SAFETY: this process owns descriptors 0 and 1 from its start; nothing else here uses them.
    let (input, output) = unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) };
    match role.as_ref().and_then(|role| role.to_str()) {
        Some("walls") => walls::supervise(input, output, process_1_entry),
        // Only used if the supervisor has to execute this program again.
        Some("machine") => {
            leave_open(output);
            machine::serve(input)
        }
        Some("warden") => {
            leave_open(output);
            let seconds = arguments.next();
            let seconds = seconds.and_then(|text| text.to_str()?.parse().ok());
            warden::serve(input, seconds.unwrap_or(0))
        }
        Some("fence") => {
            leave_open(input);
            leave_open(output);
            let pid = arguments
                .next()
                .and_then(|text| text.to_str()?.parse().ok());
            let folders: Vec<_> = arguments.map(PathBuf::from).collect();
            pid.map_or(ExitCode::from(2), |pid| walls::fence::run(pid, &folders))
        }
        Some("stage") => {
            leave_open(output);
            let program: Vec<_> = arguments.collect();
            walls::staging::run(input, &program)
        }
        Some("init") => {
            leave_open(input);
            leave_open(output);
            init::run()
        }
        Some("serve") => {
            leave_open(output);
            serve(input)
        }
        Some("contained") => {
            leave_open(output);
            let socket = arguments.next();
            contained::serve(match &socket {
                Some(path) => {
                    leave_open(input);
                    contained::LinkSource::Path(Path::new(path))
                }
                None => contained::LinkSource::Socket(input),
            })
        }
        Some("piped") => contained::serve(contained::LinkSource::Pipes(input, output)),
        _ => ExitCode::from(2),
    }
}

/// The entry point of process 1 behind native walls.
fn process_1_entry(behind: Process1Role) -> walls::Process1Entry {
    match behind {
        Process1Role::Guest => walls::Process1Entry {
            run: serve,
            role: c"serve",
        },
        Process1Role::VmmHelper => walls::Process1Entry {
            run: machine::serve,
            role: c"machine",
        },
    }
}

fn serve(link: OwnedFd) -> ExitCode {
    match Channel::from_socket(link) {
        Ok(channel) => session::serve(channel, GuestKernel::Linux),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Keeps a standard descriptor open, so that no other file gets its number.
fn leave_open(descriptor: OwnedFd) {
    std::mem::forget(descriptor);
}
