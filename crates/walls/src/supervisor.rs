//! The supervisor's whole life: read the plan, start process 1 behind the walls, wait, clean up.
//!
//! It is outside the sandbox and has one thread. The control socket is its lifeline: when the
//! host goes, however it goes, the socket closes and the sandbox with it. Entry: [`supervise`].

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2, setsid};

use crate::cgroups::Groups;
use crate::enter::{Birth, enter};
use crate::plan::{Failure, IdMap, Identity, Landlocked, Plan, Report, Stage, receive, send};
use crate::root;
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

/// Serves one sandbox from plan to clean-up. `link` becomes the guest's standard input.
///
/// Must be called in a process with a single thread, with the control socket as `control`.
pub fn supervise(link: OwnedFd, control: UnixStream) {
    // A terminal's interrupt is for the host to judge; the supervisor must outlive it.
    let _ = setsid();
    let _ = SigSet::all().thread_block();
    let Ok(plan) = receive::<Plan>(&control) else {
        return;
    };
    let mut groups = Groups::default();
    let report = match start(&plan, link, &mut groups) {
        Err(failure) => Report::Failed(failure),
        Ok((process, landlock)) => {
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

fn start(plan: &Plan, link: OwnedFd, groups: &mut Groups) -> Step<(Process, Option<Landlocked>)> {
    groups.make(&plan.groups)?;
    let entries = groups.entries()?;
    let trees = root::open_mapped(plan, |idmap| mapped_namespace(plan.identity, idmap))?;
    let (go_reader, go) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).at(Stage::Start, "make a pipe")?;
    let (outcome, outcome_writer) =
        pipe2(nix::fcntl::OFlag::O_CLOEXEC).at(Stage::Start, "make a pipe")?;

    // SAFETY: the supervisor has one thread; the child ends in `enter` or `_exit`.
    let cloned = unsafe { sys::clone(sys::NAMESPACES, groups.unified().map(AsFd::as_fd)) };
    let pid = match cloned.at(Stage::Namespaces, "make namespaces")? {
        Cloned::Child => {
            drop(go);
            drop(outcome);
            let mut report = File::from(outcome_writer);
            let birth = Birth {
                plan,
                trees,
                groups: entries,
                go: go_reader.into(),
                outcome: match report.try_clone() {
                    Ok(copy) => copy,
                    Err(_) => exit_now(),
                },
            };
            let failure = enter(birth);
            let _ = send(&mut report, &Err::<Option<Landlocked>, _>(failure));
            exit_now()
        }
        Cloned::Parent(pid) => pid,
    };
    drop((go_reader, outcome_writer, trees, entries));
    // The guest's end of the link must live in the guest alone, or its death goes unseen.
    drop(link);
    let process = Process {
        pid: Pid::from_raw(pid),
        ended: sys::pidfd(pid).at(Stage::Start, "watch the sandbox")?,
    };
    let raised = map_identity(pid, plan.identity).and_then(|()| {
        File::from(go)
            .write_all(&[1])
            .at(Stage::Start, "release the sandbox")?;
        heard(File::from(outcome))
    });
    match raised {
        Ok(landlock) => Ok((process, landlock)),
        Err(failure) => {
            process.kill();
            Err(failure)
        }
    }
}

/// Process 1 says how its preparation went, then execs, which closes the pipe; a failed exec
/// says so in a second message.
fn heard(mut outcome: File) -> Step<Option<Landlocked>> {
    const STEP: &str = "hear from the sandbox";
    let prepared: Step<Option<Landlocked>> = receive(&mut outcome).at(Stage::Start, STEP)?;
    let landlock = prepared?;
    let mut rest = Vec::new();
    outcome.read_to_end(&mut rest).at(Stage::Start, STEP)?;
    match rest.is_empty() {
        true => Ok(landlock),
        false => {
            let failed: Step<Option<Landlocked>> = receive(&rest[..]).at(Stage::Start, STEP)?;
            failed
        }
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
