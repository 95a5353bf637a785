//! The machine's channels to the host: virtio-serial ports, by number.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use super::{InitContext, InitResult};

/// The channels to the host.
pub(super) struct HostPorts {
    /// For the guest.
    pub(super) link: OwnedFd,
    /// For the supervisor.
    pub(super) control: File,
    /// For the workspace.
    pub(super) files: OwnedFd,
}

pub(super) fn open() -> InitResult<HostPorts> {
    Ok(HostPorts {
        link: open_port(1)?.into(),
        control: open_port(2)?,
        files: open_port(3)?.into(),
    })
}

/// Opens a port. The kernel adds ports asynchronously and has no event for a port that is ready, hence the
/// bounded retry.
fn open_port(number: u32) -> InitResult<File> {
    let path = format!("/dev/vport0p{number}");
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        match File::options().read(true).write(true).open(&path) {
            Err(error) if is_not_ready(&error) && Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome.at(format!("open `{path}`")),
        }
    }
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)
    )
}
