//! Pseudo-terminals of the sandbox. The guest holds the master side.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use bytes::BytesMut;
use link::request::TerminalSize;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, posix_openpt, ptsname_r, unlockpt};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;

use crate::readiness::{DescriptorOwner, register};
use crate::signal_keys::{self, SignalKeys, TypedPart};

nix::ioctl_write_ptr_bad!(set_size, libc::TIOCSWINSZ, libc::winsize);
nix::ioctl_read_bad!(readable, libc::FIONREAD, libc::c_int);

/// The master side of a terminal.
pub(crate) struct Terminal {
    master: AsyncFd<DescriptorOwner<PtyMaster>>,
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

    /// Reads output; 0 after the last process has closed the other side.
    pub(crate) async fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            let mut ready = self.master.readable().await?;
            if let Ok(outcome) = ready.try_io(|_| self.try_read(buffer)) {
                return outcome;
            }
        }
    }

    /// Writes input, and sends the signals of special keys itself, on kernels that do not.
    pub(crate) async fn type_keys(&self, bytes: &[u8], foreground: Pid) -> io::Result<()> {
        for typed in SignalKeys::of(self.master.get_ref().0.as_fd()).split(bytes) {
            match typed {
                TypedPart::Text(text) => self.write_all(text).await?,
                TypedPart::Signal(signal) => signal_keys::send_signal(foreground, signal),
            }
        }
        Ok(())
    }

    /// The number of unread output bytes; 0 if the kernel does not report it.
    pub(crate) fn pending(&self) -> usize {
        let mut bytes = 0;
        // SAFETY: the master is open and the number outlives the call.
        match unsafe { readable(self.master.as_raw_fd(), &mut bytes) } {
            Ok(_) => usize::try_from(bytes).unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Reads without waiting; `WouldBlock` if there is no output.
    pub(crate) fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut space = [0; 16 * 1024];
        match nix::unistd::read(&self.master.get_ref().0, &mut space) {
            Ok(length) => {
                buffer.extend_from_slice(&space[..length]);
                Ok(length)
            }
            // Linux reports this after the last process has closed the other side.
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
