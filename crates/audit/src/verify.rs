//! Verifies the integrity of a log and locates problems.
//!
//! Streams the files in constant memory, so that a log of any size can be checked. Never changes
//! them. Entry: [`verify()`].

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::chain::{is_file_at_path, open_file};
use crate::error::AuditError;
use crate::finding::{AuditProblem, AuditReport};
use crate::line::{self, ChainLink, LineHash, MAX_LINE_BYTES, ParsedLine};
use crate::{head, lock, rotation};

/// Checks every line of the log at `path` and of its rotated files, oldest first, and the last line
/// against the head file.
///
/// Writers can continue meanwhile. Lines that they add after the start are not checked.
pub fn verify(path: impl AsRef<Path>) -> Result<AuditReport, AuditError> {
    let path = path.as_ref();
    let reading = |source| AuditError::Read {
        path: path.to_owned(),
        source: Arc::new(source),
    };
    let snapshot = LogSnapshot::take(path)?;
    let mut check = ChainCheck::new(snapshot.head, snapshot.first_kept);
    check.report.files_aside = snapshot.aside.len() as u64;
    for (name, file) in snapshot.aside {
        check.begin_file(Some(name));
        check.read(file).map_err(reading)?;
    }
    check.begin_file(None);
    check
        .read(snapshot.file.take(snapshot.len))
        .map_err(reading)?;
    Ok(check.end())
}

/// The state of a log between two appends. Its content does not change.
struct LogSnapshot {
    /// Rotated files with their names.
    aside: Vec<(String, File)>,
    file: File,
    len: u64,
    head: Option<ChainLink>,
    /// The first record that the last rotation kept.
    first_kept: Option<u64>,
}

impl LogSnapshot {
    fn take(path: &Path) -> Result<LogSnapshot, AuditError> {
        loop {
            let file = open_file(&mut OpenOptions::new(), path)?;
            lock::shared(&file, path)?;
            // The lock is released on success, or when the file is closed.
            let taken = LogSnapshot::of_locked(path, file).map_err(|source| AuditError::Read {
                path: path.to_owned(),
                source: Arc::new(source),
            })?;
            if let Some(snapshot) = taken {
                return Ok(snapshot);
            }
        }
    }

    /// `None` if the file was rotated while waiting for the lock.
    fn of_locked(path: &Path, file: File) -> io::Result<Option<LogSnapshot>> {
        if !is_file_at_path(&file, path)? {
            return Ok(None);
        }
        let mut aside = Vec::new();
        for one in rotation::list_rotated_files(path)? {
            let name = one.path.file_name().unwrap_or_default();
            let opened = File::open(&one.path)?;
            // A crash during rotation can leave a second name of the log itself.
            if !is_file_at_path(&opened, path)? {
                aside.push((name.to_string_lossy().into_owned(), opened));
            }
        }
        let snapshot = LogSnapshot {
            aside,
            len: file.metadata()?.len(),
            head: head::read(&head::path_of(path))?,
            first_kept: rotation::first_kept(&file)?,
            file,
        };
        snapshot.file.unlock()?;
        Ok(Some(snapshot))
    }
}

/// A line: its hash, and its fields if it is a record.
struct ReadLine {
    hash: LineHash,
    parsed: Option<ParsedLine>,
    ended: bool,
}

struct LineReader<R> {
    reader: R,
}

