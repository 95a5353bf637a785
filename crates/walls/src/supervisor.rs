//! The supervisor's whole life: read the plan, start process 1 behind the walls, wait, clean up.
//!
//! It is outside the sandbox and has one thread. The control socket is its lifeline: when the
//! host goes, however it goes, the socket closes and the sandbox with it. Entry: [`supervise`].

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, execve, pipe2, setsid};

use crate::cgroups::Groups;
use crate::enter::{enter, let_go_of_descriptors};
use crate::plan::{
    Failure, GroupVersion, IdMap, Identity, Landlocked, Plan, Report, Stage, receive, send,
};
use crate::root;
use crate::supplies::Supplies;
use crate::sys::{self, Cloned};

pub(crate) type Step<T> = Result<T, Failure>;

/// How long past the deadline the guest may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// Names the step that failed.
pub(crate) trait At<T> {
    fn at(self, stage: Stage, step: impl Into<String>) -> Step<T>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, stage: Stage, step: impl Into<String>) -> Step<T> {
        self.map_err(|error| Failure {
            step: step.into(),
            stage,
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// Serves one sandbox from plan to clean-up. `guest` is what process 1 does behind the walls,
/// with the link as its standard input and its only descriptor of the host's.
///
/// Must be called in a process with a single thread, with the link as descriptor 0 and the
/// control socket as descriptor 1.
pub fn supervise(link: OwnedFd, control: UnixStream, guest: fn(OwnedFd) -> ExitCode) -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-walls");
    // A terminal's interrupt is for the host to judge; the supervisor must outlive it.
    let _ = setsid();
    let _ = SigSet::all().thread_block();
    let Ok(plan) = receive::<Plan>(&control) else {
        return ExitCode::FAILURE;
    };
    let mut groups = Groups::default();
    let report = match start(&plan, link, &mut groups) {
        Err(failure) => Report::Failed(failure),
        Ok(Started::Inside(link)) => {
            // These belong to the supervisor, which this process no longer is.
            std::mem::forget((groups, control));
            let _ = nix::sys::prctl::set_name(c"hotcell-guest");
            return guest(link);
        }
        Ok(Started::Outside(process, landlock)) => {
            let said = send(&control, &Report::Ready { landlock });
            if said.is_ok() {
                wait(&control, &process, plan.deadline);
            }
            process.kill();
            Report::Ended {
                out_of_memory_kills: groups.out_of_memory_kills(),
            }
        }
    };
    groups.remove();
    // The host may be gone; then there is nobody to tell.
    let _ = send(&control, &report);
    ExitCode::SUCCESS
}

/// In which process a start returned.
enum Started {
    Outside(Process, Option<Landlocked>),
    Inside(OwnedFd),
}

/// Process 1 of the sandbox, seen from outside. Its end is the end of all in there.
struct Process {
    pid: Pid,
    ended: OwnedFd,
}

impl Process {
    /// Kills the whole sandbox and waits until the last process of it is gone.
    fn kill(&self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn wait(control: &UnixStream, process: &Process, deadline: Option<Duration>) {
    let end = deadline.map(|deadline| Instant::now() + deadline + GRACE);
    loop {
        let timeout = match end.map(|end| end.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => return,
            Some(left) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        let mut ready = [
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
            PollFd::new(process.ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, timeout) {
            Ok(0) => {}
            // The host says nothing after the plan: any event is its end.
            Ok(_) => return,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn start(plan: &Plan, link: OwnedFd, groups: &mut Groups) -> Step<Started> {
    // A version 2 group must be there for the clone; the others can wait.
    groups.make(&plan.groups, GroupVersion::V2)?;
    let (line, far_line) = UnixStream::pair().at(Stage::Start, "make a socket")?;
    // SAFETY: the supervisor has one thread; the child leaves this function only as the guest.
    let cloned = unsafe { sys::clone(sys::NAMESPACES, groups.unified().map(AsFd::as_fd)) };
    let pid = match cloned.at(Stage::Namespaces, "make namespaces")? {
        Cloned::Child => {
            drop(line);
            become_process_1(plan, far_line);
            return Ok(Started::Inside(link));
        }
        Cloned::Parent(pid) => pid,
    };
    drop(far_line);
    // The guest's end of the link must live in the guest alone, or its death goes unseen.
    drop(link);
    let process = Process {
        pid: Pid::from_raw(pid),
        ended: sys::pidfd(pid).at(Stage::Start, "watch the sandbox")?,
    };
    match raise(plan, &line, pid, groups) {
        Ok(landlock) => Ok(Started::Outside(process, landlock)),
        Err(failure) => {
            process.kill();
            Err(failure)
        }
    }
}

/// The supervisor's part of the work, while process 1 does its own.
fn raise(
    plan: &Plan,
    mut line: &UnixStream,
    pid: libc::pid_t,
    groups: &mut Groups,
) -> Step<Option<Landlocked>> {
    map_identity(pid, plan.identity)?;
    line.write_all(&[1])
        .at(Stage::Start, "release the sandbox")?;
    groups.make(&plan.groups, GroupVersion::V1)?;
    let supplies = Supplies {
        trees: root::open_mapped(plan, |idmap| mapped_namespace(plan.identity, idmap))?,
        groups: groups.entries()?,
    };
    // If process 1 has failed meanwhile, it has said why.
    let sent = supplies.send(line, plan);
    let outcome = receive::<Step<Option<Landlocked>>>(line);
    match (outcome, sent) {
        (Ok(outcome), _) => outcome,
        (Err(_), Err(failure)) => Err(failure),
        (Err(error), Ok(())) => Err(error).at(Stage::Start, "hear from the sandbox"),
    }
}

/// Returns behind the walls, or not at all.
fn become_process_1(plan: &Plan, line: UnixStream) {
    let outcome = enter(plan, &line);
    let said = send(&line, &outcome);
    drop(line);
    if outcome.is_err() || said.is_err() || let_go_of_descriptors().is_err() {
        exit_now();
    }
    // Where the C library's record of the thread could not be made right, the program begins
    // anew instead of going on.
    if sys::thread_id_record().is_none() {
        let arguments = [c"hotcell-guest", c"serve"];
        let _ = execve::<_, &CStr>(c"/proc/self/exe", &arguments, &[]);
        exit_now();
    }
}

fn map_identity(pid: libc::pid_t, identity: Identity) -> Step<()> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/{pid}/{file}"), text).at(Stage::Identity, format!("write {file}"))
    };
    if !identity.drop_groups {
        write("setgroups", "deny".into())?;
    }
    let (uid, gid) = (identity.inside_uid, identity.inside_gid);
    write("gid_map", format!("{gid} {} 1", identity.outside_gid))?;
    write("uid_map", format!("{uid} {} 1", identity.outside_uid))
}

/// A user namespace that exists only as the mapping of a mount: owner on disk to the sandbox's
/// identity.
fn mapped_namespace(identity: Identity, idmap: IdMap) -> Step<OwnedFd> {
    const STEP: &str = "make a mapping of owners";
    let (wait, hold) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).at(Stage::Identity, STEP)?;
    // SAFETY: the supervisor has one thread; the child only reads and exits.
    let cloned = unsafe { sys::clone(libc::CLONE_NEWUSER, None) };
    let pid = match cloned.at(Stage::Identity, STEP)? {
        Cloned::Child => {
            drop(hold);
            let _ = File::from(wait).read(&mut [0]);
            exit_now()
        }
        Cloned::Parent(pid) => pid,
    };
    let mapping = Identity {
        inside_uid: idmap.disk_uid,
        inside_gid: idmap.disk_gid,
        ..identity
    };
    let opened = map_identity(pid, mapping)
        .and_then(|()| File::open(format!("/proc/{pid}/ns/user")).at(Stage::Identity, STEP));
    drop(hold);
    let _ = waitpid(Pid::from_raw(pid), None);
    Ok(opened?.into())
}

fn exit_now() -> ! {
    // SAFETY: ends this copy of the process without running the parent's clean-up in it.
    unsafe { libc::_exit(1) }
}
