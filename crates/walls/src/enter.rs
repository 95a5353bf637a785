//! The steps of process 1 from its first instruction to the guest's: each puts up one wall.
//!
//! Runs single-threaded between `clone` and `exec`. The order matters: what needs rights comes
//! before they are dropped, and seccomp comes last, because it refuses most of the rest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, sethostname, setresgid, setresuid, setsid};

use crate::plan::{self, Failure, Landlocked, Plan, Stage};
use crate::root::{self, Trees};
use crate::supervisor::{At, Step};
use crate::{landlock_rules, privileges, seccomp, sys};

/// What process 1 is born with.
pub(crate) struct Birth<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) trees: Trees,
    /// Files into which writing `0` puts this process into its cgroups.
    pub(crate) groups: Vec<File>,
    /// One byte comes when the identity is mapped; an end means that the supervisor died.
    pub(crate) go: File,
    /// Takes the outcome; closed by the exec.
    pub(crate) outcome: File,
}

/// Puts up all walls and becomes the guest. Returns only if that failed.
pub(crate) fn enter(birth: Birth<'_>) -> Failure {
    match prepare(birth) {
        Err(failure) => failure,
        Ok((program, landlocked, mut outcome)) => {
            // If the supervisor is gone, process 1 is being killed already.
            let _ = plan::send(&mut outcome, &Ok::<_, Failure>(landlocked));
            let error = sys::exec(&program, &[c"hotcell-guest", c"serve"]);
            failure(error)
        }
    }
}

fn failure(error: io::Error) -> Failure {
    Failure {
        step: "start the guest".into(),
        stage: Stage::Start,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    }
}

fn prepare(birth: Birth<'_>) -> Step<(OwnedFd, Option<Landlocked>, File)> {
    let Birth {
        plan,
        trees,
        groups,
        mut go,
        outcome,
    } = birth;
    // Through the host's /proc, while it is in sight: this very program is the guest.
    let program = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open("/proc/self/exe")
        .at(Stage::Start, "open the guest program")?
        .into();

    for mut group in groups {
        group
            .write_all(b"0")
            .at(Stage::Cgroups, "enter the control group")?;
    }
    unshare(CloneFlags::CLONE_NEWCGROUP).at(Stage::Namespaces, "make a cgroup namespace")?;
    go.read_exact(&mut [0])
        .at(Stage::Identity, "hear from the supervisor")?;
    take_identity(plan)?;
    // Only now: a change of identity clears this.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64)
        .at(Stage::Confinement, "tie the sandbox to its supervisor")?;

    setsid().at(Stage::Confinement, "start a session")?;
    sethostname(&plan.hostname).at(Stage::Confinement, "set the host name")?;
    sys::loopback_up().at(Stage::Network, "switch the loopback on")?;
    root::build(plan, trees)?;

    privileges::apply_rlimits(&plan.rlimits)?;
    if let Some(processors) = &plan.processors {
        privileges::stay_on(processors)?;
    }
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(Stage::Confinement, "forbid new privileges")?;
    let landlocked =
        landlock_rules::restrict(&plan.writable).at(Stage::Confinement, "apply Landlock")?;
    sys::drop_capabilities().at(Stage::Confinement, "drop capabilities")?;
    let_go_of_descriptors().at(Stage::Confinement, "close descriptors")?;
    seccomp::install(&seccomp::Options {
        refuse_shared_memory: plan.refuse_shared_memory,
        refuse_affinity: plan.processors.is_some(),
    })
    .at(Stage::Confinement, "install the system call filter")?;
    Ok((program, landlocked, outcome))
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

/// Lets go of every descriptor of the host's but 0, which is the link; 1 and 2 become the
/// sandbox's own `/dev/null`.
fn let_go_of_descriptors() -> io::Result<()> {
    sys::close_on_exec_from(1)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for descriptor in [1, 2] {
        sys::duplicate(&null, descriptor)?;
    }
    Ok(())
}
