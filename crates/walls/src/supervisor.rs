//! The supervisor, from start to end: read the plan, start process 1 behind the walls, wait, clean up.
//!
//! It runs outside the sandbox and has one thread. When the host process ends, for whatever reason, the
//! control channel closes and the supervisor ends the sandbox. Entry point: [`supervise`].

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

use crate::cgroups::CgroupSet;
use crate::enter::{close_inherited_descriptors, enter};
use crate::handover::SuppliedDescriptors;
use crate::oom_score;
use crate::plan::{
    CgroupVersion, IdMap, LandlockStatus, Process1Role, RuntimeProgram, SandboxIdentity,
    SetupFailure, SetupStage, SupervisorReport, SupervisorRequest, WallsPlan, receive, send,
};
use crate::privileges;
use crate::root;
use crate::sys::{self, CloneSide};

pub(crate) type SetupResult<T> = Result<T, SetupFailure>;

/// How long the guest may take after the deadline to end by itself.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// How long process 1 may take for its part of the setup. The host's own timeout is longer.
const ENTER_TIMEOUT: Duration = Duration::from_secs(100);

/// How long the processes of a sandbox may take to die. If the kernel holds a process longer, the supervisor
/// stops waiting.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Adds the name of the failed step to an error.
pub(crate) trait SetupContext<T> {
    fn at(self, stage: SetupStage, step: impl Into<String>) -> SetupResult<T>;
}

