//! Finds the last line of a log without reading the whole file. Reads at most about two lines of the
//! maximum length.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::line::{self, ChainLink, LineHash, MAX_LINE_BYTES};

/// Bytes that are searched from the end: enough for the last record and a torn line after it.
const TAIL_WINDOW_BYTES: u64 = 2 * MAX_LINE_BYTES as u64 + 4;

/// The end of a log that is not empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogTail {
    /// The last line that is a record; `None` if there is none in the searched part.
    pub(crate) record: Option<ChainLink>,
    /// The hash of the last line, record or not; `None` if it starts before the searched part.
    pub(crate) last: Option<LineHash>,
    /// The file does not end with a newline: the last write was torn.
    pub(crate) torn: bool,
}

/// Reads the end of `file`, which is `len` bytes long; `None` if it is empty.
pub(crate) fn read(file: &File, len: u64) -> io::Result<Option<LogTail>> {
    // Most lines are short: read a small part first, and the whole window only if needed.
    for window in [8 << 10, TAIL_WINDOW_BYTES] {
        let window = window.min(len);
        let mut bytes = vec![0; window as usize];
        file.read_exact_at(&mut bytes, len - window)?;
        let tail = parse(&bytes, window == len);
        if window == len || window == TAIL_WINDOW_BYTES {
            return Ok(tail);
        }
        if let Some(tail) = tail.filter(|tail| tail.record.is_some()) {
            return Ok(Some(tail));
        }
    }
    Ok(None)
}

/// `whole` means that the bytes start at the start of the file, so the first line is complete.
fn parse(bytes: &[u8], whole: bool) -> Option<LogTail> {
    let &end = bytes.last()?;
    let torn = end != b'\n';
    let body = if torn {
        bytes
    } else {
        &bytes[..bytes.len() - 1]
    };

    let mut tail = LogTail {
        record: None,
        last: None,
        torn,
    };
    let mut lines = body.rsplit(|&byte| byte == b'\n').peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        if lines.peek().is_none() && !whole {
            break;
        }
        if std::mem::take(&mut first) {
            tail.last = Some(LineHash::of(line));
        }
        if let Some(parsed) = line::parse(line) {
            tail.record = Some(ChainLink {
                seq: parsed.seq,
                hash: LineHash::of(line),
            });
            break;
        }
    }
    Some(tail)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::AuditRecord;

    fn tail_of(bytes: &[u8]) -> Option<LogTail> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read(&file, bytes.len() as u64).unwrap()
    }

    fn record(seq: u64, length: usize) -> Vec<u8> {
        let before = ChainLink {
            seq: seq - 1,
            hash: LineHash::START,
        };
        let record = AuditRecord::End {
            cause: "x".repeat(length),
        };
        line::write(before, jiff::Timestamp::now(), 1, "s", &record).unwrap()
    }

    #[test]
    fn the_end_is_found_whatever_it_looks_like() {
        assert_eq!(tail_of(b""), None);
        assert_eq!(
            tail_of(b"\n"),
            Some(LogTail {
                record: None,
                last: Some(LineHash::of(b"")),
                torn: false
            })
        );

        for length in [10, 9_000, 900_000] {
            let line = record(7, length);
            let link = ChainLink {
                seq: 7,
                hash: LineHash::of(&line),
            };
            let mut log = [record(6, length), b"\n".to_vec(), line, b"\n".to_vec()].concat();
            let clean = LogTail {
                record: Some(link),
                last: Some(link.hash),
                torn: false,
            };
            assert_eq!(tail_of(&log), Some(clean));

            log.extend(b"{\"seq\":8");
            let torn = LogTail {
                record: Some(link),
                last: Some(LineHash::of(b"{\"seq\":8")),
                torn: true,
            };
            assert_eq!(tail_of(&log), Some(torn));
        }

        let endless = vec![b'x'; TAIL_WINDOW_BYTES as usize + 10];
        assert_eq!(
            tail_of(&endless),
            Some(LogTail {
                record: None,
                last: None,
                torn: true
            })
        );
    }
}
