//! The log file and its hash chain: appends lines under the lock and rotates a full file.
//!
//! Never reads the whole log, never rewrites a line, and never hides removed lines: if the file ends
//! before the last line in the head file (or of this writer), the chain continues from that line, and
//! [`crate::verify()`] finds the break. Entry type: [`ChainWriter`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nix::fcntl::OFlag;

use crate::background_sync::BackgroundSync;
use crate::error::AuditError;
use crate::line::{self, ChainLink, LineHash};
use crate::record::AuditRecord;
use crate::rotation::{self, RotationPolicy};
use crate::{head, lock, tail};

/// Used as the sandbox name in lines of the log itself.
const LOG_SANDBOX_NAME: &str = "log";

/// Most attempts to reopen a log that other writers have rotated.
const MAX_REOPENS: usize = 16;

/// The content of a line.
#[derive(Debug)]
pub(crate) struct AuditEntry {
    pub(crate) sandbox: String,
    pub(crate) record: AuditRecord,
}

impl AuditEntry {
    /// Approximate length of the line in bytes.
    pub(crate) fn size(&self) -> usize {
        let long = match &self.record {
            AuditRecord::Exec { argv, .. } => argv.iter().map(String::len).sum(),
            AuditRecord::Input { text, .. } => text.len(),
            _ => 0,
        };
        long + 512
    }
}

/// The open log file of one writer. Other writers have their own.
#[derive(Debug)]
pub(crate) struct ChainWriter {
    path: PathBuf,
    head: PathBuf,
    rotation: RotationPolicy,
    file: File,
    sync: BackgroundSync,
    written: Option<LastWrite>,
}

/// The end of this writer's last write.
#[derive(Clone, Copy, Debug)]
struct LastWrite {
    /// Length of the file; `None` if the file has been rotated since.
    len: Option<u64>,
    link: ChainLink,
}

/// Consecutive encoded lines.
struct EncodedLines {
    bytes: Vec<u8>,
    last: ChainLink,
}

impl ChainWriter {
    /// Opens the log, or creates it with mode 0600.
    pub(crate) fn open(path: &Path, rotation: RotationPolicy) -> Result<ChainWriter, AuditError> {
        let file = open_for_append(OpenOptions::new().create(true).mode(0o600), path)?;
        let mut chain = ChainWriter {
            path: path.to_owned(),
            head: head::path_of(path),
            rotation,
            file,
            sync: BackgroundSync::default(),
            written: None,
        };
        chain.locked(ChainWriter::create_head)?;
        Ok(chain)
    }

    /// Appends lines to the chain: all of them, or none.
    pub(crate) fn append(&mut self, entries: &[AuditEntry]) -> Result<(), AuditError> {
        self.locked(|chain| {
            chain.find_current_file()?;
            let mut len = chain.len()?;
            let (mut before, mut is_torn) = chain.end(len)?;
            if len >= chain.rotation.bytes {
                before = chain.rotate(before, is_torn)?;
                len = chain.len()?;
                is_torn = false;
            }
            let lines = encode_lines(before, is_torn, entries)?;
            chain.write_in_one_call(&lines.bytes, len)?;
            head::write(&chain.head, lines.last).map_err(|error| chain.append_error(error))?;
            chain.written = Some(LastWrite {
                len: Some(len + lines.bytes.len() as u64),
                link: lines.last,
            });
            chain.sync.request(&chain.file);
            Ok(())
        })
    }

    fn locked<T>(
        &mut self,
        work: impl FnOnce(&mut ChainWriter) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        lock::exclusive(&self.file, &self.path)?;
        let result = work(self);
        // `work` may have switched to another file, which it has locked too.
        let unlocked = self.file.unlock().map_err(|source| AuditError::Lock {
            path: self.path.clone(),
            source: Arc::new(source),
        });
        let value = result?;
        unlocked.map(|()| value)
    }

    /// Creates the head file of a new log, so that a missing head file is always suspicious.
    fn create_head(&mut self) -> Result<(), AuditError> {
        let found = head::read(&self.head).map_err(|error| self.reading(error))?;
        if self.len()? == 0 && found.is_none() {
            head::write(&self.head, ChainLink::START).map_err(|error| self.append_error(error))?;
        }
        Ok(())
    }

