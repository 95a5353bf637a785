//! The findings of a verification, with texts for users. Never reads a file.
//!
//! Entry type: [`AuditReport`].

use std::fmt;

use crate::line::LineHash;

/// Further findings are only counted, so that a corrupt file cannot fill the memory.
const MAX_FINDINGS: usize = 1000;

/// The result of [`crate::verify()`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReport {
    /// Number of lines in the log, including rotated files.
    pub lines: u64,
    /// Number of rotated files that still exist.
    pub files_aside: u64,
    /// Number of records that were removed by rotation.
    pub rotated_away: u64,
    /// Problems in the order of the lines; empty for an intact log.
    pub findings: Vec<AuditFinding>,
    /// Number of findings that are not in the list.
    pub unlisted: u64,
    /// The hash of the last line. It covers the whole log: stored elsewhere, it can show later whether
    /// these lines are unchanged.
    pub last: String,
}

impl AuditReport {
    pub(crate) fn new() -> AuditReport {
        let last = LineHash::START.to_string();
        AuditReport {
            lines: 0,
            files_aside: 0,
            rotated_away: 0,
            findings: Vec::new(),
            unlisted: 0,
            last,
        }
    }

    /// Whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn add(&mut self, file: Option<&str>, line: u64, problem: AuditProblem) {
        if self.findings.len() < MAX_FINDINGS {
            let file = file.map(str::to_owned);
            self.findings.push(AuditFinding {
                file,
                line,
                problem,
            });
        } else {
            self.unlisted += 1;
        }
    }
}

/// A problem and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFinding {
    /// The name of the file, if it is a rotated file.
    pub file: Option<String>,
    /// The line, counted from 1; one past the end for lines that are missing there.
    pub line: u64,
    pub problem: AuditProblem,
}

/// A problem with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditProblem {
    /// The line is not a record, and the next line does not follow it in the chain.
    NotARecord,
    /// The line is not a record, but the next line follows it in the chain: a write was torn.
    CutOff,
    /// The last line has no newline.
    NoNewline,
    /// The first line has a predecessor.
    NotTheFirst,
    /// Rotated files that should exist are missing.
    FilesRemoved {
        /// Number of records in them.
        records: u64,
    },
    /// The previous line is not the one that this line was written after.
    Broken,
    /// The line was written while the head file was missing.
    HeadWasMissing,
    /// The line's number is not the next one.
    Number {
        /// The next number.
        expected: u64,
        /// The number of the line.
        found: u64,
    },
    /// The head file is missing or unreadable.
    NoHead,
    /// The head file contains a later record than the last line.
    EndRemoved {
        /// How many.
        records: u64,
    },
    /// The last record differs from the one in the head file.
    EndChanged,
    /// There are lines after the one in the head file.
    HeadBehind {
        /// How many.
        records: u64,
    },
}

impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        if let Some(file) = &self.file {
            write!(f, "{file} ")?;
        }
        write!(f, "line {line}: ")?;
        match &self.problem {
            AuditProblem::NotARecord => {
                f.write_str("is not a record: it was changed, cut off or inserted")
            }
            AuditProblem::CutOff => f.write_str(
                "is not a complete record, but the chain continues after it: a write was cut off \
                 here, for example by a power failure",
            ),
            AuditProblem::NoNewline => f.write_str(
                "ends without a newline: the last write was cut off, or bytes were removed",
            ),
            AuditProblem::NotTheFirst => {
                f.write_str("is not the beginning of a log: lines before it were removed")
            }
            AuditProblem::FilesRemoved { records } => write!(
                f,
                "{records} records before it are gone: files of the log that should still be there \
                 were removed"
            ),
            AuditProblem::Broken if line == 1 => {
                f.write_str("was changed, or lines before it removed")
            }
            AuditProblem::Broken => write!(
                f,
                "hash of the line before does not match: line {} or {line} was changed, removed \
                 or moved",
                line - 1
            ),
            AuditProblem::HeadWasMissing => f.write_str(
                "the chain restarts: the head file was missing when this line was written, so \
                 lines before it may have been removed",
            ),
            AuditProblem::Number { expected, found } => {
                write!(f, "has the number {found} where {expected} is next")
            }
            AuditProblem::NoHead => f.write_str(
                "the head file is missing or unreadable: lines removed at the end cannot be \
                 detected",
            ),
            AuditProblem::EndRemoved { records: 1 } => {
                f.write_str("1 record was removed at the end")
            }
            AuditProblem::EndRemoved { records } => {
                write!(f, "{records} records were removed at the end")
            }
            AuditProblem::EndChanged => {
                f.write_str("the last record is not the one that was written")
            }
            AuditProblem::HeadBehind { records } => {
                write!(
                    f,
                    "the last {records} records were inserted, or the head file is outdated"
                )
            }
        }
    }
}
