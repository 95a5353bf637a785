//! The workspace inside a machine: a process of its own mounts it and carries its messages to the
//! port and back.
//!
//! Where there is a snapshot, it is taken after that: what was mounted then was nobody's folder, and
//! in a restored machine another one answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::unistd::{ForkResult, fork};

use super::ports::Ports;
use super::{At, Step, WORKSPACE};

/// Mounts the workspace, and hands back what is left of the ports: the link and the control
/// channel. Must be called in a process with a single thread.
pub(super) fn mount(ports: Ports) -> Step<(OwnedFd, File)> {
    const STEP: &str = "mount the workspace";
    let Ports {
        link,
        control,
        files,
    } = ports;
    let (mut near, far) = UnixStream::pair().at(STEP)?;
    // SAFETY: this process has one thread, and the child leaves this function only by its end.
    match unsafe { fork() }.at(STEP)? {
        ForkResult::Parent { .. } => {
            drop((files, far));
            near.read_exact(&mut [0]).at(STEP)?;
            Ok((link, control))
        }
        ForkResult::Child => {
            drop((link, control, near));
            let _ = nix::sys::prctl::set_name(c"hotcell-files");
            std::process::exit(i32::from(carry(far, files).is_err()))
        }
    }
}

/// In the child: one byte tells that it is mounted.
fn carry(mut parent: UnixStream, files: OwnedFd) -> io::Result<()> {
    let mounted = share::mount(files, Path::new(WORKSPACE)).map_err(io::Error::other)?;
    parent.write_all(&[1])?;
    drop(parent);
    mounted.wait()
}
