//! The head file beside the log. It stores the number and hash of the last line, so that lines removed
//! at the end are detected. It has a fixed size and is rewritten in place.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::line::{ChainLink, LineHash};

/// Twenty digits (enough for any `u64`), a space, 64 hex digits and a newline.
const HEAD_FILE_LEN: usize = 20 + 1 + 64 + 1;

/// `<log>.head`.
pub(crate) fn path_of(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".head");
    PathBuf::from(name)
}

/// Reads the head file; `None` if it is missing or invalid.
pub(crate) fn read(path: &Path) -> io::Result<Option<ChainLink>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::with_capacity(HEAD_FILE_LEN);
    file.take(HEAD_FILE_LEN as u64 + 1).read_to_end(&mut text)?;
    Ok(parse(&text))
}

/// Rewrites the head file in one call.
pub(crate) fn write(path: &Path, link: ChainLink) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    file.write_all(format!("{:020} {}\n", link.seq, link.hash).as_bytes())?;
    // A longer file was not written by this code.
    if file.metadata()?.len() != HEAD_FILE_LEN as u64 {
        file.set_len(HEAD_FILE_LEN as u64)?;
    }
    Ok(())
}

fn parse(text: &[u8]) -> Option<ChainLink> {
    if text.len() != HEAD_FILE_LEN {
        return None;
    }
    let (seq, hash) = std::str::from_utf8(text)
        .ok()?
        .strip_suffix('\n')?
        .split_once(' ')?;
    if seq.len() != 20 || !seq.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(ChainLink {
        seq: seq.parse().ok()?,
        hash: LineHash::parse(hash)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_heals() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_of(&dir.path().join("audit.log"));
        assert!(path.ends_with("audit.log.head"));
        assert_eq!(read(&path).unwrap(), None);

        std::fs::write(&path, "x".repeat(500)).unwrap();
        assert_eq!(read(&path).unwrap(), None);

        let link = ChainLink {
            seq: u64::MAX,
            hash: LineHash::of(b"line"),
        };
        write(&path, link).unwrap();
        assert_eq!(read(&path).unwrap(), Some(link));
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            HEAD_FILE_LEN as u64
        );
    }

    #[test]
    fn a_symlink_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("target"), dir.path().join("log.head"));
        std::fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(write(&path, ChainLink::START).is_err());
        assert!(read(&path).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"keep");
    }
}
