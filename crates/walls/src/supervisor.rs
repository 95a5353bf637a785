//! The supervisor's whole life: read the plan, start process 1 behind the walls, wait, clean up.
//!
//! It is outside the sandbox and has one thread. The control channel is its lifeline: when the
//! host goes, however it goes, the channel closes and the sandbox with it. Entry: [`supervise`].

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
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
    Ask, Behind, Failure, GroupVersion, IdMap, Identity, Landlocked, Plan, Program, Report, Stage,
    receive, send,
};
use crate::privileges;
use crate::root;
use crate::supplies::Supplies;
use crate::sys::{self, Cloned};
use crate::victims;

pub(crate) type Step<T> = Result<T, Failure>;

/// How long past the deadline the guest may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// How long process 1 may take for its part of the walls. The host gives up later than this.
const ENTER_TIMEOUT: Duration = Duration::from_secs(100);

/// How long the processes of a sandbox may take to die. What the kernel holds longer is left to it.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

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

/// What process 1 does behind the walls, with the link as its standard input and its only
/// descriptor of the host's.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    pub run: fn(OwnedFd) -> ExitCode,
    /// The role in which the program begins anew to do the same, where it has to.
    pub role: &'static CStr,
}

/// Serves one sandbox from plan to clean-up.
///
/// Must be called in a process with a single thread, with the link as descriptor 0 and the
/// control socket as descriptor 1.
pub fn supervise(link: OwnedFd, control: OwnedFd, inside: fn(Behind) -> Inside) -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-walls");
    // A terminal's interrupt is for the host to judge; the supervisor must outlive it.
    let _ = setsid();
    let control = File::from(control);
    match receive::<Plan>(&control) {
        Ok(plan) => supervise_plan(&plan, link, control, inside(plan.behind)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// The same for a plan that is known already. The control channel is anything that can be read,
/// written and waited for: a socket, the port of a virtual machine.
///
/// Must be called in a process with a single thread, with the link as descriptor 0.
pub fn supervise_plan(plan: &Plan, link: OwnedFd, control: File, inside: Inside) -> ExitCode {
    match raise(plan, link, inside) {
        Ok(Raised::Outside(walls)) => walls.serve(control),
        Ok(Raised::Inside(ended)) => {
            // The supervisor's, which this process has not been for long.
            std::mem::forget(control);
            return ended;
        }
        // The host may be gone; then there is nobody to tell.
        Err(failure) => drop(send(&control, &Report::Failed(failure))),
    }
    ExitCode::SUCCESS
}

/// In which process [`raise`] returned.
#[derive(Debug)]
pub enum Raised {
    /// In that which called it.
    Outside(Box<Walls>),
    /// In process 1 behind the walls, after its life.
    Inside(ExitCode),
}

/// Puts up walls and starts process 1 behind them.
///
/// Must be called in a process with a single thread, with the link as descriptor 0.
pub fn raise(plan: &Plan, link: OwnedFd, inside: Inside) -> Step<Raised> {
    let _ = SigSet::all().thread_block();
    let mut groups = Groups::default();
    match start(plan, link, inside.role, &mut groups) {
        Err(failure) => {
            groups.remove();
            Err(failure)
        }
        Ok(Started::Inside(link)) => {
            // These belong to the supervisor, which this process no longer is.
            std::mem::forget(groups);
            let _ = nix::sys::prctl::set_name(c"hotcell-guest");
            Ok(Raised::Inside((inside.run)(link)))
        }
        Ok(Started::Outside(process, landlock)) => Ok(Raised::Outside(Box::new(Walls {
            process,
            landlock,
            groups,
            plan: plan.clone(),
        }))),
    }
}

/// Walls that stand, seen from outside.
#[derive(Debug)]
pub struct Walls {
    process: Process,
    landlock: Option<Landlocked>,
    groups: Groups,
    plan: Plan,
}

impl Walls {
    /// Makes them those of another plan, behind which nothing has happened yet; whether that can be.
    pub fn change(&mut self, plan: &Plan) -> Step<bool> {
        if self.plan == *plan {
            return Ok(true);
        }
        if self.plan.shape() != plan.shape() {
            return Ok(false);
        }
        self.groups.change(&plan.groups)?;
        privileges::apply_rlimits(&plan.rlimits, Some(self.process.pid))?;
        self.plan = plan.clone();
        Ok(true)
    }

    /// Tells the host that they stand, and takes them down when the host, the deadline or what is
    /// behind them ends.
    pub fn serve(self, control: File) {
        let landlock = self.landlock;
        if send(&control, &Report::Ready { landlock }).is_ok() {
            wait(&control, &self.process, self.plan.deadline, &self.groups);
            if self.plan.program.is_some() {
                self.process.let_end();
            }
        }
        let report = match self.take_down() {
            Ok(out_of_memory_kills) => Report::Ended {
                out_of_memory_kills,
            },
            Err(failure) => Report::Failed(failure),
        };
        // The host may be gone; then there is nobody to tell.
        let _ = send(&control, &report);
    }

    /// Ends all behind them; how many processes the kernel had killed for want of memory.
    pub fn take_down(mut self) -> Step<u64> {
        let killed = self.process.kill();
        let kills = self.groups.out_of_memory_kills();
        self.groups.remove();
        killed.map(|()| kills)
    }
}

/// The same for a start.
enum Started {
    Outside(Process, Option<Landlocked>),
    Inside(OwnedFd),
}

/// Process 1 of the sandbox, seen from outside. Its end is the end of all in there.
#[derive(Debug)]
struct Process {
    pid: Pid,
    ended: OwnedFd,
}

impl Process {
    /// Gives it a moment to end by itself, as the guest behind another program's walls does with its
    /// link: what it was writing it removes.
    fn let_end(&self) {
        let grace = PollTimeout::try_from(GRACE).unwrap_or(PollTimeout::ZERO);
        let _ = poll(
            &mut [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)],
            grace,
        );
    }

    /// Kills the whole sandbox and waits until the last process of it is gone.
    fn kill(&self) -> Step<()> {
        let _ = kill(self.pid, Signal::SIGKILL);
        let give_up = Instant::now() + KILL_TIMEOUT;
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut ended = [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ended, timeout) {
                Ok(0) => {
                    return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT))
                        .at(Stage::Start, "end every process of the sandbox");
                }
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).at(Stage::Start, "wait for the sandbox to end"),
            }
        }
        let _ = waitpid(self.pid, None);
        Ok(())
    }
}

