//! Small files of the user: read without blocking, replaced atomically.
//!
//! A sandbox may have put anything under a name that is read at the next start: a FIFO, a link to a device,
//! an endless file. Entry points: [`read_small`], [`replace`], [`lock_beside`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Reads a regular file of at most `limit` bytes. Follows a link, and checks the type of its target before
/// opening it, because opening a device can have side effects.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)?;
    let kind = place.metadata()?.file_type();
    let what = match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("it is a folder"),
        () if kind.is_fifo() => Some("it is a FIFO"),
        () if kind.is_socket() => Some("it is a socket"),
        () => Some("it is a device"),
    };
    if let Some(what) = what {
        return Err(io::Error::other(what));
    }
    // The same file that was checked, even if its path now leads elsewhere.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        Err(io::Error::other(format!(
            "it is longer than {}",
            sandbox::limits::bytes(limit)
        )))
    } else {
        Ok(content)
    }
}

/// The same, as text.
pub(crate) fn read_small_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_small(path, limit)?)
        .map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Locks until it is dropped. A separate file, because the file itself is replaced.
pub(crate) fn lock_beside(path: &Path) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path.with_file_name(name))?;
    file.lock()?;
    Ok(file)
}

/// Replaces a file with new text, readable only by its owner.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // With mode 0600, and removed if it is not renamed into place.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

/// Creates a folder that only its owner can access.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_small_regular_files_are_read_and_nothing_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let check = |name: &str, expect: Result<&[u8], &str>| {
            let read = read_small(&at(name), 8).map_err(|error| error.to_string());
            assert_eq!(
                read.as_deref(),
                expect.map_err(str::to_owned).as_ref().copied(),
                "{name}"
            );
        };
        fs::write(at("whole"), "12345678").unwrap();
        fs::write(at("long"), "123456789").unwrap();
        fs::create_dir(at("folder")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for (link, to) in [
            ("to-whole", "whole"),
            ("to-fifo", "fifo"),
            ("to-zero", "/dev/zero"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        check("whole", Ok(b"12345678"));
        check("to-whole", Ok(b"12345678"));
        check("long", Err("it is longer than 8"));
        check("folder", Err("it is a folder"));
        check("fifo", Err("it is a FIFO"));
        check("to-fifo", Err("it is a FIFO"));
        check("to-zero", Err("it is a device"));
        check("socket", Err("it is a socket"));
    }
}
