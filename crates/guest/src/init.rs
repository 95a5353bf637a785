//! The guest program as the first process (init) of a virtual machine.
//!
//! Prepares the machine, sets up native walls inside it, reports that on the control port, and waits. At
//! this point the host takes a snapshot, and every restored machine resumes here. The next message,
//! [`Arrival`], sets the clock, seeds the kernel's random number generator and sets the limits. Then the
//! guest behind the walls starts to serve, as on every other backend. If the message asks for other walls,
//! they replace the prepared ones. Init reads only the control port and no input from commands.
//!
//! All machines from one snapshot share the state before it. So nothing random may be drawn before the
//! activation: neither init nor the guest creates a hash map until then. Entry point: [`run`].

mod arrival;
mod modules;
mod mounts;
mod ports;
mod rehearsal;
mod vsock;
mod warm;
mod workspace;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use walls::machine::{Arrival, Awake};
use walls::plan::{Failure, Plan, Report, Stage, receive, send};
use walls::{Raised, Walls};

use self::ports::Ports;

/// Mount points of the image's disk and of the workspace, outside the walls.
const IMAGE: &str = "/image";
const WORKSPACE: &str = "/workspace";

type Step<T> = Result<T, Failure>;

/// Names the step that failed.
trait At<T> {
    fn at(self, step: impl Into<String>) -> Step<T>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: impl Into<String>) -> Step<T> {
        self.map_err(|error| Failure {
            step: step.into(),
            stage: Stage::Start,
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// Runs until the sandbox ends, and then shuts the machine down.
pub(crate) fn run() -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-init");
    if let Err(failure) = begin() {
        // The kernel log is the only output left.
        let _ = fs::write("/dev/kmsg", format!("<0>hotcell: {failure}"));
    }
    // The VMM is configured to exit on reboot.
    let _ = reboot(RebootMode::RB_AUTOBOOT);
    ExitCode::FAILURE
}

fn begin() -> Step<()> {
    mounts::system()?;
    // The OOM killer then kills init and the guest last; the guest starts commands with 1000. A command may
    // lower its score to this value again. -1000 would exempt it: over its memory limit, it would hang the
    // machine.
    fs::write("/proc/self/oom_score_adj", "-999").at("set the OOM score")?;
    modules::load()?;
    if vsock::is_asked_for() {
        vsock::live()
    } else {
        live(prepare()?)
    }
}

/// Everything that does not depend on the sandbox.
fn prepare() -> Step<Ports> {
    let ports = ports::open()?;
    tell_failure(
        &ports.control,
        mounts::image().and_then(|()| mounts::own_root()),
    )?;
    warm::touch(IMAGE.as_ref());
    rehearsal::rehearse();
    Ok(ports)
}

fn live(ports: Ports) -> Step<()> {
    let likely: Plan = receive(&ports.control).at("receive the likely plan")?;
    let (link, control) = workspace::mount(ports)?;
    let walls = tell_failure(&control, stand(&likely, &link))?;
    let awake: Awake = Ok(());
    send(&control, &awake).at("report that the machine is ready")?;
    // The snapshot is taken here; the next message arrives in a restored machine, maybe months later.
    let arrival: Arrival = receive(&control).at("receive the sandbox's plan")?;
    make_own(&arrival)?;
    settle(walls, &arrival.plan, link, control)
}

/// Starts the walls that the machine will most likely need. The caller keeps its copy of the link.
fn stand(likely: &Plan, link: &OwnedFd) -> Step<Box<Walls>> {
    let link = link.try_clone().at("duplicate the link")?;
    match walls::raise(likely, arrival::as_standard_input(link)?, guest())? {
        Raised::Outside(walls) => Ok(walls),
        // This is process 1 behind the walls, which has ended.
        Raised::Inside(_) => std::process::exit(0),
    }
}

/// Adapts the running walls to the plan, or replaces them if that is not possible.
fn settle(mut walls: Box<Walls>, wanted: &Plan, link: OwnedFd, control: File) -> Step<()> {
    match walls.change(wanted) {
        Ok(true) => {
            // Only the guest may hold the link, or the host would not notice its end.
            drop(link);
            walls.serve(control);
            Ok(())
        }
        Ok(false) => {
            let _ = walls.take_down();
            be(wanted, link, control)
        }
        Err(failure) => {
            let _ = send(&control, &Report::Failed(failure.clone()));
            Err(failure)
        }
    }
}

/// Runs one sandbox until it ends.
fn be(plan: &Plan, link: OwnedFd, control: File) -> Step<()> {
    let link = arrival::as_standard_input(link)?;
    walls::supervise_plan(plan, link, control, guest());
    Ok(())
}

/// Reports a failure to the host, instead of that the machine is ready.
fn tell_failure<T>(control: &File, outcome: Step<T>) -> Step<T> {
    outcome.inspect_err(|failure| {
        let awake: Awake = Err(failure.clone());
        let _ = send(control, &awake);
    })
}

/// Sets what must differ between machines from one snapshot: clock and random state.
fn make_own(arrival: &Arrival) -> Step<()> {
    arrival::set_clock(arrival.clock)?;
    arrival::seed_randomness(&arrival.seed)
}

fn guest() -> walls::Inside {
    walls::Inside {
        run: behind_walls,
        role: c"serve",
    }
}

/// Process 1 of the sandbox. It does nothing before the host's first message, which comes after any
/// snapshot. Never returns, because the caller would shut the machine down.
fn behind_walls(link: OwnedFd) -> ExitCode {
    let mut heard = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
    while poll(&mut heard, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let _ = crate::serve(link);
    std::process::exit(0)
}
