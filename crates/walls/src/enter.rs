//! The steps of process 1 before it is the guest: each puts up one wall.
//!
//! Runs single-threaded, before the guest has started anything. The order matters: what needs rights comes
//! before they are dropped, and seccomp comes last, because it refuses most of the rest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, sethostname, setresgid, setresuid, setsid};

use crate::confine::{apply_limits, filter_calls, restrict};
use crate::plan::{Behind, Landlocked, Plan, Program, Stage};
use crate::root::Unfinished;
use crate::seccomp::Options;
use crate::supervisor::{At, Step};
use crate::supplies::Supplies;
use crate::{privileges, sys, victims};

/// Puts up all walls around this process, which then is the guest. `line` leads to the
/// supervisor; its end means that the supervisor died.
pub(crate) fn enter(plan: &Plan, mut line: &UnixStream) -> Step<Option<Landlocked>> {
    line.read_exact(&mut [0])
        .at(Stage::Identity, "hear from the supervisor")?;
    take_identity(plan)?;
    // Only now: a change of identity clears this.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64)
        .at(Stage::Confinement, "tie the sandbox to its supervisor")?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0).at(Stage::Confinement, "close this process to others")?;

    setsid().at(Stage::Confinement, "start a session")?;
    sethostname(&plan.hostname).at(Stage::Confinement, "set the host name")?;
    sys::loopback_up().at(Stage::Network, "switch the loopback on")?;
    privileges::limit_namespace(plan.program.is_some());
    let root = Unfinished::build(plan)?;
    let supplies = Supplies::receive(line, plan)?;
    enter_groups(supplies.groups)?;
    root.finish(plan, supplies.trees)?;

    apply_limits(&plan.rlimits, plan.processors.as_deref())?;
    if plan.program.is_some() {
        return Ok(None);
    }
    let landlocked = restrict(&plan.writable)?;
    sys::drop_capabilities().at(Stage::Confinement, "drop capabilities")?;
    filter_calls(&Options {
        refuse_affinity: plan.processors.is_some(),
        is_machine: plan.behind == Behind::Machine,
        has_own_user: plan.identity.has_own_user(),
        ..Options::default()
    })?;
    Ok(landlocked)
}

/// The cgroup namespace begins at the groups that the process is in by then.
fn enter_groups(groups: Vec<File>) -> Step<()> {
    for mut group in groups {
        group
            .write_all(b"0")
            .at(Stage::Cgroups, "enter the control group")?;
    }
    unshare(CloneFlags::CLONE_NEWCGROUP).at(Stage::Namespaces, "make a cgroup namespace")
}

fn take_identity(plan: &Plan) -> Step<()> {
    const STEP: &str = "take on the sandbox's identity";
    if plan.identity.drop_groups {
        setgroups(&[]).at(Stage::Identity, STEP)?;
    }
    let gid = Gid::from_raw(plan.identity.inside_gid);
    let uid = Uid::from_raw(plan.identity.inside_uid);
    setresgid(gid, gid, gid).at(Stage::Identity, STEP)?;
    setresuid(uid, uid, uid).at(Stage::Identity, STEP)
}

/// Lets go of every descriptor of the host's but 0, which is the link, and that of [`victims`]; 1 and
/// 2 become the sandbox's own `/dev/null`.
///
/// Another program than the guest keeps 2, to say why it did not start.
pub(crate) fn let_go_of_descriptors(program: Option<&Program>) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let outputs = if program.is_some() { 1..=1 } else { 1..=2 };
    for descriptor in outputs {
        sys::duplicate(&null, descriptor)?;
    }
    drop(null);
    match victims::descriptor() {
        Some(kept) => {
            if kept > 3 {
                sys::close_all(3..=kept - 1)?;
            }
            sys::close_all(kept + 1..=RawFd::MAX)
        }
        None => sys::close_all(3..=RawFd::MAX),
    }
}