impl<T, E: Into<io::Error>> SetupContext<T> for Result<T, E> {
    fn at(self, stage: SetupStage, step: impl Into<String>) -> SetupResult<T> {
        self.map_err(|error| SetupFailure {
            step: step.into(),
            stage,
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// What process 1 runs behind the walls. The link is its standard input and its only descriptor from the
/// host.
#[derive(Debug, Clone, Copy)]
pub struct Process1Entry {
    pub run: fn(OwnedFd) -> ExitCode,
    /// The argument that selects the same role if the program has to execute itself again.
    pub role: &'static CStr,
}

/// Runs one sandbox: receives the plan, starts the sandbox, waits for its end and cleans up.
///
/// Must be called in a process with a single thread, with the link as descriptor 0 and the
/// control socket as descriptor 1.
pub fn supervise(
    link: OwnedFd,
    control: OwnedFd,
    inside: fn(Process1Role) -> Process1Entry,
) -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-walls");
    // The host decides what an interrupt from the terminal means. The supervisor must survive it.
    let _ = setsid();
    let control = File::from(control);
    match receive::<WallsPlan>(&control) {
        Ok(plan) => supervise_plan(&plan, link, control, inside(plan.role)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Like [`supervise`], for a plan that has already been received. The control channel can be any file that
/// supports reading, writing and polling: a socket, or the port of a virtual machine.
///
/// Must be called in a process with a single thread, with the link as descriptor 0.
pub fn supervise_plan(
    plan: &WallsPlan,
    link: OwnedFd,
    control: File,
    inside: Process1Entry,
) -> ExitCode {
    match start_walls(plan, link, inside) {
        Ok(StartedWalls::Outside(walls)) => walls.serve(control),
        Ok(StartedWalls::Inside(ended)) => {
            // The descriptor belongs to the supervisor. Process 1 has already closed or replaced its copy.
            std::mem::forget(control);
            return ended;
        }
        // The host may be gone; then there is nobody to tell.
        Err(failure) => drop(send(&control, &SupervisorReport::Failed(failure))),
    }
    ExitCode::SUCCESS
}

/// The process in which [`start_walls`] returned.
#[derive(Debug)]
pub enum StartedWalls {
    /// The process that called it.
    Outside(Box<SupervisedWalls>),
    /// Process 1 behind the walls, after it has finished.
    Inside(ExitCode),
}

/// Sets up walls and starts process 1 behind them.
///
/// Must be called in a process with a single thread, with the link as descriptor 0.
pub fn start_walls(
    plan: &WallsPlan,
    link: OwnedFd,
    inside: Process1Entry,
) -> SetupResult<StartedWalls> {
    let _ = SigSet::all().thread_block();
    let mut groups = CgroupSet::default();
    match start_process_1(plan, link, inside.role, &mut groups) {
        Err(failure) => {
            groups.remove_all();
            Err(failure)
        }
        Ok(StartSide::Inside(link)) => {
            // The groups belong to the supervisor, so process 1 must not remove them.
            std::mem::forget(groups);
            let _ = nix::sys::prctl::set_name(c"hotcell-guest");
            Ok(StartedWalls::Inside((inside.run)(link)))
        }
        Ok(StartSide::Outside(process, landlock)) => {
            Ok(StartedWalls::Outside(Box::new(SupervisedWalls {
                process,
                landlock,
                groups,
                plan: plan.clone(),
            })))
        }
    }
}

/// Running walls, seen from outside.
#[derive(Debug)]
pub struct SupervisedWalls {
    process: SandboxProcess,
    landlock: Option<LandlockStatus>,
    groups: CgroupSet,
    plan: WallsPlan,
}

impl SupervisedWalls {
    /// Changes the walls to those of another plan. Only valid while nothing has run behind them. Returns
    /// false if this is impossible, because the plans differ in more than limits and deadline.
    pub fn change(&mut self, plan: &WallsPlan) -> SetupResult<bool> {
        if self.plan == *plan {
            return Ok(true);
        }
        if self.plan.without_changeable_values() != plan.without_changeable_values() {
            return Ok(false);
        }
        self.groups.update(&plan.groups)?;
        privileges::apply_rlimits(&plan.rlimits, Some(self.process.pid))?;
        self.plan = plan.clone();
        Ok(true)
    }

    /// Reports to the host that the walls are ready. Takes them down when the host ends, the deadline passes
    /// or process 1 ends.
    pub fn serve(self, control: File) {
        let landlock = self.landlock;
        if send(&control, &SupervisorReport::Ready { landlock }).is_ok() {
            wait_for_end(&control, &self.process, self.plan.deadline, &self.groups);
            if self.plan.program.is_some() {
                self.process.wait_briefly();
            }
        }
        let report = match self.take_down() {
            Ok(out_of_memory_kills) => SupervisorReport::Ended {
                out_of_memory_kills,
            },
            Err(failure) => SupervisorReport::Failed(failure),
        };
        // The host may be gone; then there is nobody to tell.
        let _ = send(&control, &report);
    }

    /// Ends all processes behind the walls. Returns how many processes the kernel killed for lack of memory.
    pub fn take_down(mut self) -> SetupResult<u64> {
        let killed = self.process.kill();
        let kills = self.groups.count_oom_kills();
        self.groups.remove_all();
        killed.map(|()| kills)
    }
}

/// The process in which [`start_process_1`] returned.
enum StartSide {
    Outside(SandboxProcess, Option<LandlockStatus>),
    Inside(OwnedFd),
}

/// Process 1 of the sandbox, seen from outside. When it ends, all processes in the sandbox end.
#[derive(Debug)]
struct SandboxProcess {
    pid: Pid,
    ended: OwnedFd,
}

impl SandboxProcess {
    /// Gives process 1 a moment to end by itself. A guest behind the walls of a runtime program ends when its
    /// link closes and removes the files that it was writing.
    fn wait_briefly(&self) {
        let grace = PollTimeout::try_from(EXIT_GRACE_PERIOD).unwrap_or(PollTimeout::ZERO);
        let _ = poll(
            &mut [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)],
            grace,
        );
    }

    /// Kills the whole sandbox and waits until its last process is gone.
    fn kill(&self) -> SetupResult<()> {
        let _ = kill(self.pid, Signal::SIGKILL);
        let give_up = Instant::now() + KILL_TIMEOUT;
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut ended = [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ended, timeout) {
                Ok(0) => {
                    return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT))
                        .at(SetupStage::Start, "end every process of the sandbox");
                }
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => {
                    return Err(error).at(SetupStage::Start, "wait for the sandbox to end");
                }
            }
        }
        let _ = waitpid(self.pid, None);
        Ok(())
    }
}

fn wait_for_end(
    control: &File,
    process: &SandboxProcess,
    deadline: Option<Duration>,
    groups: &CgroupSet,
) {
    let end_after = |deadline| Instant::now() + deadline + EXIT_GRACE_PERIOD;
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
        // The control channel closes when the host ends.
        match receive::<SupervisorRequest>(control) {
            Ok(SupervisorRequest::ReportOomKills) => {
                let out_of_memory_kills = groups.count_oom_kills();
                if send(
                    control,
                    &SupervisorReport::OomKills {
                        out_of_memory_kills,
                    },
                )
                .is_err()
                {
                    return;
                }
            }
            Ok(SupervisorRequest::SetDeadline(deadline)) => end = Some(end_after(deadline)),
            Ok(SupervisorRequest::End) | Err(_) => return,
        }
    }
}

fn start_process_1(
    plan: &WallsPlan,
    link: OwnedFd,
    role: &CStr,
    groups: &mut CgroupSet,
) -> SetupResult<StartSide> {
    // The clone needs the version 2 group. The other groups are created later.
    groups.create(&plan.groups, CgroupVersion::V2)?;
    let (line, far_line) = UnixStream::pair().at(SetupStage::Start, "make a socket")?;
    let owner = plan
        .identity
        .drop_groups
        .then_some(plan.identity.outside_uid);
    let cloned = privileges::clone_as_owner(owner, || {
        // SAFETY: the supervisor has one thread; the child leaves this function only as the guest.
        unsafe { sys::clone(sys::NAMESPACE_FLAGS, groups.v2_group().map(AsFd::as_fd)) }
    });
    let pid = match cloned.at(SetupStage::Namespaces, "make namespaces")? {
        CloneSide::Child => {
            drop(line);
            become_process_1(plan, far_line, role);
            return Ok(StartSide::Inside(link));
        }
        CloneSide::Parent(pid) => pid,
    };
    drop(far_line);
    for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        set(&line, Some(ENTER_TIMEOUT)).at(SetupStage::Start, "bound the wait for the sandbox")?;
    }
    // Only the guest may hold its end of the link. Otherwise the host would not see the guest's death.
    drop(link);
    let process = SandboxProcess {
        pid: Pid::from_raw(pid),
        ended: sys::open_pidfd(pid).at(SetupStage::Start, "watch the sandbox")?,
    };
    match finish_setup(plan, &line, pid, groups) {
        Ok(landlock) => Ok(StartSide::Outside(process, landlock)),
        Err(failure) => {
            // The first failure is more informative than one from the kill.
            let _ = process.kill();
            Err(failure)
        }
    }
}