fn wait(control: &File, process: &Process, deadline: Option<Duration>, groups: &Groups) {
    let end_after = |deadline| Instant::now() + deadline + GRACE;
    let mut end = deadline.map(end_after);
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
            Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        if ready[1].any() == Some(true) {
            return;
        }
        // Its end is the host's end.
        match receive::<Ask>(control) {
            Ok(Ask::Kills) => {
                let out_of_memory_kills = groups.out_of_memory_kills();
                if send(
                    control,
                    &Report::Kills {
                        out_of_memory_kills,
                    },
                )
                .is_err()
                {
                    return;
                }
            }
            Ok(Ask::Deadline(deadline)) => end = Some(end_after(deadline)),
            Ok(Ask::End) | Err(_) => return,
        }
    }
}

fn start(plan: &Plan, link: OwnedFd, role: &CStr, groups: &mut Groups) -> Step<Started> {
    // A version 2 group must be there for the clone; the others can wait.
    groups.make(&plan.groups, GroupVersion::V2)?;
    let (line, far_line) = UnixStream::pair().at(Stage::Start, "make a socket")?;
    let owner = plan
        .identity
        .drop_groups
        .then_some(plan.identity.outside_uid);
    let cloned = privileges::owning_namespaces(owner, || {
        // SAFETY: the supervisor has one thread; the child leaves this function only as the guest.
        unsafe { sys::clone(sys::NAMESPACES, groups.unified().map(AsFd::as_fd)) }
    });
    let pid = match cloned.at(Stage::Namespaces, "make namespaces")? {
        Cloned::Child => {
            drop(line);
            become_process_1(plan, far_line, role);
            return Ok(Started::Inside(link));
        }
        Cloned::Parent(pid) => pid,
    };
    drop(far_line);
    for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        set(&line, Some(ENTER_TIMEOUT)).at(Stage::Start, "bound the wait for the sandbox")?;
    }
    // The guest's end of the link must live in the guest alone, or its death goes unseen.
    drop(link);
    let process = Process {
        pid: Pid::from_raw(pid),
        ended: sys::pidfd(pid).at(Stage::Start, "watch the sandbox")?,
    };
    match finish(plan, &line, pid, groups) {
        Ok(landlock) => Ok(Started::Outside(process, landlock)),
        Err(failure) => {
            // The first failure says more.
            let _ = process.kill();
            Err(failure)
        }
    }
}

/// The supervisor's part of the work, while process 1 does its own.
fn finish(
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
        trees: root::open_supplied(plan, |idmap| mapped_namespace(plan.identity, idmap))?,
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
fn become_process_1(plan: &Plan, line: UnixStream, role: &CStr) {
    victims::prepare();
    let outcome = enter(plan, &line);
    let said = send(&line, &outcome);
    drop(line);
    let program = plan.program.as_ref();
    if outcome.is_err() || said.is_err() || let_go_of_descriptors(program).is_err() {
        exit_now();
    }
    if let Some(program) = program {
        begin(program);
        exit_now();
    }
    // Where the C library's record of the thread could not be made right, the program begins
    // anew instead of going on.
    if sys::thread_id_record().is_none() {
        let arguments = [c"hotcell-guest", role];
        let _ = execve::<_, &CStr>(c"/proc/self/exe", &arguments, &[]);
        exit_now();
    }
}

/// Returns only when there is no such program.
fn begin(program: &Program) {
    let _ = SigSet::all().thread_unblock();
    let text = |text: &[u8]| CString::new(text).ok();
    let arguments = program.arguments.iter().map(|one| text(one.as_bytes()));
    if let (Some(path), Some(arguments)) = (
        text(program.path.as_os_str().as_bytes()),
        arguments.collect::<Option<Vec<_>>>(),
    ) {
        let _ = execve::<_, &CStr>(&path, &arguments, &[]);
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
pub(crate) fn mapped_namespace(identity: Identity, idmap: IdMap) -> Step<OwnedFd> {
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
