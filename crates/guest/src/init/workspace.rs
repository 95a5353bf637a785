//! The workspace inside a machine. A separate process mounts it and forwards its messages to and from the
//! port.
//!
//! On virtio-serial, the mount is made before the snapshot, when the host serves an empty folder. In a
//! restored machine, the host serves the sandbox's workspace on the same port.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::unistd::{ForkResult, fork};

use super::ports::HostPorts;
use super::{InitContext, InitResult, WORKSPACE_MOUNT};

/// Mounts the workspace, and returns the remaining ports: the link and the control channel. Must be called
/// in a process with a single thread.
pub(super) fn mount(ports: HostPorts) -> InitResult<(OwnedFd, File)> {
    const STEP: &str = "mount the workspace";
    let HostPorts {
        link,
        control,
        files,
    } = ports;
    let (mut near, far) = UnixStream::pair().at(STEP)?;
    // SAFETY: this process has one thread, and the child never returns from this function.
    match unsafe { fork() }.at(STEP)? {
        ForkResult::Parent { .. } => {
            drop((files, far));
            near.read_exact(&mut [0]).at(STEP)?;
            Ok((link, control))
        }
        ForkResult::Child => {
            drop((link, control, near));
            let _ = nix::sys::prctl::set_name(c"hotcell-files");
            std::process::exit(i32::from(serve_mount(far, files).is_err()))
        }
    }
}

/// Runs in the child. Sends one byte to the parent once the workspace is mounted.
fn serve_mount(mut parent: UnixStream, files: OwnedFd) -> io::Result<()> {
    let mounted = share::mount(files, Path::new(WORKSPACE_MOUNT)).map_err(io::Error::other)?;
    parent.write_all(&[1])?;
    drop(parent);
    mounted.wait()
}
