//! The log's file and its chain: appends lines under the lock, puts a full file aside.
//!
//! Never reads the log whole, never rewrites a line, and never hides that lines are gone: when the
//! file holds less than the head file (or this writer) remembers, the chain goes on from what is
//! remembered, and the break stays for [`crate::verify()`] to find. Entry type: [`Chain`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nix::fcntl::OFlag;

use crate::error::AuditError;
use crate::line::{self, Hash, Link};
use crate::record::Record;
use crate::rotation::{self, Rotation};
use crate::{head, lock, tail};

/// In the place of a sandbox's name, for lines of the log's own.
const LOG: &str = "log";

/// How often a log that others put aside is looked for under its name.
const MAX_REOPENS: usize = 16;

/// What a line says.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) sandbox: String,
    pub(crate) record: Record,
}

impl Entry {
    /// About how many bytes its line has.
    pub(crate) fn size(&self) -> usize {
        let long = match &self.record {
            Record::Exec { argv, .. } => argv.iter().map(String::len).sum(),
            Record::Input { text, .. } => text.len(),
            _ => 0,
        };
        long + 512
    }
}

/// The file that is written to. One writer has it; others have their own.
#[derive(Debug)]
pub(crate) struct Chain {
    path: PathBuf,
    head: PathBuf,
    rotation: Rotation,
    file: File,
    written: Option<Written>,
}

/// Where this writer's last write ended.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Of the file; `None` for a file that was put aside since.
    len: Option<u64>,
    link: Link,
}

/// Lines that follow each other, ready to be written.
struct Lines {
    bytes: Vec<u8>,
    last: Link,
}

