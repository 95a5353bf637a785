//! The socket to which a guest in a container connects: one connection, from the one user that it
//! can come from. Entry type: [`Door`].

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// An open door. Closing it removes the socket.
#[derive(Debug)]
pub(crate) struct Door {
    listener: UnixListener,
    path: PathBuf,
}

/// Who came in.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) link: UnixStream,
    /// Its number here, unless it is in a world whose processes cannot be seen from here.
    pub(crate) pid: Option<i32>,
}

impl Door {
    /// Opens one in a folder of the sandbox's own.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        const NAME: &str = "link";
        // By way of the folder's descriptor: the name of a socket has to be short.
        let open = fs::File::open(folder)?;
        let short = format!("/proc/self/fd/{}/{NAME}", open.as_raw_fd());
        let listener = UnixListener::bind(short)?;
        let path = folder.join(NAME);
        // The guest is nobody's user; who it is, is looked at when it comes.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the guest, which comes as this user; others are sent away.
    pub(crate) async fn enter(&self, user: u32) -> io::Result<Visitor> {
        loop {
            let (link, _) = self.listener.accept().await?;
            let peer = link.peer_cred()?;
            if peer.uid() == user {
                let pid = peer.pid().filter(|pid| *pid > 0);
                return Ok(Visitor { link, pid });
            }
        }
    }
}

impl Drop for Door {
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
        let door = Door::open(&long).unwrap();
        let inside = long.join("link");
        let near = fs::File::open(&long).unwrap();
        let short = format!("/proc/self/fd/{}/link", near.as_raw_fd());
        let own = nix::unistd::geteuid().as_raw();
        let _knocks = UnixStream::connect(&short).await.unwrap();
        // A stranger waits outside for ever; then somebody whom the door was told of comes.
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
