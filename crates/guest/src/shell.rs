//! Shell sessions: working folder, variables, functions and options persist from one command to the next.
//!
//! Every command runs in a new shell process, which first restores the state of the previous one and saves
//! its own state when it ends. So a command in the background never blocks the session, every command has
//! its own output and exit code, and no output can be mistaken for the protocol.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::rc::Rc;

use link::Stream;
use link::request::{ByteString, GuestResult, ShellCommand, ShellProgress};
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe2;
use tokio::net::unix::pipe;

use crate::disk::start_within_limit;
use crate::exec::{output_pipe, set_nonblocking};
use crate::jobs::{self, GuestJob, JobPipes};
use crate::refusal::refuse;
use crate::session::Guest;
use crate::shell_state::ShellState;
use crate::spawn::SpawnRequest;

/// A larger state is discarded, and the session continues with the previous one.
const MAX_STATE_BYTES: u64 = 4 * 1024 * 1024;

/// Descriptors of the shell: state to restore, script to run, state to save.
const OLD_STATE_FD: i32 = 7;
const SCRIPT_FD: i32 = 8;
const NEW_STATE_FD: i32 = 9;

/// The trap saves the state of a script that calls `exit`. A script that sets its own trap replaces it.
/// The state module parses the saved state.
const BASH_WRAPPER: &str = r#"
__hotcell_save() {
    if [ -z "${__hotcell_saved-}" ]; then
        __hotcell_saved=1
        builtin printf '%s\0' "$PWD" "$BASHOPTS" "$SHELLOPTS"
        builtin umask -p
        builtin alias -p
        builtin declare -f
        builtin declare -Fx
        builtin printf '\0'
        builtin declare -p
    fi >&9 2>/dev/null
}
__hotcell_leave() {
    __hotcell_code=$?
    builtin trap - EXIT
    __hotcell_save
    builtin exit "$__hotcell_code"
}
trap __hotcell_leave EXIT
. /proc/self/fd/7 >/dev/null 2>&1
unset __hotcell_saved
exec 7<&-
. /proc/self/fd/8
__hotcell_code=$?
__hotcell_save
exit "$__hotcell_code"
"#;

/// For a root without bash. `sh` cannot list functions, so they do not persist.
const SH_WRAPPER: &str = r#"
__hotcell_save() {
    if [ -z "${__hotcell_saved-}" ]; then
        __hotcell_saved=1
        printf '%s\0umask %s\n' "$PWD" "$(umask)"
        export -p
    fi >&9 2>/dev/null
}
__hotcell_leave() {
    __hotcell_code=$?
    trap - EXIT
    __hotcell_save
    exit "$__hotcell_code"
}
trap __hotcell_leave EXIT
. /proc/self/fd/7 >/dev/null 2>&1
unset __hotcell_saved
exec 7<&-
. /proc/self/fd/8
__hotcell_code=$?
__hotcell_save
exit "$__hotcell_code"
"#;

#[derive(Default)]
pub(crate) struct ShellSessions {
    states: Rc<RefCell<HashMap<String, ShellState>>>,
}

pub(crate) async fn run(guest: Rc<Guest>, command: ShellCommand, stream: Stream) {
    let (mut sender, mut receiver) = stream.split();
    let job = match start(&guest, &command).await {
        Ok(job) => job,
        Err(refusal) => {
            let _ = sender
                .send(&GuestResult::<ShellProgress>::Err(refusal))
                .await;
            return;
        }
    };
    let followed = job.follow(&mut sender, &mut receiver, command.wait).await;
    let is_known = match followed {
        Some(progress) => {
            let has_ended = progress.exit.is_some();
            jobs::send_progress(&guest, progress, &mut sender).await;
            // A host that disconnected now has not learned that the command is still running.
            has_ended || matches!(receiver.receive().await, Ok(None))
        }
        None => false,
    };
    if !is_known {
        jobs::interrupt(&guest, &job).await;
    }
}

async fn start(guest: &Rc<Guest>, command: &ShellCommand) -> GuestResult<Rc<GuestJob>> {
    // Make room in the job table for each attempt: other requests may have taken it meanwhile.
    let begin = || match guest.jobs.make_room() {
        Ok(()) => begin(guest, command).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    };
    let begun = start_within_limit(guest, begin).await;
    begun.map_err(|error| refuse("start a shell", error))?
}

fn begin(guest: &Rc<Guest>, command: &ShellCommand) -> io::Result<Rc<GuestJob>> {
    let states = guest.shells.states.clone();
    let state = states
        .borrow()
        .get(&command.session)
        .cloned()
        .unwrap_or_default();
    let workdir = guest.resolve(None);
    let cwd = state.cwd.filter(|cwd| cwd.is_dir()).unwrap_or(workdir);
    let old_state = memory_file(&state.script)?;
    let script = memory_file(&command.script.0)?;
    let new_state = memory_file(&[])?;
    let (stdin_reader, stdin) = pipe2(OFlag::O_CLOEXEC)?;
    let (stdout, stdout_writer) = output_pipe()?;
    let (stderr, stderr_writer) = output_pipe()?;

    let has_bash = std::path::Path::new("/bin/bash").exists();
    let (shell, wrapper) = if has_bash {
        ("/bin/bash", BASH_WRAPPER)
    } else {
        ("/bin/sh", SH_WRAPPER)
    };
    let argv = [shell, "-c", wrapper, shell].map(Into::into);
    let child = guest.processes.start(&SpawnRequest {
        argv: &argv,
        env: &guest.env_with(&[]),
        cwd: &cwd,
        descriptors: &[
            (0, stdin_reader.as_fd()),
            (1, stdout_writer.as_fd()),
            (2, stderr_writer.as_fd()),
            (OLD_STATE_FD, old_state.as_fd()),
            (SCRIPT_FD, script.as_fd()),
            (NEW_STATE_FD, new_state.as_fd()),
        ],
        terminal: None,
    })?;
    let pipes = JobPipes {
        stdin: pipe::Sender::from_owned_fd(set_nonblocking(stdin)?)?,
        stdout,
        stderr,
    };
    let session = command.session.clone();
    Ok(guest.jobs.adopt(guest, child, pipes, move || {
        let left = read_state(new_state)?;
        let cwd = left.cwd.as_ref().map(ByteString::from);
        states.borrow_mut().insert(session, left);
        cwd
    }))
}

fn memory_file(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("shell", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// The state that the shell saved; `None` if it was killed.
fn read_state(mut file: File) -> Option<ShellState> {
    if file.metadata().ok()?.len() > MAX_STATE_BYTES {
        return None;
    }
    file.rewind().ok()?;
    let mut content = Vec::new();
    file.take(MAX_STATE_BYTES).read_to_end(&mut content).ok()?;
    ShellState::parse(&content)
}
