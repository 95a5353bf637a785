//! Finds the last line of a log without reading the whole file. Reads at most about two lines of the
//! maximum length.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::line::{self, Hash, Link, MAX_LINE};

/// Bytes that are searched from the end: enough for the last record and a torn line after it.
const WINDOW: u64 = 2 * MAX_LINE as u64 + 4;

/// The end of a log that is not empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The last line that is a record; `None` if there is none in the searched part.
    pub(crate) record: Option<Link>,
    /// The hash of the last line, record or not; `None` if it starts before the searched part.
    pub(crate) last: Option<Hash>,
    /// The file does not end with a newline: the last write was torn.
    pub(crate) torn: bool,
}

/// Reads the end of `file`, which is `len` bytes long; `None` if it is empty.
pub(crate) fn read(file: &File, len: u64) -> io::Result<Option<Tail>> {
    // Most lines are short: read a small part first, and the whole window only if needed.
    for window in [8 << 10, WINDOW] {
        let window = window.min(len);
        let mut bytes = vec![0; window as usize];
        file.read_exact_at(&mut bytes, len - window)?;
        let tail = parse(&bytes, window == len);
        if window == len || window == WINDOW {
            return Ok(tail);
        }
        if let Some(tail) = tail.filter(|tail| tail.record.is_some()) {
            return Ok(Some(tail));
        }
    }
    Ok(None)
}

/// `whole` means that the bytes start at the start of the file, so the first line is complete.
fn parse(bytes: &[u8], whole: bool) -> Option<Tail> {
    let &end = bytes.last()?;
    let torn = end != b'\n';
    let body = if torn {
        bytes
    } else {
        &bytes[..bytes.len() - 1]
    };

    let mut tail = Tail {
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
            tail.last = Some(Hash::of(line));
        }
        if let Some(parsed) = line::parse(line) {
            tail.record = Some(Link {
                seq: parsed.seq,
                hash: Hash::of(line),
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
    use crate::Record;

    fn tail_of(bytes: &[u8]) -> Option<Tail> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read(&file, bytes.len() as u64).unwrap()
    }

    fn record(seq: u64, length: usize) -> Vec<u8> {
        let before = Link {
            seq: seq - 1,
            hash: Hash::START,
        };
        let record = Record::End {
            cause: "x".repeat(length),
        };
        line::write(before, jiff::Timestamp::now(), 1, "s", &record).unwrap()
    }

    #[test]
    fn the_end_is_found_whatever_it_looks_like() {
        assert_eq!(tail_of(b""), None);
        assert_eq!(
            tail_of(b"\n"),
            Some(Tail {
                record: None,
                last: Some(Hash::of(b"")),
                torn: false
            })
        );

        for length in [10, 9_000, 900_000] {
            let line = record(7, length);
            let link = Link {
                seq: 7,
                hash: Hash::of(&line),
            };
            let mut log = [record(6, length), b"\n".to_vec(), line, b"\n".to_vec()].concat();
            let clean = Tail {
                record: Some(link),
                last: Some(link.hash),
                torn: false,
            };
            assert_eq!(tail_of(&log), Some(clean));

            log.extend(b"{\"seq\":8");
            let torn = Tail {
                record: Some(link),
                last: Some(Hash::of(b"{\"seq\":8")),
                torn: true,
            };
            assert_eq!(tail_of(&log), Some(torn));
        }

        let endless = vec![b'x'; WINDOW as usize + 10];
        assert_eq!(
            tail_of(&endless),
            Some(Tail {
                record: None,
                last: None,
                torn: true
            })
        );
    }
}