    /// Switches to the new file if another writer has rotated the log. Fails if the log was moved in any
    /// other way, because lines would silently go to a file with another name.
    fn find_current_file(&mut self) -> Result<(), AuditError> {
        for _ in 0..MAX_REOPENS {
            if is_file_at_path(&self.file, &self.path).map_err(|error| self.reading(error))? {
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
            self.switch_to(file);
            if let Some(written) = &mut self.written {
                written.len = None;
            }
        }
        Err(AuditError::Replaced {
            path: self.path.clone(),
        })
    }

    /// The last line, and whether its newline is missing.
    fn end(&self, len: u64) -> Result<(ChainLink, bool), AuditError> {
        if let Some(written) = self.written
            && written.len == Some(len)
        {
            return Ok((written.link, false));
        }
        let mine = self.written.map(|written| written.link);
        let head = head::read(&self.head).map_err(|error| self.reading(error))?;
        let tail = tail::read(&self.file, len).map_err(|error| self.reading(error))?;
        Ok(choose_predecessor(head, mine, tail))
    }

    /// Rotates the file and starts a new one, with both locked. A complete log exists under the name at
    /// any time, so a crash loses nothing.
    fn rotate(&mut self, before: ChainLink, is_torn: bool) -> Result<ChainLink, AuditError> {
        let rotating = |source| AuditError::Rotate {
            path: self.path.clone(),
            source: Arc::new(source),
        };
        if is_torn {
            (&self.file).write_all(b"\n").map_err(rotating)?;
        }
        let aside = rotation::aside(&self.path, before.seq);
        let mut kept = rotation::list_rotated_files(&self.path).map_err(rotating)?;
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
        let entry = AuditEntry {
            sandbox: LOG_SANDBOX_NAME.to_owned(),
            record: AuditRecord::Rotated {
                previous: previous.into_owned(),
                first_kept,
            },
        };
        let lines = encode_lines(before, false, &[entry])?;

        let next = rotation::next_path(&self.path);
        // A leftover of a crash never became the log.
        let _ = fs::remove_file(&next);
        let file = open_for_append(OpenOptions::new().create_new(true).mode(0o600), &next)?;
        lock::exclusive(&file, &next)?;
        (&file).write_all(&lines.bytes).map_err(rotating)?;
        self.file.sync_data().map_err(rotating)?;
        // A hard link first, so that the log's name always exists. Some file systems have no hard
        // links.
        let linked = fs::hard_link(&self.path, &aside.path);
        if linked.is_err() && !is_file_at_path(&self.file, &aside.path).map_err(rotating)? {
            fs::rename(&self.path, &aside.path).map_err(rotating)?;
        }
        fs::rename(&next, &self.path).map_err(rotating)?;
        head::write(&self.head, lines.last).map_err(rotating)?;
        self.switch_to(file);
        self.written = Some(LastWrite {
            len: Some(lines.bytes.len() as u64),
            link: lines.last,
        });
        for one in gone {
            // A file that cannot be removed is verified like the others, and retried next time.
            let _ = fs::remove_file(one.path);
        }
        Ok(lines.last)
    }

    /// Releases the old file's lock explicitly: a background sync can still have the file open. Its
    /// request must not stand in the way of one for the new file.
    fn switch_to(&mut self, locked: File) {
        let _ = self.file.unlock();
        self.sync.forget();
        self.file = locked;
    }

    /// Writes in one call, so that lines can be torn by a crash, but never interleaved.
    fn write_in_one_call(&self, bytes: &[u8], len: u64) -> Result<(), AuditError> {
        let written = loop {
            match (&self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match written {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => {
                // The disk is full. Remove the partial line. If that fails too, the next append
                // continues after the torn line.
                let _ = self.file.set_len(len);
                Err(self.append_error(io::ErrorKind::StorageFull.into()))
            }
            Err(error) => Err(self.append_error(error)),
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

    fn append_error(&self, source: io::Error) -> AuditError {
        AuditError::Append {
            path: self.path.clone(),
            source: Arc::new(source),
        }
    }
}

fn encode_lines(
    before: ChainLink,
    is_torn: bool,
    entries: &[AuditEntry],
) -> Result<EncodedLines, AuditError> {
    let mut bytes = if is_torn { vec![b'\n'] } else { Vec::new() };
    let mut last = before;
    let mut group = entries.len() as u64;
    for entry in entries {
        let line = line::write(last, Timestamp::now(), group, &entry.sandbox, &entry.record)
            .map_err(|source| AuditError::Encode {
                source: Arc::new(source),
            })?;
        last = ChainLink {
            seq: last.seq.saturating_add(1),
            hash: LineHash::of(&line),
        };
        group = 1;
        bytes.extend(line);
        bytes.push(b'\n');
    }
    Ok(EncodedLines { bytes, last })
}

/// Whether this open file is still the one at the path.
pub(crate) fn is_file_at_path(file: &File, path: &Path) -> io::Result<bool> {
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

/// Opens a regular file for reading, with further `options`. Refuses symlinks and other file types.
pub(crate) fn open_file(options: &mut OpenOptions, path: &Path) -> Result<File, AuditError> {
    let file = options
        .read(true)
        // Without O_NONBLOCK, opening a FIFO at this path would block forever.
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
/// `head` is the content of the head file, `mine` the last line of this writer, `tail` the end of the
/// log file. If they disagree about lines that were written once, the head file and this writer take
/// precedence over the log file.
fn choose_predecessor(
    head: Option<ChainLink>,
    mine: Option<ChainLink>,
    tail: Option<tail::LogTail>,
) -> (ChainLink, bool) {
    let torn = tail.as_ref().is_some_and(|tail| tail.torn);
    let record = tail.as_ref().and_then(|tail| tail.record);
    let Some(head) = head else {
        // Without a head file, removed lines cannot be detected: start a new chain here as a marker.
        let seq = [mine, record]
            .into_iter()
            .flatten()
            .map(|link| link.seq)
            .max()
            .unwrap_or(0);
        return (
            ChainLink {
                seq,
                hash: LineHash::START,
            },
            torn,
        );
    };
    let known = mine.filter(|mine| mine.seq > head.seq).unwrap_or(head);
    let Some(tail) = tail else {
        return (known, torn);
    };
    // The last record is older than the known one, or was changed.
    let lost = record.is_some_and(|record| {
        record.seq < known.seq || (record.seq == known.seq && record.hash != known.hash)
    });
    match tail.last {
        Some(last) if !lost => (
            ChainLink {
                seq: record.map_or(known.seq, |record| record.seq),
                hash: last,
            },
            torn,
        ),
        _ => (known, torn),
    }
}
