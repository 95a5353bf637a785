//! The steps of process 1 before it becomes the guest. Each step sets up one wall.
//!
//! Runs single-threaded, before the guest has started anything. The order matters: steps that need
//! privileges run before these are dropped, and seccomp comes last, because it refuses the system calls of
//! most other steps.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, sethostname, setresgid, setresuid, setsid};

use crate::confine::{apply_landlock, apply_limits, install_filter};
use crate::handover::SuppliedDescriptors;
use crate::plan::{LandlockStatus, Process1Role, RuntimeProgram, SetupStage, WallsPlan};
use crate::root::RootBuilder;
use crate::seccomp::FilterOptions;
use crate::supervisor::{SetupContext, SetupResult};
use crate::{oom_score, privileges, sys};

/// Sets up all walls around this process, which then becomes the guest. `line` is connected to the
/// supervisor. If it closes, the supervisor has died.
pub(crate) fn enter(
    plan: &WallsPlan,
    mut line: &UnixStream,
) -> SetupResult<Option<LandlockStatus>> {
    line.read_exact(&mut [0])
        .at(SetupStage::Identity, "hear from the supervisor")?;
    switch_identity(plan)?;
    // Must come after the change of identity, which clears this setting.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64)
        .at(SetupStage::Confinement, "tie the sandbox to its supervisor")?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)
        .at(SetupStage::Confinement, "close this process to others")?;

    setsid().at(SetupStage::Confinement, "start a session")?;
    sethostname(&plan.hostname).at(SetupStage::Confinement, "set the host name")?;
    sys::enable_loopback().at(SetupStage::Network, "switch the loopback on")?;
    privileges::apply_namespace_limits(plan.program.is_some());
    let root = RootBuilder::build(plan)?;
    let supplies = SuppliedDescriptors::receive(line, plan)?;
    join_cgroups(supplies.groups)?;
    root.finish(plan, supplies.trees)?;

    apply_limits(&plan.rlimits, plan.processors.as_deref())?;
    if plan.program.is_some() {
        return Ok(None);
    }
    let landlocked = apply_landlock(&plan.writable)?;
    sys::drop_capabilities().at(SetupStage::Confinement, "drop capabilities")?;
    install_filter(&FilterOptions {
        refuse_affinity: plan.processors.is_some(),
        is_vmm: plan.role == Process1Role::VmmHelper,
        has_own_user: plan.identity.has_own_user(),
        ..FilterOptions::default()
    })?;
    Ok(landlocked)
}

/// The namespace is made last: its root is the set of groups that the process is in at that moment.
fn join_cgroups(groups: Vec<File>) -> SetupResult<()> {
    for mut group in groups {
        group
            .write_all(b"0")
            .at(SetupStage::Cgroups, "enter the control group")?;
    }
    unshare(CloneFlags::CLONE_NEWCGROUP).at(SetupStage::Namespaces, "make a cgroup namespace")
}

fn switch_identity(plan: &WallsPlan) -> SetupResult<()> {
    const STEP: &str = "take on the sandbox's identity";
    if plan.identity.drop_groups {
        setgroups(&[]).at(SetupStage::Identity, STEP)?;
    }
    let gid = Gid::from_raw(plan.identity.inside_gid);
    let uid = Uid::from_raw(plan.identity.inside_uid);
    setresgid(gid, gid, gid).at(SetupStage::Identity, STEP)?;
    setresuid(uid, uid, uid).at(SetupStage::Identity, STEP)
}

/// Closes every descriptor inherited from the host except 0, which is the link, and the one of [`oom_score`].
/// Descriptors 1 and 2 become the sandbox's own `/dev/null`.
///
/// A runtime program keeps 2, to report why it did not start.
pub(crate) fn close_inherited_descriptors(program: Option<&RuntimeProgram>) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let outputs = if program.is_some() { 1..=1 } else { 1..=2 };
    for descriptor in outputs {
        sys::duplicate_to(&null, descriptor)?;
    }
    drop(null);
    match oom_score::score_file_descriptor() {
        Some(kept) => {
            if kept > 3 {
                sys::close_range(3..=kept - 1)?;
            }
            sys::close_range(kept + 1..=RawFd::MAX)
        }
        None => sys::close_range(3..=RawFd::MAX),
    }
}
