//! One line of the log: its text, its hash, and how it is read back. Never touches a file.

use std::fmt;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::{Record, shorten, shorten_text};

/// A longer line is not ours. Records are shortened to stay far below it.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// The SHA-256 of a line without its newline, as it stands in the next line's `prev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// What the first line names as the line before it.
    pub(crate) const START: Hash = Hash([0; 32]);

    pub(crate) fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> Hash {
        Hash(hasher.finalize().into())
    }

    pub(crate) fn parse(hex: &str) -> Option<Hash> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Hash(bytes))
    }
}

/// Lower case only: there is one way to write a hash, so that equal hashes are equal bytes.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A place in the chain: a line's number among the records, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
}

impl Link {
    /// Before the first line.
    pub(crate) const START: Link = Link {
        seq: 0,
        hash: Hash::START,
    };
}

#[derive(Serialize)]
struct Written<'a, E> {
    seq: u64,
    time: String,
    prev: String,
    sandbox: &'a str,
    event: E,
}

/// The text of the line that follows `before`, without a newline.
pub(crate) fn write(
    before: Link,
    time: Timestamp,
    sandbox: &str,
    record: &Record,
) -> serde_json::Result<Vec<u8>> {
    let written = Written {
        seq: before.seq.saturating_add(1),
        time: format!("{time:.3}"),
        prev: before.hash.to_string(),
        sandbox,
        event: record,
    };
    let line = serde_json::to_vec(&written)?;
    if line.len() <= MAX_LINE {
        return Ok(line);
    }
    let mut event = serde_json::to_value(record)?;
    shorten(&mut event);
    let mut sandbox = sandbox.to_owned();
    shorten_text(&mut sandbox);
    let Written {
        seq, time, prev, ..
    } = written;
    serde_json::to_vec(&Written {
        seq,
        time,
        prev,
        sandbox: &sandbox,
        event,
    })
}

/// The parts of a line that the chain is made of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) seq: u64,
    pub(crate) prev: Hash,
}

/// Reads a line back; `None` if it is not a record. The event itself is not looked into, so that
/// a log with kinds of a later version can still be verified.
pub(crate) fn parse(line: &[u8]) -> Option<Parsed> {
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "these fields only have to be there")]
    struct Read {
        seq: u64,
        time: IgnoredAny,
        prev: String,
        sandbox: IgnoredAny,
        event: IgnoredAny,
    }
    let read: Read = serde_json::from_slice(line).ok()?;
    Some(Parsed {
        seq: read.seq,
        prev: Hash::parse(&read.prev)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back() {
        let time: Timestamp = "2026-01-02T03:04:05.678912Z".parse().unwrap();
        let record = Record::End {
            cause: "done".into(),
        };
        let line = write(Link::START, time, "s1", &record).unwrap();
        assert_eq!(
            String::from_utf8(line.clone()).unwrap(),
            format!(
                r#"{{"seq":1,"time":"2026-01-02T03:04:05.678Z","prev":"{}","sandbox":"s1","event":{{"kind":"end","cause":"done"}}}}"#,
                "0".repeat(64)
            )
        );
        assert_eq!(
            parse(&line),
            Some(Parsed {
                seq: 1,
                prev: Hash::START
            })
        );
        assert_eq!(parse(&line[..line.len() - 1]), None);
    }

    #[test]
    fn no_record_makes_a_line_too_long() {
        let hostile = vec!["\0".repeat(1 << 12); 300];
        let record = Record::Exec {
            argv: hostile.clone(),
            cwd: "\0".repeat(1 << 21),
            env_names: hostile,
            terminal: false,
        };
        let line = write(
            Link::START,
            Timestamp::now(),
            &"\0".repeat(1 << 21),
            &record,
        )
        .unwrap();
        assert!(line.len() <= MAX_LINE, "{}", line.len());
        assert!(parse(&line).is_some());
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = Hash::of(b"line");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse(&hash.to_string().to_uppercase()), None);
        assert_eq!(Hash::parse("00"), None);
    }
}
