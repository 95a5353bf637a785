//! Rotated log files: their names, when a log is rotated, and how many files are kept.
//!
//! A full log becomes `<log>.<seq>`, with the number of its final record. The new file begins with an
//! [`AuditRecord::Rotated`](crate::AuditRecord::Rotated) line, which follows the last line of the old file
//! in the chain and contains the number of the first record that is kept. A file is removed only after a
//! newer one has recorded that.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::line::{self, MAX_LINE_BYTES};

/// When a log is rotated, and how many rotated files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Size at which a log is rotated.
    pub bytes: u64,
    /// Number of rotated files to keep; the oldest are removed first.
    pub keep: usize,
}

impl Default for RotationPolicy {
    /// 64 MiB and 8 files: at most about 576 MiB in total.
    fn default() -> RotationPolicy {
        RotationPolicy {
            bytes: 64 << 20,
            keep: 8,
        }
    }
}

/// A rotated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RotatedFile {
    pub(crate) path: PathBuf,
    /// The number of its last record.
    pub(crate) last_seq: u64,
}

/// The name has twenty digits: enough for any `u64`, and sortable as text.
pub(crate) fn aside(log: &Path, last_seq: u64) -> RotatedFile {
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".{last_seq:020}"));
    RotatedFile {
        path: PathBuf::from(name),
        last_seq,
    }
}

/// Temporary path of the next file, before it is renamed to the log.
pub(crate) fn next_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".next");
    PathBuf::from(name)
}

/// The rotated files, oldest first.
pub(crate) fn list_rotated_files(log: &Path) -> io::Result<Vec<RotatedFile>> {
    let folder = match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = log.file_name().unwrap_or_default().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let entry_name = entry.file_name();
        let rest = entry_name.as_encoded_bytes().strip_prefix(name);
        let digits = rest.and_then(|rest| rest.strip_prefix(b"."));
        let last_seq = digits
            .filter(|digits| digits.len() == 20 && digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        if let Some(last_seq) = last_seq {
            found.push(aside(log, last_seq));
        }
    }
    found.sort_unstable_by_key(|aside| aside.last_seq);
    Ok(found)
}

/// The first record that is kept, according to the first line of the log; `None` if that line is not
/// from a rotation.
pub(crate) fn first_kept(file: &File) -> io::Result<Option<u64>> {
    let mut first = Vec::new();
    let mut reader = BufReader::new(PositionedReader { file, at: 0 }).take(MAX_LINE_BYTES as u64);
    reader.read_until(b'\n', &mut first)?;
    let line = first.strip_suffix(b"\n").unwrap_or(&first);
    Ok(line::parse(line).and_then(|parsed| parsed.first_kept))
}

/// Reads a file from its start without changing the shared file position.
struct PositionedReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a.jsonl");
        for seq in [30, 4, 100] {
            fs::write(aside(&log, seq).path, "").unwrap();
        }
        for other in [
            "a.jsonl",
            "a.jsonl.head",
            "a.jsonl.5",
            "b.jsonl.00000000000000000001",
        ] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        let found: Vec<u64> = list_rotated_files(&log)
            .unwrap()
            .iter()
            .map(|one| one.last_seq)
            .collect();
        assert_eq!(found, [4, 30, 100]);
    }
}
