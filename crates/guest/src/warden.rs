//! The guest's program as the holder of another one, outside any sandbox: Firecracker's jailer, which
//! changes its own user and so would outlive whoever started it.
//!
//! The program gets namespaces of its own for processes, networks and messages; as process 1 of the
//! first, it takes all of its own with it. It ends with the link, at the deadline, or by itself;
//! then the warden tells how. Becomes nothing else. Entry point: [`serve`].

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use walls::machine::{Ending, Errand, Program};
use walls::plan::send;

/// What is kept of the program's last words.
const LAST_WORDS: usize = 4096;

/// `seconds` are the longest that the program may run; zero is for ever.
pub(crate) fn serve(link: OwnedFd, seconds: u64) -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-warden");
    // A terminal's interrupt is for the host to judge.
    let _ = nix::unistd::setsid();
    let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
    let link = UnixStream::from(link);
    let Ok((Errand { program, .. }, _)) = Errand::receive(&link) else {
        return ExitCode::FAILURE;
    };
    let Some(program) = program else {
        return ExitCode::FAILURE;
    };
    let ending = match start(&program) {
        Ok(mut child) => {
            let said = watch(&link, &mut child, deadline);
            // Process 1 of its namespace: nothing of it is left after this.
            let _ = child.kill();
            let status = child.wait().map(|status| status.to_string());
            Ending {
                status: status.unwrap_or_default(),
                said,
            }
        }
        Err(error) => Ending {
            status: "not started".into(),
            said: error.to_string(),
        },
    };
    // The host may be gone; then there is nobody to tell.
    let _ = send(&link, &ending);
    ExitCode::SUCCESS
}

fn start(program: &Program) -> std::io::Result<Child> {
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

/// Waits until the program closes its standard error, which is its end, until the host ends, or until
/// the deadline; the last line that the program said.
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
        // The host says nothing after the errand: any event is its end.
        if ready[0].any() == Some(true) {
            break;
        }
        match stderr.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => said.extend_from_slice(&buffer[..read]),
        }
        let excess = said.len().saturating_sub(LAST_WORDS);
        said.drain(..excess);
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.unwrap_or_default().to_owned()
}
