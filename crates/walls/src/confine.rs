//! The walls that a process puts up around itself, without rights: limits, Landlock, the system
//! call filter. The last steps of process 1 behind native walls, and all that the guest adds
//! behind somebody else's. Makes no namespace but one of its user. Entry point: [`confine`].

use std::path::PathBuf;

use crate::plan::{Confinement, Landlocked, Rlimit, Stage};
use crate::seccomp::Options;
use crate::supervisor::{At, Step};
use crate::{landlock_rules, own_kernel, privileges, seccomp, sys, victims};

/// Confines this process and all its descendants. Must be called in a process with a single
/// thread. Without a user namespace of its own, the bounding set of capabilities is whoever put up
/// the walls' to empty: that takes rights.
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
    sys::prctl(libc::PR_SET_DUMPABLE, 0).at(Stage::Confinement, "close this process to others")?;
    let processors = confinement.processors.as_deref();
    apply_limits(&confinement.rlimits, processors)?;
    let landlocked = if confinement.is_own_kernel {
        // It has no Landlock, and asking costs.
        forbid_new_privileges().map(|()| None)
    } else {
        restrict(&confinement.writable)
    }?;
    match confinement.user {
        // A new user namespace came with all of them.
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

/// Comes last: it refuses most of the rest.
pub(crate) fn filter_calls(options: &Options) -> Step<()> {
    seccomp::install(options).at(Stage::Confinement, "install the system call filter")
}
