//! The machine's ways to the host where it has a vsock device instead of serial ports, as
//! Firecracker's machines do.
//!
//! The listeners outlive a snapshot, connections do not: the host connects anew to every machine
//! that is restored. A connection that was cut when the machine woke up is followed by another.
//! Entry point: [`live`].

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

/// What is on the kernel's command line of such a machine.
const ASKED_FOR: &str = "hotcell.ports=vsock";

/// Whether the host has told the kernel that it talks over vsock.
pub(super) fn is_asked_for() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.split_whitespace().any(|word| word == ASKED_FOR)
}

/// The life of such a machine.
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
    // Nobody connects a second time.
    drop(listeners);
    make_own(&arrival)?;
    let (link, control) = workspace::mount(ports)?;
    be(&arrival.plan, link, control)
}

/// Three ports that the host can connect to.
struct Listeners {
    link: OwnedFd,
    control: OwnedFd,
    files: OwnedFd,
}

impl Listeners {
    fn open() -> Step<Self> {
        let open = |port| listener(port).at(format!("listen at vsock port {port}"));
        Ok(Self {
            link: open(LINK)?,
            control: open(CONTROL)?,
            files: open(FILES)?,
        })
    }

    /// Tells the host, over a connection of its own, that the machine waits, or why it cannot.
    fn announce(&self, awake: &Awake) -> Step<()> {
        let announce = || -> io::Result<()> {
            let socket = stream()?;
            let host = VsockAddr::new(libc::VMADDR_CID_HOST, READY);
            connect(socket.as_raw_fd(), &host)?;
            send(&File::from(socket), awake)
        };
        announce().at("say that it waits")
    }

    /// Waits until the host has connected and has said what to be: minutes or months later, in
    /// another machine.
    fn arrival(&self) -> Step<(Ports, Arrival)> {
        loop {
            let control = File::from(accept(&self.control).at("hear from the host")?);
            let awake: Awake = Ok(());
            let heard = send(&control, &awake).and_then(|()| receive::<Arrival>(&control));
            // Cut: the machine has noticed that it was asleep. The host tries again.
            let Ok(arrival) = heard else {
                continue;
            };
            // The host has connected to both before it said anything.
            let ports = Ports {
                link: accept(&self.link).at("hear from the host")?,
                control,
                files: accept(&self.files).at("hear from the host")?,
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
