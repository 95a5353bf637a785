//! The guest program as the parent of another program, outside any sandbox: Firecracker's jailer. The jailer
//! changes its user, and so would outlive the process that started it.
//!
//! The program gets new pid, network, IPC and UTS namespaces. It is process 1 of its pid namespace, so all
//! of its children end with it. It is killed when the link ends or the deadline passes. Then, or when it
//! ends by itself, the warden reports how it ended. Entry point: [`serve`].

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use walls::machine::{HelperTask, ProgramExit, VmmProgram};
use walls::plan::send;

/// Maximum number of stored bytes from the end of the program's standard error.
const MAX_STDERR_BYTES: usize = 4096;

/// `seconds` is the longest time that the program may run; 0 means no limit.
pub(crate) fn serve(link: OwnedFd, seconds: u64) -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-warden");
    // In a new session, Ctrl-C in the host's terminal does not reach this process; the host decides.
    let _ = nix::unistd::setsid();
    let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
    let link = UnixStream::from(link);
    let Ok((HelperTask { program, .. }, _)) = HelperTask::receive(&link) else {
        return ExitCode::FAILURE;
    };
    let Some(program) = program else {
        return ExitCode::FAILURE;
    };
    let ending = match start(&program) {
        Ok(mut child) => {
            let said = watch(&link, &mut child, deadline);
            // It is process 1 of its pid namespace, so this ends all of its children too.
            let _ = child.kill();
            let status = child.wait().map(|status| status.to_string());
            ProgramExit {
                status: status.unwrap_or_default(),
                last_stderr_line: said,
            }
        }
        Err(error) => ProgramExit {
            status: "not started".into(),
            last_stderr_line: error.to_string(),
        },
    };
    // Fails if the host is gone.
    let _ = send(&link, &ending);
    ExitCode::SUCCESS
}

fn start(program: &VmmProgram) -> std::io::Result<Child> {
    let apart = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    unshare(apart)?;
    Command::new(&program.path)
        .args(&program.arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits until the program closes its standard error (which it does when it ends), the host ends, or the
/// deadline passes. Returns the last line of the standard error.
fn watch(link: &UnixStream, child: &mut Child, deadline: Option<Instant>) -> String {
    let Some(mut stderr) = child.stderr.take().map(OwnedFd::from).map(File::from) else {
        return String::new();
    };
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = match left {
            Some(Duration::ZERO) => break,
            Some(left) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        let mut ready = [
            PollFd::new(link.as_fd(), PollFlags::POLLIN),
            PollFd::new(stderr.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        // The host sends nothing after the first message, so any event means that it has ended.
        if ready[0].any() == Some(true) {
            break;
        }
        match stderr.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => said.extend_from_slice(&buffer[..read]),
        }
        let excess = said.len().saturating_sub(MAX_STDERR_BYTES);
        said.drain(..excess);
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.unwrap_or_default().to_owned()
}
