//! The machine's channels to the host over vsock instead of serial ports, as in Firecracker machines.
//!
//! Listeners survive a snapshot, connections do not. So the host connects again to every restored machine.
//! If a connection breaks while the machine resumes, the host opens another one. Entry point: [`run_machine`].

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, accept4, bind, connect, listen, socket,
};
use walls::machine::vsock::{CONTROL_PORT, FILES_PORT, LINK_PORT, READY_PORT};
use walls::machine::{MachineActivation, MachineReady};
use walls::plan::{receive, send};

use super::ports::HostPorts;
use super::{
    IMAGE_MOUNT, InitContext, InitResult, cache_warmup, mounts, reset_clock_and_randomness,
    run_sandbox, workspace,
};

/// The argument on the kernel's command line that selects vsock.
const VSOCK_KERNEL_ARGUMENT: &str = "hotcell.ports=vsock";

/// Whether the kernel's command line selects vsock.
pub(super) fn is_requested() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace()
        .any(|word| word == VSOCK_KERNEL_ARGUMENT)
}

/// Runs a machine with a vsock device until its sandbox ends.
pub(super) fn run_machine() -> InitResult<()> {
    let listeners = VsockListeners::open()?;
    let made = mounts::mount_image().and_then(|()| mounts::switch_root());
    if let Err(failure) = made {
        let _ = listeners.announce(&Err(failure.clone()));
        return Err(failure);
    }
    cache_warmup::read_common_files(IMAGE_MOUNT.as_ref());
    listeners.announce(&Ok(()))?;
    let (ports, arrival) = listeners.arrival()?;
    // The host does not connect again.
    drop(listeners);
    reset_clock_and_randomness(&arrival)?;
    let (link, control) = workspace::mount(ports)?;
    run_sandbox(&arrival.plan, link, control)
}

/// Listeners for the three ports that the host connects to.
struct VsockListeners {
    link: OwnedFd,
    control: OwnedFd,
    files: OwnedFd,
}

impl VsockListeners {
    fn open() -> InitResult<Self> {
        let open = |port| listener(port).at(format!("listen on vsock port {port}"));
        Ok(Self {
            link: open(LINK_PORT)?,
            control: open(CONTROL_PORT)?,
            files: open(FILES_PORT)?,
        })
    }

    /// Reports over a separate connection that the machine is ready, or why not.
    fn announce(&self, awake: &MachineReady) -> InitResult<()> {
        let announce = || -> io::Result<()> {
            let socket = vsock_socket()?;
            let host = VsockAddr::new(libc::VMADDR_CID_HOST, READY_PORT);
            connect(socket.as_raw_fd(), &host)?;
            send(&File::from(socket), awake)
        };
        announce().at("report that the machine is ready")
    }

    /// Waits until the host has connected and sent an [`MachineActivation`]: in a restored machine, maybe months after
    /// the snapshot.
    fn arrival(&self) -> InitResult<(HostPorts, MachineActivation)> {
        loop {
            let control = File::from(accept(&self.control).at("accept the control connection")?);
            let awake: MachineReady = Ok(());
            let heard =
                send(&control, &awake).and_then(|()| receive::<MachineActivation>(&control));
            // The connection broke because the machine was restored. The host tries again.
            let Ok(arrival) = heard else {
                continue;
            };
            // The host connects to both before it sends the message.
            let ports = HostPorts {
                link: accept(&self.link).at("accept the link connection")?,
                control,
                files: accept(&self.files).at("accept the files connection")?,
            };
            return Ok((ports, arrival));
        }
    }
}

fn vsock_socket() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Vsock,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn listener(port: u32) -> nix::Result<OwnedFd> {
    let socket = vsock_socket()?;
    bind(
        socket.as_raw_fd(),
        &VsockAddr::new(libc::VMADDR_CID_ANY, port),
    )?;
    listen(&socket, Backlog::new(4)?)?;
    Ok(socket)
}

fn accept(listener: &OwnedFd) -> nix::Result<OwnedFd> {
    loop {
        match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::ECONNABORTED) => {}
            // SAFETY: the kernel just made this descriptor for the caller alone.
            accepted => return accepted.map(|new| unsafe { OwnedFd::from_raw_fd(new) }),
        }
    }
}
