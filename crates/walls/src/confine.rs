//! Confinement that a process applies to itself without privileges: limits, Landlock, the system call
//! filter. These are the last steps of process 1 behind native walls, and the only ones of a guest behind
//! another program's walls. Creates no namespace except a user namespace. Entry point: [`confine`].

use std::path::PathBuf;

use crate::plan::{Confinement, LandlockStatus, Rlimit, SetupStage};
use crate::seccomp::FilterOptions;
use crate::supervisor::{SetupContext, SetupResult};
use crate::{gvisor, landlock_rules, oom_score, privileges, seccomp, sys};

/// Confines this process and all its descendants. Must be called in a process with a single
/// thread. Without a new user namespace, it leaves the capability bounding set alone, because emptying
/// that takes privileges; the program that set up the walls has to do it.
pub fn confine(
    confinement: &Confinement,
) -> Result<Option<LandlockStatus>, crate::plan::SetupFailure> {
    if confinement.is_gvisor {
        gvisor::restrict_dev_and_proc()?
    } else {
        oom_score::open_score_file()
    }
    match (confinement.user, confinement.is_gvisor) {
        (Some(user), true) => gvisor::enter_user_namespace(user),
        (Some(user), false) => privileges::enter_user_namespace(user),
        (None, _) => Ok(()),
    }?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)
        .at(SetupStage::Confinement, "make this process undumpable")?;
    let processors = confinement.processors.as_deref();
    apply_limits(&confinement.rlimits, processors)?;
    let landlocked = if confinement.is_gvisor {
        // gVisor has no Landlock, and a probe would cost time.
        forbid_new_privileges().map(|()| None)
    } else {
        apply_landlock(&confinement.writable)
    }?;
    match confinement.user {
        // The new user namespace granted all capabilities.
        Some(_) => sys::drop_capabilities(),
        None => sys::clear_capabilities(),
    }
    .at(SetupStage::Confinement, "drop capabilities")?;
    install_filter(&FilterOptions {
        refuse_affinity: processors.is_some(),
        guard_process_1: true,
        is_gvisor: confinement.is_gvisor,
        is_vmm: false,
        has_own_user: false,
    })?;
    Ok(landlocked)
}

pub(crate) fn apply_limits(rlimits: &[Rlimit], processors: Option<&[usize]>) -> SetupResult<()> {
    privileges::apply_rlimits(rlimits, None)?;
    match processors {
        Some(processors) => privileges::pin_to_processors(processors),
        None => Ok(()),
    }
}

pub(crate) fn apply_landlock(writable: &[PathBuf]) -> SetupResult<Option<LandlockStatus>> {
    forbid_new_privileges()?;
    landlock_rules::restrict(writable).at(SetupStage::Confinement, "apply Landlock")
}

fn forbid_new_privileges() -> SetupResult<()> {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(SetupStage::Confinement, "forbid new privileges")
}

/// Must be the last step: the filter refuses most system calls of the others.
pub(crate) fn install_filter(options: &FilterOptions) -> SetupResult<()> {
    seccomp::install(options).at(SetupStage::Confinement, "install the system call filter")
}
