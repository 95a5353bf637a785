//! Appends to the log. Any number of handles, threads and processes may share one file.
//!
//! Never reads the log whole, never rewrites a line, and never hides that lines are gone: when the
//! file holds less than the head file (or this handle) remembers, the chain goes on from what is
//! remembered, and the break stays for [`crate::verify()`] to find. Entry type: [`AuditLog`].

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use nix::fcntl::OFlag;

use crate::error::AuditError;
use crate::line::{self, Hash, Link};
use crate::record::Record;
use crate::{head, tail};

/// A handle for appending. Clones share it.
#[derive(Clone, Debug)]
pub struct AuditLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    head: PathBuf,
    file: File,
    // The lock of the file keeps other handles out, this one the clones of the same handle: they
    // share one open file, for which the file's lock counts as held.
    written: Mutex<Option<Written>>,
}

/// Where this handle's last write ended.
#[derive(Clone, Copy, Debug)]
struct Written {
    len: u64,
    link: Link,
}

impl AuditLog {
    /// Opens the log, creating it (mode 0600) and its folders (0700) where they are missing.
    pub fn open(path: impl Into<PathBuf>) -> Result<AuditLog, AuditError> {
        let path = path.into();
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|source| AuditError::CreateFolder {
                    path: path.clone(),
                    source,
                })?;
        }
        let file = open_file(
            OpenOptions::new().append(true).create(true).mode(0o600),
            &path,
        )?;
        let head = head::path_of(&path);
        let inner = Inner {
            path,
            head,
            file,
            written: Mutex::new(None),
        };
        inner.locked(|| inner.create_head())?;
        Ok(AuditLog {
            inner: Arc::new(inner),
        })
    }

    /// Appends one line, as the next link of the chain.
    pub fn append(&self, sandbox: &str, record: &Record) -> Result<(), AuditError> {
        let inner = &*self.inner;
        // A panic elsewhere leaves at worst an old value behind, which the next append checks
        // against the file anyway.
        let mut written = inner.written.lock().unwrap_or_else(PoisonError::into_inner);
        *written = Some(inner.locked(|| inner.append(*written, sandbox, record))?);
        Ok(())
    }

    /// The file that is written to.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

impl Inner {
    fn locked<T>(&self, work: impl FnOnce() -> Result<T, AuditError>) -> Result<T, AuditError> {
        let lock = |source| AuditError::Lock {
            path: self.path.clone(),
            source,
        };
        self.file.lock().map_err(lock)?;
        let result = work();
        let unlocked = self.file.unlock().map_err(lock);
        let value = result?;
        unlocked.map(|()| value)
    }

    /// A log has a head from the beginning, so that a missing one always means something.
    fn create_head(&self) -> Result<(), AuditError> {
        if self.len()? == 0 && head::read(&self.head).map_err(self.reading())?.is_none() {
            head::write(&self.head, Link::START).map_err(self.appending())?;
        }
        Ok(())
    }

    fn append(
        &self,
        written: Option<Written>,
        sandbox: &str,
        record: &Record,
    ) -> Result<Written, AuditError> {
        self.check_in_place()?;
        let len = self.len()?;
        let (before, torn) = match written {
            Some(written) if written.len == len => (written.link, false),
            _ => self.find_end(len, written.map(|written| written.link))?,
        };

        let mut bytes = if torn { vec![b'\n'] } else { Vec::new() };
        let line = line::write(before, Timestamp::now(), sandbox, record)
            .map_err(|source| AuditError::Encode { source })?;
        let link = Link {
            seq: before.seq.saturating_add(1),
            hash: Hash::of(&line),
        };
        bytes.extend(line);
        bytes.push(b'\n');

        self.write_once(&bytes, len).map_err(self.appending())?;
        head::write(&self.head, link).map_err(self.appending())?;
        Ok(Written {
            len: len + bytes.len() as u64,
            link,
        })
    }

    /// One write call, so that a reader or a crash sees the line whole or cut, never interleaved.
    fn write_once(&self, bytes: &[u8], len: u64) -> io::Result<()> {
        let count = loop {
            match (&self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        if count < bytes.len() {
            // The disk is full. Take the half line back; if that fails too, the next append
            // finds a torn line and goes on over it.
            let _ = self.file.set_len(len);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// The line to follow, and whether a newline is missing first.
    fn find_end(&self, len: u64, mine: Option<Link>) -> Result<(Link, bool), AuditError> {
        let head = head::read(&self.head).map_err(self.reading())?;
        let tail = tail::read(&self.file, len).map_err(self.reading())?;
        Ok(follow(head, mine, tail))
    }

    /// A log that was moved away must not go on unseen under another name.
    fn check_in_place(&self) -> Result<(), AuditError> {
        let opened = self.file.metadata().map_err(self.reading())?;
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (opened.dev(), opened.ino()) => Ok(()),
            Ok(_) => Err(AuditError::Replaced {
                path: self.path.clone(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(AuditError::Replaced {
                path: self.path.clone(),
            }),
            Err(source) => Err(AuditError::Read {
                path: self.path.clone(),
                source,
            }),
        }
    }

    fn len(&self) -> Result<u64, AuditError> {
        self.file
            .metadata()
            .map(|data| data.len())
            .map_err(self.reading())
    }

    fn reading(&self) -> impl FnOnce(io::Error) -> AuditError {
        |source| AuditError::Read {
            path: self.path.clone(),
            source,
        }
    }

    fn appending(&self) -> impl FnOnce(io::Error) -> AuditError {
        |source| AuditError::Append {
            path: self.path.clone(),
            source,
        }
    }
}

/// Opens for reading and whatever `options` add; never through a symlink, never anything but a
/// regular file.
pub(crate) fn open_file(options: &mut OpenOptions, path: &Path) -> Result<File, AuditError> {
    let file = options
        .read(true)
        // Without O_NONBLOCK a FIFO in the place of the log would block for ever.
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(|source| AuditError::Open {
            path: path.to_owned(),
            source,
        })?;
    match file.metadata() {
        Ok(data) if data.is_file() => Ok(file),
        Ok(_) => Err(AuditError::NotAFile {
            path: path.to_owned(),
        }),
        Err(source) => Err(AuditError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Decides which line the next one follows.
///
/// `head` is what the head file says, `mine` what this handle wrote last, `tail` what the file
/// ends in. Where they disagree about lines that were once written, memory wins over the file.
fn follow(head: Option<Link>, mine: Option<Link>, tail: Option<tail::Tail>) -> (Link, bool) {
    let torn = tail.as_ref().is_some_and(|tail| tail.torn);
    let record = tail.as_ref().and_then(|tail| tail.record);
    let Some(head) = head else {
        // Without a head nobody knows whether the end is whole: start a new chain here, as a mark.
        let seq = [mine, record]
            .into_iter()
            .flatten()
            .map(|link| link.seq)
            .max()
            .unwrap_or(0);
        return (
            Link {
                seq,
                hash: Hash::START,
            },
            torn,
        );
    };
    let known = mine.filter(|mine| mine.seq > head.seq).unwrap_or(head);
    let Some(tail) = tail else {
        return (known, torn);
    };
    // The last record is older than the known one, or is not what it was.
    let lost = record.is_some_and(|record| {
        record.seq < known.seq || (record.seq == known.seq && record.hash != known.hash)
    });
    match tail.last {
        Some(last) if !lost => (
            Link {
                seq: record.map_or(known.seq, |record| record.seq),
                hash: last,
            },
            torn,
        ),
        _ => (known, torn),
    }
}
