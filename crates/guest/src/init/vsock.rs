//! The machine's channels to the host over vsock instead of serial ports, as in Firecracker machines.
//!
//! Listeners survive a snapshot, connections do not. So the host connects again to every restored machine.
//! If a connection breaks while the machine resumes, the host opens another one. Entry point: [`live`].

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, accept4, bind, connect, listen, socket,
};
use walls::machine::vsock::{CONTROL, FILES, LINK, READY};
use walls::machine::{Arrival, Awake};
use walls::plan::{receive, send};

use super::ports::Ports;
use super::{At, IMAGE, Step, be, make_own, mounts, warm, workspace};

/// The argument on the kernel's command line that selects vsock.
const ASKED_FOR: &str = "hotcell.ports=vsock";

/// Whether the kernel's command line selects vsock.
pub(super) fn is_asked_for() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|word| word == ASKED_FOR)
}

/// Runs a machine with a vsock device until its sandbox ends.
pub(super) fn live() -> Step<()> {
    let listeners = Listeners::open()?;
    let made = mounts::image().and_then(|()| mounts::own_root());
    if let Err(failure) = made {
        let _ = listeners.announce(&Err(failure.clone()));
        return Err(failure);
    }
    warm::touch(IMAGE.as_ref());
    listeners.announce(&Ok(()))?;
    let (ports, arrival) = listeners.arrival()?;
    // The host does not connect again.
    drop(listeners);
    make_own(&arrival)?;
    let (link, control) = workspace::mount(ports)?;
    be(&arrival.plan, link, control)
}

/// Listeners for the three ports that the host connects to.
struct Listeners {
    link: OwnedFd,
    control: OwnedFd,
    files: OwnedFd,
}

impl Listeners {
    fn open() -> Step<Self> {
        let open = |port| listener(port).at(format!("listen on vsock port {port}"));
        Ok(Self {
            link: open(LINK)?,
            control: open(CONTROL)?,
            files: open(FILES)?,
        })
    }

    /// Reports over a separate connection that the machine is ready, or why not.
    fn announce(&self, awake: &Awake) -> Step<()> {
        let announce = || -> io::Result<()> {
            let socket = stream()?;
            let host = VsockAddr::new(libc::VMADDR_CID_HOST, READY);
            connect(socket.as_raw_fd(), &host)?;
            send(&File::from(socket), awake)
        };
        announce().at("report that the machine is ready")
    }

    /// Waits until the host has connected and sent an [`Arrival`]: in a restored machine, maybe months after
    /// the snapshot.
    fn arrival(&self) -> Step<(Ports, Arrival)> {
        loop {
            let control = File::from(accept(&self.control).at("accept the control connection")?);
            let awake: Awake = Ok(());
            let heard = send(&control, &awake).and_then(|()| receive::<Arrival>(&control));
            // The connection broke because the machine was restored. The host tries again.
            let Ok(arrival) = heard else {
                continue;
            };
            // The host connects to both before it sends the message.
            let ports = Ports {
                link: accept(&self.link).at("accept the link connection")?,
                control,
                files: accept(&self.files).at("accept the files connection")?,
            };
            return Ok((ports, arrival));
        }
    }
}

fn stream() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Vsock,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn listener(port: u32) -> nix::Result<OwnedFd> {
    let socket = stream()?;
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