impl Chain {
    /// Opens the log, creating it (mode 0600) where it is missing.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> Result<Chain, AuditError> {
        let file = open_for_append(OpenOptions::new().create(true).mode(0o600), path)?;
        let mut chain = Chain {
            path: path.to_owned(),
            head: head::path_of(path),
            rotation,
            file,
            written: None,
        };
        chain.locked(Chain::create_head)?;
        Ok(chain)
    }

    /// Appends lines as the next links of the chain: all of them, or none.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), AuditError> {
        self.locked(|chain| {
            chain.find_current_file()?;
            let mut len = chain.len()?;
            let (mut before, mut is_torn) = chain.end(len)?;
            if len >= chain.rotation.bytes {
                before = chain.rotate(before, is_torn)?;
                len = chain.len()?;
                is_torn = false;
            }
            let lines = encode(before, is_torn, entries)?;
            chain.write_once(&lines.bytes, len)?;
            head::write(&chain.head, lines.last).map_err(|error| chain.appending(error))?;
            chain.written = Some(Written {
                len: Some(len + lines.bytes.len() as u64),
                link: lines.last,
            });
            Ok(())
        })
    }

    /// Waits until what was written would survive a loss of power.
    pub(crate) fn sync(&self) -> Result<(), AuditError> {
        self.file.sync_data().map_err(|error| self.appending(error))
    }

    fn locked<T>(
        &mut self,
        work: impl FnOnce(&mut Chain) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        lock::exclusive(&self.file, &self.path)?;
        let result = work(self);
        // The work may have changed to another file, which it has locked, too.
        let unlocked = self.file.unlock().map_err(|source| AuditError::Lock {
            path: self.path.clone(),
            source: Arc::new(source),
        });
        let value = result?;
        unlocked.map(|()| value)
    }

    /// A log has a head from the beginning, so that a missing one always means something.
    fn create_head(&mut self) -> Result<(), AuditError> {
        let found = head::read(&self.head).map_err(|error| self.reading(error))?;
        if self.len()? == 0 && found.is_none() {
            head::write(&self.head, Link::START).map_err(|error| self.appending(error))?;
        }
        Ok(())
    }

    /// Goes on with the new file where another writer has put the old one aside. A log that was
    /// moved away in any other way must not go on unseen under another name.
    fn find_current_file(&mut self) -> Result<(), AuditError> {
        for _ in 0..MAX_REOPENS {
            if is_in_place(&self.file, &self.path).map_err(|error| self.reading(error))? {
                return Ok(());
            }
            let file = match open_for_append(&mut OpenOptions::new(), &self.path) {
                Ok(file) => file,
                Err(AuditError::Open { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    break;
                }
                Err(error) => return Err(error),
            };
            if rotation::first_kept(&file)
                .map_err(|error| self.reading(error))?
                .is_none()
            {
                break;
            }
            lock::exclusive(&file, &self.path)?;
            // Closing the old file gives its lock back.
            self.file = file;
            if let Some(written) = &mut self.written {
                written.len = None;
            }
        }
        Err(AuditError::Replaced {
            path: self.path.clone(),
        })
    }

    /// The line to follow, and whether a newline is missing first.
    fn end(&self, len: u64) -> Result<(Link, bool), AuditError> {
        if let Some(written) = self.written
            && written.len == Some(len)
        {
            return Ok((written.link, false));
        }
        let mine = self.written.map(|written| written.link);
        let head = head::read(&self.head).map_err(|error| self.reading(error))?;
        let tail = tail::read(&self.file, len).map_err(|error| self.reading(error))?;
        Ok(follow(head, mine, tail))
    }

    /// Puts the file aside and begins a new one. Both are locked meanwhile. At every moment there
    /// is a whole log under the name, so a crash in between loses nothing.
    fn rotate(&mut self, before: Link, is_torn: bool) -> Result<Link, AuditError> {
        let rotating = |source| AuditError::Rotate {
            path: self.path.clone(),
            source: Arc::new(source),
        };
        if is_torn {
            (&self.file).write_all(b"\n").map_err(rotating)?;
        }
        let aside = rotation::aside(&self.path, before.seq);
        let mut kept = rotation::list(&self.path).map_err(rotating)?;
        kept.retain(|one| one.last_seq < before.seq);
        let surplus = (kept.len() + 1).saturating_sub(self.rotation.keep.max(1));
        let gone: Vec<_> = kept.drain(..surplus).collect();
        let first_kept = match gone.last() {
            Some(last_gone) => last_gone.last_seq.saturating_add(1),
            None => rotation::first_kept(&self.file)
                .map_err(rotating)?
                .unwrap_or(1),
        };
        let previous = aside.path.file_name().unwrap_or_default().to_string_lossy();
        let entry = Entry {
            sandbox: LOG.to_owned(),
            record: Record::Rotated {
                previous: previous.into_owned(),
                first_kept,
            },
        };
        let lines = encode(before, false, &[entry])?;

        let next = rotation::next_path(&self.path);
        // One that is left over from a crash never had the log's name.
        let _ = fs::remove_file(&next);
        let file = open_for_append(OpenOptions::new().create_new(true).mode(0o600), &next)?;
        lock::exclusive(&file, &next)?;
        (&file).write_all(&lines.bytes).map_err(rotating)?;
        self.sync()?;
        // With a second name first, the log is never without a file; some file systems have no
        // second names.
        let linked = fs::hard_link(&self.path, &aside.path);
        if linked.is_err() && !is_in_place(&self.file, &aside.path).map_err(rotating)? {
            fs::rename(&self.path, &aside.path).map_err(rotating)?;
        }
        fs::rename(&next, &self.path).map_err(rotating)?;
        head::write(&self.head, lines.last).map_err(rotating)?;
        self.file = file;
        self.written = Some(Written {
            len: Some(lines.bytes.len() as u64),
            link: lines.last,
        });
        for one in gone {
            // What stays is checked like the rest, and tried again next time.
            let _ = fs::remove_file(one.path);
        }
        Ok(lines.last)
    }

    /// One write call, so that a reader or a crash sees lines whole or cut, never interleaved.
    fn write_once(&self, bytes: &[u8], len: u64) -> Result<(), AuditError> {
        let written = loop {
            match (&self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match written {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => {
                // The disk is full. Take the half line back; if that fails too, the next append
                // finds a torn line and goes on over it.
                let _ = self.file.set_len(len);
                Err(self.appending(io::ErrorKind::StorageFull.into()))
            }
            Err(error) => Err(self.appending(error)),
        }
    }

    fn len(&self) -> Result<u64, AuditError> {
        self.file
            .metadata()
            .map(|data| data.len())
            .map_err(|error| self.reading(error))
    }

    fn reading(&self, source: io::Error) -> AuditError {
        AuditError::Read {
            path: self.path.clone(),
            source: Arc::new(source),
        }
    }

    fn appending(&self, source: io::Error) -> AuditError {
        AuditError::Append {
            path: self.path.clone(),
            source: Arc::new(source),
        }
    }
}

fn encode(before: Link, is_torn: bool, entries: &[Entry]) -> Result<Lines, AuditError> {
    let mut bytes = if is_torn { vec![b'\n'] } else { Vec::new() };
    let mut last = before;
    let mut group = entries.len() as u64;
    for entry in entries {
        let line = line::write(last, Timestamp::now(), group, &entry.sandbox, &entry.record)
            .map_err(|source| AuditError::Encode {
                source: Arc::new(source),
            })?;
        last = Link {
            seq: last.seq.saturating_add(1),
            hash: Hash::of(&line),
        };
        group = 1;
        bytes.extend(line);
        bytes.push(b'\n');
    }
    Ok(Lines { bytes, last })
}

/// Whether `path` is this open file.
pub(crate) fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn open_for_append(options: &mut OpenOptions, path: &Path) -> Result<File, AuditError> {
    open_file(options.append(true), path)
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
            source: Arc::new(source),
        })?;
    match file.metadata() {
        Ok(data) if data.is_file() => Ok(file),
        Ok(_) => Err(AuditError::NotAFile {
            path: path.to_owned(),
        }),
        Err(source) => Err(AuditError::Read {
            path: path.to_owned(),
            source: Arc::new(source),
        }),
    }
}

/// Decides which line the next one follows.
///
/// `head` is what the head file says, `mine` what this writer wrote last, `tail` what the file
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
