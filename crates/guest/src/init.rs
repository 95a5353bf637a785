//! The guest as the first process of a virtual machine.
//!
//! Makes the machine ready, puts up the native walls once more, inside, says so on the control port,
//! and waits: there the host takes a snapshot, and there every restored machine begins. What arrives
//! then sets the clock, the kernel's randomness and the limits right, and the guest behind the
//! walls begins: one sandbox on every backend, and the machine around it. Where other walls are
//! wanted than those that stand, they are put up then. It obeys the control port alone and reads no
//! command's word.
//!
//! What runs before the snapshot is the same in all machines made from it, so nothing random is
//! drawn before the arrival: no hash map is made, here or behind the walls. Entry point: [`run`].

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

/// Where the disk of the image is mounted, and the workspace, before the walls stand.
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

/// Lives as long as the machine, and ends it.
pub(crate) fn run() -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-init");
    if let Err(failure) = begin() {
        // The last place where anybody may look.
        let _ = fs::write("/dev/kmsg", format!("<0>hotcell: {failure}"));
    }
    // The machine is set up to end instead of starting again.
    let _ = reboot(RebootMode::RB_AUTOBOOT);
    ExitCode::FAILURE
}

fn begin() -> Step<()> {
    mounts::system()?;
    // The kernel kills this and the guest last when memory runs out; the guest starts commands with 1000.
    // A command may go back to this number. -1000 would exempt it: over its memory limit, it would hang the
    // machine.
    fs::write("/proc/self/oom_score_adj", "-999").at("stay when memory runs out")?;
    modules::load()?;
    if vsock::is_asked_for() {
        vsock::live()
    } else {
        live(prepare()?)
    }
}

/// All that can be done before it is known what for.
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
    let likely: Plan = receive(&ports.control).at("hear what to expect")?;
    let (link, control) = workspace::mount(ports)?;
    let walls = tell_failure(&control, stand(&likely, &link))?;
    let awake: Awake = Ok(());
    send(&control, &awake).at("say that it waits")?;
    // Minutes or months later, in another machine.
    let arrival: Arrival = receive(&control).at("hear what to be")?;
    make_own(&arrival)?;
    settle(walls, &arrival.plan, link, control)
}

/// Walls of which the machine will most likely be asked. The link stays with the caller as well.
fn stand(likely: &Plan, link: &OwnedFd) -> Step<Box<Walls>> {
    let link = link.try_clone().at("hold the link")?;
    match walls::raise(likely, arrival::as_standard_input(link)?, guest())? {
        Raised::Outside(walls) => Ok(walls),
        // Not in this process.
        Raised::Inside(_) => std::process::exit(0),
    }
}

/// Stays with the walls that stand if they are what is wanted, or puts up others.
fn settle(mut walls: Box<Walls>, wanted: &Plan, link: OwnedFd, control: File) -> Step<()> {
    match walls.change(wanted) {
        Ok(true) => {
            // The guest's alone, or its death goes unseen.
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

/// What the host has said to be, for the rest of the machine's life.
fn be(plan: &Plan, link: OwnedFd, control: File) -> Step<()> {
    let link = arrival::as_standard_input(link)?;
    walls::supervise_plan(plan, link, control, guest());
    Ok(())
}

/// Lets the host know why the machine does not wait.
fn tell_failure<T>(control: &File, outcome: Step<T>) -> Step<T> {
    outcome.inspect_err(|failure| {
        let awake: Awake = Err(failure.clone());
        let _ = send(control, &awake);
    })
}

/// What no two machines may have in common.
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

/// The sandbox's own process 1. It does nothing before the host speaks to it, which is after any
/// snapshot, and must not come back to where the machine is ended.
fn behind_walls(link: OwnedFd) -> ExitCode {
    let mut heard = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
    while poll(&mut heard, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let _ = crate::serve(link);
    std::process::exit(0)
}