impl<R: BufRead> LineReader<R> {
    fn next(&mut self) -> io::Result<Option<ReadLine>> {
        let mut hasher = Sha256::new();
        let mut text = Vec::new();
        let mut length = 0;
        let mut ended = false;
        while !ended {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            hasher.update(part);
            length += part.len();
            // A line that is too long is hashed completely, but not stored.
            if length <= MAX_LINE_BYTES {
                text.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            ended = end.is_some();
            self.reader.consume(used);
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        let parsed = if length <= MAX_LINE_BYTES {
            line::parse(&text)
        } else {
            None
        };
        Ok(Some(ReadLine {
            hash: LineHash::finish(hasher),
            parsed,
            ended,
        }))
    }
}

/// The state of the check.
struct ChainCheck {
    report: AuditReport,
    head: Option<ChainLink>,
    first_kept: Option<u64>,
    /// The current file, if it is a rotated one.
    file: Option<String>,
    /// Number of the current line in that file.
    number: u64,
    /// The hash of the previous line.
    before: LineHash,
    /// The last line that is a record.
    record: ChainLink,
    /// Set if the previous line is not a record: the problem depends on the next line. It may be the
    /// last line of the previous file.
    unread: Option<(Option<String>, u64)>,
    /// How many records the head file may be behind after a crash.
    tolerated: u64,
}

impl ChainCheck {
    fn new(head: Option<ChainLink>, first_kept: Option<u64>) -> ChainCheck {
        ChainCheck {
            report: AuditReport::new(),
            head,
            first_kept,
            file: None,
            number: 0,
            before: LineHash::START,
            record: ChainLink::START,
            unread: None,
            tolerated: 1,
        }
    }

    fn begin_file(&mut self, name: Option<String>) {
        self.file = name;
        self.number = 0;
    }

    fn read(&mut self, file: impl Read) -> io::Result<()> {
        let mut lines = LineReader {
            reader: BufReader::with_capacity(64 << 10, file),
        };
        while let Some(read) = lines.next()? {
            self.line(&read);
        }
        Ok(())
    }

    fn add(&mut self, line: u64, problem: AuditProblem) {
        self.report.add(self.file.as_deref(), line, problem);
    }

    fn line(&mut self, read: &ReadLine) {
        self.report.lines += 1;
        self.number += 1;
        let number = self.number;
        let before = self.unread.take();
        if let Some(parsed) = &read.parsed {
            let joined = parsed.prev == self.before;
            if let Some((file, line)) = before {
                let problem = if joined {
                    AuditProblem::CutOff
                } else {
                    AuditProblem::NotARecord
                };
                self.report.add(file.as_deref(), line, problem);
            }
            if let Some(problem) = self.check_record(parsed, joined) {
                self.add(number, problem);
            }
            if self
                .head
                .is_some_and(|head| parsed.seq == head.seq.saturating_add(1))
            {
                self.tolerated = parsed.group;
            }
            // Continue from this line even after a problem, so that one change is reported once.
            self.record = ChainLink {
                seq: parsed.seq,
                hash: read.hash,
            };
        } else {
            if let Some((file, line)) = before {
                self.report
                    .add(file.as_deref(), line, AuditProblem::NotARecord);
            }
            self.unread = Some((self.file.clone(), number));
        }
        if !read.ended {
            self.add(number, AuditProblem::NoNewline);
        }
        self.before = read.hash;
    }

    fn check_record(&mut self, parsed: &ParsedLine, joined: bool) -> Option<AuditProblem> {
        let expected = self.record.seq.saturating_add(1);
        if self.report.lines == 1 {
            return self.check_first_record(parsed, joined);
        }
        if !joined && parsed.prev == LineHash::START {
            return Some(match parsed.seq {
                // The original first line, with lines inserted or moved before it.
                1 => AuditProblem::Broken,
                _ => AuditProblem::HeadWasMissing,
            });
        }
        if !joined {
            return Some(AuditProblem::Broken);
        }
        let found = parsed.seq;
        (found != expected).then_some(AuditProblem::Number { expected, found })
    }

    /// The first existing line: the very first, or the first one that rotation kept.
    fn check_first_record(&mut self, parsed: &ParsedLine, joined: bool) -> Option<AuditProblem> {
        match (joined, parsed.seq, self.first_kept) {
            (true, 1, _) => None,
            (true, _, _) => Some(AuditProblem::HeadWasMissing),
            (false, 1, _) => Some(AuditProblem::Broken),
            // A file that rotation could not remove may still exist.
            (false, seq, Some(kept)) if kept > 1 && seq <= kept => {
                self.report.rotated_away = seq.saturating_sub(1);
                None
            }
            (false, seq, Some(kept)) => Some(AuditProblem::FilesRemoved {
                records: seq.saturating_sub(kept),
            }),
            (false, _, None) => Some(AuditProblem::NotTheFirst),
        }
    }

    fn end(mut self) -> AuditReport {
        let lines = self.number;
        if let Some((file, line)) = self.unread.take() {
            self.report
                .add(file.as_deref(), line, AuditProblem::NotARecord);
        }
        let last = self.record;
        match self.head {
            None => self.add(lines + 1, AuditProblem::NoHead),
            Some(head) if head.seq > last.seq => {
                let records = head.seq - last.seq;
                self.add(lines + 1, AuditProblem::EndRemoved { records });
            }
            Some(head) if head.seq == last.seq && head.hash != last.hash => {
                self.add(lines, AuditProblem::EndChanged);
            }
            // A crash between the writes of log and head file leaves at most as many lines as were
            // written together.
            Some(head) if last.seq - head.seq > self.tolerated => {
                let records = last.seq - head.seq;
                self.add(lines, AuditProblem::HeadBehind { records });
            }
            Some(_) => {}
        }
        self.report.last = self.before.to_string();
        self.report
    }
}
