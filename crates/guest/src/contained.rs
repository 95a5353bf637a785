//! The guest behind walls that another program set up: a container engine, gVisor.
//!
//! The first message on the link is a [`Confinement`]. The guest confines itself, reports the result, and
//! then serves the link as usual. Entry point: [`serve`].

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::{dup2_stderr, dup2_stdout};
use walls::plan::{Confinement, receive, send};

use crate::channel::Channel;
use crate::signals::GuestKernel;
use crate::{descriptors, session};

/// Where the link is.
pub(crate) enum LinkSource<'a> {
    /// Standard input: a socket.
    Socket(OwnedFd),
    /// A listening socket of the host, which accepts a single connection.
    Path(&'a Path),
    /// Standard input and standard output.
    Pipes(OwnedFd, OwnedFd),
}

pub(crate) fn serve(link: LinkSource<'_>) -> ExitCode {
    let open = || -> io::Result<(Channel, GuestKernel)> {
        if !matches!(link, LinkSource::Pipes(..)) {
            redirect_outputs()?;
        }
        let channel = match link {
            LinkSource::Socket(socket) => Channel::from_socket(socket)?,
            LinkSource::Path(path) => Channel::from_socket(UnixStream::connect(path)?.into())?,
            LinkSource::Pipes(input, output) => Channel::new(input, output),
        };
        let confinement: Confinement = receive(&channel)?;
        let mut kernel = GuestKernel::Linux;
        if confinement.is_gvisor {
            kernel = GuestKernel::Own;
            descriptors::open_fd_dir()?;
        }
        let outcome = walls::confine(&confinement);
        let failed = outcome.is_err();
        send(&channel, &outcome)?;
        if failed {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Ok((channel, kernel))
        }
    };
    match open() {
        Ok((channel, kernel)) => session::serve(channel, kernel),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Redirects the outputs to `/dev/null`, because commands might be able to reopen those of the host.
fn redirect_outputs() -> io::Result<()> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}