/// The supervisor's part of the setup, which runs in parallel with the part of process 1.
fn finish_setup(
    plan: &WallsPlan,
    mut line: &UnixStream,
    pid: libc::pid_t,
    groups: &mut CgroupSet,
) -> SetupResult<Option<LandlockStatus>> {
    write_id_maps(pid, plan.identity)?;
    line.write_all(&[1])
        .at(SetupStage::Start, "release the sandbox")?;
    groups.create(&plan.groups, CgroupVersion::V1)?;
    let supplies = SuppliedDescriptors {
        trees: root::open_supervisor_mounts(plan, |idmap| mapped_namespace(plan.identity, idmap))?,
        groups: groups.open_task_files()?,
    };
    // If process 1 has failed meanwhile, its message says why, so that message takes precedence.
    let sent = supplies.send(line, plan);
    let outcome = receive::<SetupResult<Option<LandlockStatus>>>(line);
    match (outcome, sent) {
        (Ok(outcome), _) => outcome,
        (Err(_), Err(failure)) => Err(failure),
        (Err(error), Ok(())) => Err(error).at(SetupStage::Start, "hear from the sandbox"),
    }
}

/// Returns only behind the walls. Exits if the setup fails.
fn become_process_1(plan: &WallsPlan, line: UnixStream, role: &CStr) {
    oom_score::open_score_file();
    let outcome = enter(plan, &line);
    let said = send(&line, &outcome);
    drop(line);
    let program = plan.program.as_ref();
    if outcome.is_err() || said.is_err() || close_inherited_descriptors(program).is_err() {
        exit_now();
    }
    if let Some(program) = program {
        exec_program(program);
        exit_now();
    }
    // If the C library's record of the thread ID could not be corrected, the program executes itself again
    // instead of continuing.
    if sys::thread_id_address().is_none() {
        let arguments = [c"hotcell-guest", role];
        let _ = execve::<_, &CStr>(c"/proc/self/exe", &arguments, &[]);
        exit_now();
    }
}

/// Returns only if the program cannot be executed.
fn exec_program(program: &RuntimeProgram) {
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

fn write_id_maps(pid: libc::pid_t, identity: SandboxIdentity) -> SetupResult<()> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/{pid}/{file}"), text)
            .at(SetupStage::Identity, format!("write {file}"))
    };
    if !identity.drop_groups {
        write("setgroups", "deny".into())?;
    }
    let (uid, gid) = (identity.inside_uid, identity.inside_gid);
    write("gid_map", format!("{gid} {} 1", identity.outside_gid))?;
    write("uid_map", format!("{uid} {} 1", identity.outside_uid))
}

/// Makes a user namespace that serves only as the ID mapping of a mount, from the owner on disk to the
/// sandbox's identity.
pub(crate) fn mapped_namespace(identity: SandboxIdentity, idmap: IdMap) -> SetupResult<OwnedFd> {
    const STEP: &str = "make a mapping of owners";
    let (wait, hold) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).at(SetupStage::Identity, STEP)?;
    // SAFETY: the supervisor has one thread; the child only reads and exits.
    let cloned = unsafe { sys::clone(libc::CLONE_NEWUSER, None) };
    let pid = match cloned.at(SetupStage::Identity, STEP)? {
        CloneSide::Child => {
            drop(hold);
            let _ = File::from(wait).read(&mut [0]);
            exit_now()
        }
        CloneSide::Parent(pid) => pid,
    };
    let mapping = SandboxIdentity {
        inside_uid: idmap.disk_uid,
        inside_gid: idmap.disk_gid,
        ..identity
    };
    let opened = write_id_maps(pid, mapping)
        .and_then(|()| File::open(format!("/proc/{pid}/ns/user")).at(SetupStage::Identity, STEP));
    drop(hold);
    let _ = waitpid(Pid::from_raw(pid), None);
    Ok(opened?.into())
}

fn exit_now() -> ! {
    // SAFETY: ends this copy of the process without running the parent's clean-up in it.
    unsafe { libc::_exit(1) }
}
