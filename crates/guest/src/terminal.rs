//! Pseudo-terminals of the sandbox's own: the master stays with the guest.

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use bytes::BytesMut;
use link::request::TerminalSize;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, posix_openpt, ptsname_r, unlockpt};
use tokio::io::unix::AsyncFd;

use crate::readiness::{Source, register};

nix::ioctl_write_ptr_bad!(set_size, libc::TIOCSWINSZ, libc::winsize);

/// The guest's end of a terminal.
pub(crate) struct Terminal {
    master: AsyncFd<Source<PtyMaster>>,
    pub(crate) path: PathBuf,
}

impl Terminal {
    pub(crate) fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let master = posix_openpt(flags)?;
        unlockpt(&master)?;
        let terminal = Self {
            path: PathBuf::from(ptsname_r(&master)?),
            master: register(master)?,
        };
        terminal.resize(size)?;
        Ok(terminal)
    }

    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = libc::winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the master is open and the size outlives the call.
        unsafe { set_size(self.master.as_raw_fd(), &size) }?;
        Ok(())
    }

    /// Reads what was printed; 0 once nobody holds the other end any more.
    pub(crate) async fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            let mut ready = self.master.readable().await?;
            if let Ok(outcome) = ready.try_io(|_| self.try_read(buffer)) {
                return outcome;
            }
        }
    }

    /// Reads what is there now; `WouldBlock` if nothing is.
    pub(crate) fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut space = [0; 16 * 1024];
        match nix::unistd::read(&self.master.get_ref().0, &mut space) {
            Ok(length) => {
                buffer.extend_from_slice(&space[..length]);
                Ok(length)
            }
            // What Linux says when the last holder of the other end is gone.
            Err(nix::errno::Errno::EIO) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.master.writable().await?;
            let outcome = ready.try_io(|master| {
                nix::unistd::write(&master.get_ref().0, bytes).map_err(io::Error::from)
            });
            if let Ok(written) = outcome {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }
}
