//! The folder that Firecracker and this program share: the API socket and the sockets of the vsock
//! device.
//!
//! Sockets are reached through a descriptor of the folder, because the address of a unix socket
//! must be short and a folder's path may be long. Its content comes from this program or from
//! Firecracker, so this file follows no symlinks. Entry type: [`SharedDir`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

/// An open shared folder.
#[derive(Debug)]
pub(super) struct SharedDir {
    path: PathBuf,
    folder: File,
}

impl SharedDir {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW)
            .open(path)?;
        Ok(Self {
            path: path.to_owned(),
            folder,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a name in the folder that is short enough for a socket address.
    fn address(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()).into()
    }

    pub(super) async fn connect(&self, name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(self.address(name)).await
    }

    /// A socket that Firecracker connects to under any user. The folder's permissions keep others
    /// out.
    pub(super) fn listen(&self, name: &str) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(self.address(name))?;
        let everybody = fs::Permissions::from_mode(0o666);
        fs::set_permissions(self.path.join(name), everybody)?;
        Ok(listener)
    }

    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.address(name));
    }

    /// Waits until a process listens on this socket. There is no notification, so it polls; the
    /// caller sets the timeout.
    pub(super) async fn wait_until_listening(&self, name: &str) -> io::Result<()> {
        loop {
            match self.connect(name).await {
                Ok(_) => return Ok(()),
                Err(error) if is_not_listening_yet(&error) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_not_listening_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}
