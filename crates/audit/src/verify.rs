//! Proves that a log is whole, or says where it is not.
//!
//! Streams the file in constant memory, so that a log of any size can be checked, and never
//! changes it. Entry: [`verify()`].

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::AuditError;
use crate::finding::{Problem, Report};
use crate::head;
use crate::line::{self, Hash, Link, MAX_LINE, Parsed};
use crate::log::open_file;

/// Checks every line of the log at `path`, and its end against the head file.
///
/// Writers may go on meanwhile; what they add after the start is not looked at.
pub fn verify(path: impl AsRef<Path>) -> Result<Report, AuditError> {
    let path = path.as_ref();
    let file = open_file(&mut OpenOptions::new(), path)?;
    let reading = |source| AuditError::Read {
        path: path.to_owned(),
        source,
    };

    // Length and head are taken together, between two appends; the lines before never change.
    file.lock_shared().map_err(|source| AuditError::Lock {
        path: path.to_owned(),
        source,
    })?;
    let taken = snapshot(&file, path);
    file.unlock().map_err(|source| AuditError::Lock {
        path: path.to_owned(),
        source,
    })?;
    let (len, head) = taken.map_err(reading)?;

    let mut check = Check::new();
    let mut lines = Lines {
        reader: BufReader::with_capacity(64 << 10, file.take(len)),
    };
    while let Some(read) = lines.next().map_err(reading)? {
        check.line(read);
    }
    Ok(check.end(head))
}

fn snapshot(file: &File, path: &Path) -> io::Result<(u64, Option<Link>)> {
    Ok((file.metadata()?.len(), head::read(&head::path_of(path))?))
}

/// A line as read: its hash, and its content if it is a record.
struct ReadLine {
    hash: Hash,
    parsed: Option<Parsed>,
    ended: bool,
}

struct Lines<R> {
    reader: R,
}

impl<R: BufRead> Lines<R> {
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
            // A line that is too long is hashed to its end, but not kept.
            if length <= MAX_LINE {
                text.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            ended = end.is_some();
            self.reader.consume(used);
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        let parsed = if length <= MAX_LINE {
            line::parse(&text)
        } else {
            None
        };
        Ok(Some(ReadLine {
            hash: Hash::finish(hasher),
            parsed,
            ended,
        }))
    }
}

/// The chain as far as it was followed.
struct Check {
    report: Report,
    /// The hash of the line before.
    before: Hash,
    /// The last line that is a record.
    record: Link,
    /// The line before is not a record; what that means depends on the line after it.
    unread: bool,
}

impl Check {
    fn new() -> Check {
        Check {
            report: Report::new(),
            before: Hash::START,
            record: Link::START,
            unread: false,
        }
    }

    fn line(&mut self, read: ReadLine) {
        self.report.lines += 1;
        let number = self.report.lines;
        if let Some(parsed) = read.parsed {
            let joined = parsed.prev == self.before;
            if std::mem::take(&mut self.unread) {
                let problem = if joined {
                    Problem::CutOff
                } else {
                    Problem::NotARecord
                };
                self.report.add(number - 1, problem);
            }
            if let Some(problem) = self.judge(number, &parsed, joined) {
                self.report.add(number, problem);
            }
            // Whatever was wrong, go on from here: one change is found once.
            self.record = Link {
                seq: parsed.seq,
                hash: read.hash,
            };
        } else {
            if self.unread {
                self.report.add(number - 1, Problem::NotARecord);
            }
            self.unread = true;
        }
        if !read.ended {
            self.report.add(number, Problem::NoNewline);
        }
        self.before = read.hash;
    }

    fn judge(&self, number: u64, parsed: &Parsed, joined: bool) -> Option<Problem> {
        let expected = self.record.seq.saturating_add(1);
        if number == 1 {
            return match (joined, parsed.seq) {
                (true, 1) => None,
                (true, _) => Some(Problem::HeadWasMissing),
                (false, 1) => Some(Problem::Broken),
                (false, _) => Some(Problem::NotTheFirst),
            };
        }
        if !joined && parsed.prev == Hash::START {
            return Some(match parsed.seq {
                // The old first line, with something put in or moved before it.
                1 => Problem::Broken,
                _ => Problem::HeadWasMissing,
            });
        }
        if !joined {
            return Some(Problem::Broken);
        }
        let found = parsed.seq;
        (found != expected).then_some(Problem::Number { expected, found })
    }

    fn end(mut self, head: Option<Link>) -> Report {
        let lines = self.report.lines;
        if self.unread {
            self.report.add(lines, Problem::NotARecord);
        }
        let last = self.record;
        match head {
            None => self.report.add(lines + 1, Problem::NoHead),
            Some(head) if head.seq > last.seq => {
                let records = head.seq - last.seq;
                self.report.add(lines + 1, Problem::EndRemoved { records });
            }
            Some(head) if head.seq == last.seq && head.hash != last.hash => {
                self.report.add(lines, Problem::EndChanged);
            }
            // One line ahead of the head is what a crash between the two writes leaves behind.
            Some(head) if last.seq - head.seq > 1 => {
                self.report.add(
                    lines,
                    Problem::HeadBehind {
                        records: last.seq - head.seq,
                    },
                );
            }
            Some(_) => {}
        }
        self.report.last = self.before.to_string();
        self.report
    }
}
