//! Confinement that a process applies to itself without privileges: limits, Landlock, the system call
//! filter. These are the last steps of process 1 behind native walls, and the only ones of a guest behind
//! another program's walls. Creates no namespace except a user namespace. Entry point: [`confine`].

use std::path::PathBuf;

use crate::plan::{Confinement, Landlocked, Rlimit, Stage};
use crate::seccomp::Options;
use crate::supervisor::{At, Step};
use crate::{landlock_rules, own_kernel, privileges, seccomp, sys, victims};

/// Confines this process and all its descendants. Must be called in a process with a single
/// thread. Without a new user namespace, it leaves the capability bounding set alone, because emptying
/// that takes privileges; the program that set up the walls has to do it.
pub fn confine(confinement: &Confinement) -> Result<Option<Landlocked>, crate::plan::Failure> {
    if confinement.is_own_kernel {
        own_kernel::close()?
    } else {
        victims::prepare()
    }
    match (confinement.user, confinement.is_own_kernel) {
        (Some(user), true) => own_kernel::be_user(user),
        (Some(user), false) => privileges::be_user(user),
        (None, _) => Ok(()),
    }?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0).at(Stage::Confinement, "make this process undumpable")?;
    let processors = confinement.processors.as_deref();
    apply_limits(&confinement.rlimits, processors)?;
    let landlocked = if confinement.is_own_kernel {
        // gVisor has no Landlock, and a probe would cost time.
        forbid_new_privileges().map(|()| None)
    } else {
        restrict(&confinement.writable)
    }?;
    match confinement.user {
        // The new user namespace granted all capabilities.
        Some(_) => sys::drop_capabilities(),
        None => sys::clear_capabilities(),
    }
    .at(Stage::Confinement, "drop capabilities")?;
    filter_calls(&Options {
        refuse_affinity: processors.is_some(),
        guard_process_1: true,
        is_own_kernel: confinement.is_own_kernel,
        is_machine: false,
        has_own_user: false,
    })?;
    Ok(landlocked)
}

pub(crate) fn apply_limits(rlimits: &[Rlimit], processors: Option<&[usize]>) -> Step<()> {
    privileges::apply_rlimits(rlimits, None)?;
    match processors {
        Some(processors) => privileges::stay_on(processors),
        None => Ok(()),
    }
}

pub(crate) fn restrict(writable: &[PathBuf]) -> Step<Option<Landlocked>> {
    forbid_new_privileges()?;
    landlock_rules::restrict(writable).at(Stage::Confinement, "apply Landlock")
}

fn forbid_new_privileges() -> Step<()> {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(Stage::Confinement, "forbid new privileges")
}

/// Must be the last step: the filter refuses most system calls of the others.
pub(crate) fn filter_calls(options: &Options) -> Step<()> {
    seccomp::install(options).at(Stage::Confinement, "install the system call filter")
}
