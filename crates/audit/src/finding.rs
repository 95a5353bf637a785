//! What a check of the log can find, in words for a person. Never looks at a file.
//!
//! Entry type: [`Report`].

use std::fmt;

use crate::line::Hash;

/// More findings than this are only counted: a file of rubbish must not fill the memory.
const MAX_FINDINGS: usize = 1000;

/// What [`crate::verify()`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many lines the log has, with the files that were put aside.
    pub lines: u64,
    /// How many files were put aside and are still there.
    pub files_aside: u64,
    /// How many records were removed with their files because the log was too long.
    pub rotated_away: u64,
    /// What is wrong with it, in the order of the lines; empty for a log that is whole.
    pub findings: Vec<Finding>,
    /// How many more findings there are than the list holds.
    pub unlisted: u64,
    /// The hash of the last line. It stands for the whole log: kept somewhere else, it shows later
    /// whether these lines are still the same.
    pub last: String,
}

impl Report {
    pub(crate) fn new() -> Report {
        let last = Hash::START.to_string();
        Report {
            lines: 0,
            files_aside: 0,
            rotated_away: 0,
            findings: Vec::new(),
            unlisted: 0,
            last,
        }
    }

    /// Nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn add(&mut self, file: Option<&str>, line: u64, problem: Problem) {
        if self.findings.len() < MAX_FINDINGS {
            let file = file.map(str::to_owned);
            self.findings.push(Finding {
                file,
                line,
                problem,
            });
        } else {
            self.unlisted += 1;
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the file, if it is not the log itself but one that was put aside.
    pub file: Option<String>,
    /// The line, counted from 1; one past the end for what is missing there.
    pub line: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The line is not a record, and the chain does not go on over it.
    NotARecord,
    /// The line is not a record, but the next one was written after it: a write was cut off.
    CutOff,
    /// The last line has no newline.
    NoNewline,
    /// The first line names a line before it.
    NotTheFirst,
    /// Files that were put aside and should still be there are not.
    FilesRemoved {
        /// How many records were in them.
        records: u64,
    },
    /// The line before is not the one that this line was written after.
    Broken,
    /// The line was written while the head file was missing.
    HeadWasMissing,
    /// The line's number is not the next one.
    Number {
        /// The number that is next.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// There is no head file, or it is unreadable.
    NoHead,
    /// The head file knows of records after the last line.
    EndRemoved {
        /// How many.
        records: u64,
    },
    /// The last record is not the one that the head file remembers.
    EndChanged,
    /// There are lines that the head file does not know of.
    HeadBehind {
        /// How many.
        records: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        if let Some(file) = &self.file {
            write!(f, "{file} ")?;
        }
        write!(f, "line {line}: ")?;
        match &self.problem {
            Problem::NotARecord => {
                f.write_str("is not a record: it was changed, cut off or put in")
            }
            Problem::CutOff => f.write_str(
                "is not a whole record, but the chain goes on over it: a write was cut off here, \
                 as by a loss of power",
            ),
            Problem::NoNewline => f.write_str(
                "ends without a newline: the last write was cut off, or bytes were removed",
            ),
            Problem::NotTheFirst => {
                f.write_str("is not the beginning of a log: lines before it were removed")
            }
            Problem::FilesRemoved { records } => write!(
                f,
                "{records} records before it are gone: files of the log that should still be there \
                 were removed"
            ),
            Problem::Broken if line == 1 => f.write_str("was changed, or lines before it removed"),
            Problem::Broken => write!(
                f,
                "hash of the line before does not match: line {} or {line} was changed, removed \
                 or moved",
                line - 1
            ),
            Problem::HeadWasMissing => f.write_str(
                "the chain begins anew: the head file was missing when this line was written, so \
                 lines before it may have been removed",
            ),
            Problem::Number { expected, found } => {
                write!(f, "has the number {found} where {expected} is next")
            }
            Problem::NoHead => f.write_str(
                "the head file is missing or unreadable: lines removed at the end cannot be seen",
            ),
            Problem::EndRemoved { records: 1 } => f.write_str("1 record was removed at the end"),
            Problem::EndRemoved { records } => {
                write!(f, "{records} records were removed at the end")
            }
            Problem::EndChanged => f.write_str("the last record is not the one that was written"),
            Problem::HeadBehind { records } => {
                write!(
                    f,
                    "the last {records} records were put in, or the head file is an old one"
                )
            }
        }
    }
}
