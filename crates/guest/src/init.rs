//! The guest program as the first process (init) of a virtual machine.
//!
//! Prepares the machine, sets up native walls inside it, reports that on the control port, and waits. At
//! this point the host takes a snapshot, and every restored machine resumes here. The next message,
//! [`MachineActivation`], sets the clock, seeds the kernel's random number generator and sets the limits. Then the
//! guest behind the walls starts to serve, as on every other backend. If the message asks for other walls,
//! they replace the prepared ones. Init reads only the control port and no input from commands.
//!
//! All machines from one snapshot share the state before it. So nothing random may be drawn before the
//! activation: neither init nor the guest creates a hash map until then. Entry point: [`run`].

mod activation;
mod cache_warmup;
mod modules;
mod mounts;
mod ports;
mod shell_warmup;
mod vsock;
mod workspace;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use walls::machine::{MachineActivation, MachineReady};
use walls::plan::{SetupFailure, SetupStage, SupervisorReport, WallsPlan, receive, send};
use walls::{StartedWalls, SupervisedWalls};

use self::ports::HostPorts;

/// Mount points of the image's disk and of the workspace, outside the walls.
const IMAGE_MOUNT: &str = "/image";
const WORKSPACE_MOUNT: &str = "/workspace";

type InitResult<T> = Result<T, SetupFailure>;

/// Names the step that failed.
trait InitContext<T> {
    fn at(self, step: impl Into<String>) -> InitResult<T>;
}

impl<T, E: Into<io::Error>> InitContext<T> for Result<T, E> {
    fn at(self, step: impl Into<String>) -> InitResult<T> {
        self.map_err(|error| SetupFailure {
            step: step.into(),
            stage: SetupStage::Start,
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// Runs until the sandbox ends, and then shuts the machine down.
pub(crate) fn run() -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"hotcell-init");
    if let Err(failure) = boot() {
        // The kernel log is the only output left.
        let _ = fs::write("/dev/kmsg", format!("<0>hotcell: {failure}"));
    }
    // The VMM is configured to exit on reboot.
    let _ = reboot(RebootMode::RB_AUTOBOOT);
    ExitCode::FAILURE
}

fn boot() -> InitResult<()> {
    mounts::mount_kernel_filesystems()?;
    // The OOM killer then kills init and the guest last; the guest starts commands with 1000. A command may
    // lower its score to this value again. -1000 would exempt it: over its memory limit, it would hang the
    // machine.
    fs::write("/proc/self/oom_score_adj", "-999").at("set the OOM score")?;
    modules::load_all()?;
    if vsock::is_requested() {
        vsock::run_machine()
    } else {
        run_machine(prepare()?)
    }
}

/// Everything that does not depend on the sandbox.
fn prepare() -> InitResult<HostPorts> {
    let ports = ports::open()?;
    report_failure(
        &ports.control,
        mounts::mount_image().and_then(|()| mounts::switch_root()),
    )?;
    cache_warmup::read_common_files(IMAGE_MOUNT.as_ref());
    shell_warmup::run_shell_once();
    Ok(ports)
}

fn run_machine(ports: HostPorts) -> InitResult<()> {
    let likely: WallsPlan = receive(&ports.control).at("receive the likely plan")?;
    let (link, control) = workspace::mount(ports)?;
    let walls = report_failure(&control, start_likely_walls(&likely, &link))?;
    let awake: MachineReady = Ok(());
    send(&control, &awake).at("report that the machine is ready")?;
    // The snapshot is taken here; the next message arrives in a restored machine, maybe months later.
    let arrival: MachineActivation = receive(&control).at("receive the sandbox's plan")?;
    reset_clock_and_randomness(&arrival)?;
    activate(walls, &arrival.plan, link, control)
}

/// Starts the walls that the machine will most likely need. The caller keeps its copy of the link.
fn start_likely_walls(likely: &WallsPlan, link: &OwnedFd) -> InitResult<Box<SupervisedWalls>> {
    let link = link.try_clone().at("duplicate the link")?;
    match walls::start_walls(likely, activation::move_to_stdin(link)?, guest_entry())? {
        StartedWalls::Outside(walls) => Ok(walls),
        // This is process 1 behind the walls, which has ended.
        StartedWalls::Inside(_) => std::process::exit(0),
    }
}

/// Adapts the running walls to the plan, or replaces them if that is not possible.
fn activate(
    mut walls: Box<SupervisedWalls>,
    wanted: &WallsPlan,
    link: OwnedFd,
    control: File,
) -> InitResult<()> {
    match walls.change(wanted) {
        Ok(true) => {
            // Only the guest may hold the link, or the host would not notice its end.
            drop(link);
            walls.serve(control);
            Ok(())
        }
        Ok(false) => {
            let _ = walls.take_down();
            run_sandbox(wanted, link, control)
        }
        Err(failure) => {
            let _ = send(&control, &SupervisorReport::Failed(failure.clone()));
            Err(failure)
        }
    }
}

/// Runs one sandbox until it ends.
fn run_sandbox(plan: &WallsPlan, link: OwnedFd, control: File) -> InitResult<()> {
    let link = activation::move_to_stdin(link)?;
    walls::supervise_plan(plan, link, control, guest_entry());
    Ok(())
}

/// Reports a failure to the host, instead of that the machine is ready.
fn report_failure<T>(control: &File, outcome: InitResult<T>) -> InitResult<T> {
    outcome.inspect_err(|failure| {
        let awake: MachineReady = Err(failure.clone());
        let _ = send(control, &awake);
    })
}

/// Sets what must differ between machines from one snapshot: clock and random state.
fn reset_clock_and_randomness(arrival: &MachineActivation) -> InitResult<()> {
    activation::set_clock(arrival.clock)?;
    activation::seed_randomness(&arrival.seed)
}

fn guest_entry() -> walls::Process1Entry {
    walls::Process1Entry {
        run: serve_after_contact,
        role: c"serve",
    }
}

/// Process 1 of the sandbox. It does nothing before the host's first message, which comes after any
/// snapshot. Never returns, because the caller would shut the machine down.
fn serve_after_contact(link: OwnedFd) -> ExitCode {
    let mut heard = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
    while poll(&mut heard, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let _ = crate::serve(link);
    std::process::exit(0)
}
