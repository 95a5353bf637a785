//! The socket to which the guest in a container connects. Accepts one connection, from the expected
//! user. Entry type: [`LinkSocket`].

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A listening socket. Dropping it removes the socket file.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// An accepted guest connection.
#[derive(Debug)]
pub(crate) struct GuestConnection {
    pub(crate) link: UnixStream,
    /// Its pid on the host, unless the guest is in a machine whose processes the host cannot see.
    pub(crate) pid: Option<i32>,
}

impl LinkSocket {
    /// Opens the socket in the sandbox's own folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        const NAME: &str = "link";
        // Through the folder's descriptor, because socket paths have a short maximum length.
        let open = fs::File::open(folder)?;
        let short = format!("/proc/self/fd/{}/{NAME}", open.as_raw_fd());
        let listener = UnixListener::bind(short)?;
        let path = folder.join(NAME);
        // The guest runs as another user, so any user may connect; `enter` checks who did.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the guest's connection, which comes from this user; closes others.
    pub(crate) async fn enter(&self, user: u32) -> io::Result<GuestConnection> {
        loop {
            let (link, _) = self.listener.accept().await?;
            let peer = link.peer_cred()?;
            if peer.uid() == user {
                let pid = peer.pid().filter(|pid| *pid > 0);
                return Ok(GuestConnection { link, pid });
            }
        }
    }
}

impl Drop for LinkSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn only_the_awaited_user_comes_in_and_the_door_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(200));
        fs::create_dir(&long).unwrap();
        let door = LinkSocket::open(&long).unwrap();
        let inside = long.join("link");
        let near = fs::File::open(&long).unwrap();
        let short = format!("/proc/self/fd/{}/link", near.as_raw_fd());
        let own = nix::unistd::geteuid().as_raw();
        let _knocks = UnixStream::connect(&short).await.unwrap();
        // A connection of the wrong user is ignored; then the expected user connects.
        tokio::select! {
            biased;
            visitor = door.enter(own + 1) => panic!("{visitor:?}"),
            () = tokio::task::yield_now() => {}
        }
        let _guest = UnixStream::connect(&short).await.unwrap();
        let visitor = door.enter(own).await.unwrap();
        assert_eq!(visitor.pid, Some(std::process::id() as i32));
        drop(door);
        assert!(!inside.exists());
    }
}
