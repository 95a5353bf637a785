//! Encodes, hashes and parses a line of the log. Never accesses a file.

use std::fmt;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::record::{AuditRecord, shorten, shorten_text};

/// Longest valid line. Records are shortened to stay far below.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// The SHA-256 of a line without its newline, as in `prev` of the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineHash([u8; 32]);

impl LineHash {
    /// The previous hash in the first line.
    pub(crate) const START: LineHash = LineHash([0; 32]);

    pub(crate) fn of(bytes: &[u8]) -> LineHash {
        LineHash(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> LineHash {
        LineHash(hasher.finalize().into())
    }

    pub(crate) fn parse(hex: &str) -> Option<LineHash> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(LineHash(bytes))
    }
}

/// Lower case only, so that equal hashes have equal text.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A position in the chain: the number of a record and the hash of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainLink {
    pub(crate) seq: u64,
    pub(crate) hash: LineHash,
}

impl ChainLink {
    /// Before the first line.
    pub(crate) const START: ChainLink = ChainLink {
        seq: 0,
        hash: LineHash::START,
    };
}

#[derive(Serialize)]
struct SerializedLine<'a, E> {
    seq: u64,
    time: String,
    prev: String,
    /// Number of lines that were written together; only in the first of them. A crash can leave the
    /// head file that many lines behind.
    #[serde(skip_serializing_if = "is_one")]
    group: u64,
    sandbox: &'a str,
    event: E,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires a reference"
)]
fn is_one(count: &u64) -> bool {
    *count == 1
}

/// The text of the next line after a link, without a newline. `group` is the number of lines that are
/// written together if this is the first of them, else 1.
pub(crate) fn write(
    before: ChainLink,
    time: Timestamp,
    group: u64,
    sandbox: &str,
    record: &AuditRecord,
) -> serde_json::Result<Vec<u8>> {
    let written = SerializedLine {
        seq: before.seq.saturating_add(1),
        time: format!("{time:.3}"),
        prev: before.hash.to_string(),
        group,
        sandbox,
        event: record,
    };
    let line = escape_unprintable(serde_json::to_string(&written)?);
    if line.len() <= MAX_LINE_BYTES {
        return Ok(line);
    }
    let mut event = serde_json::to_value(record)?;
    shorten(&mut event);
    let mut sandbox = sandbox.to_owned();
    shorten_text(&mut sandbox);
    let SerializedLine {
        seq, time, prev, ..
    } = written;
    let short = SerializedLine {
        seq,
        time,
        prev,
        group,
        sandbox: &sandbox,
        event,
    };
    Ok(escape_unprintable(serde_json::to_string(&short)?))
}

/// Whether a character is not printed as itself: control characters, invisible characters, and those
/// that change how surrounding text is shown.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes characters that are unsafe in a terminal and that JSON allows unescaped. They can occur only
/// in strings, where `\u` escapes are valid.
fn escape_unprintable(json: String) -> Vec<u8> {
    if !json.contains(is_unprintable) {
        return json.into_bytes();
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if is_unprintable(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped.into_bytes()
}

/// The fields of a line that form the chain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedLine {
    pub(crate) seq: u64,
    pub(crate) prev: LineHash,
    /// Number of lines that were written together, including this one.
    pub(crate) group: u64,
    /// In the line of a rotation: the first record that was kept.
    pub(crate) first_kept: Option<u64>,
}

fn first_kept(line: &[u8]) -> Option<u64> {
    const MARK: &[u8] = br#""event":{"kind":"rotated""#;
    #[derive(Deserialize)]
    struct RotationLine {
        event: AuditRecord,
    }
    // Avoids parsing the event of most lines.
    line.windows(MARK.len()).find(|part| *part == MARK)?;
    match serde_json::from_slice(line).ok()? {
        RotationLine {
            event: AuditRecord::Rotated { first_kept, .. },
        } => Some(first_kept),
        RotationLine { .. } => None,
    }
}

/// Parses a line; `None` if it is not a record. The event is not parsed, so that a log with event kinds
/// of a later version can be verified.
pub(crate) fn parse(line: &[u8]) -> Option<ParsedLine> {
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "these fields only have to exist")]
    struct LineFields {
        seq: u64,
        time: IgnoredAny,
        prev: String,
        #[serde(default)]
        group: Option<u64>,
        sandbox: IgnoredAny,
        event: IgnoredAny,
    }
    let read: LineFields = serde_json::from_slice(line).ok()?;
    Some(ParsedLine {
        seq: read.seq,
        prev: LineHash::parse(&read.prev)?,
        group: read.group.unwrap_or(1),
        first_kept: first_kept(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back() {
        let time: Timestamp = "2026-01-02T03:04:05.678912Z".parse().unwrap();
        let record = AuditRecord::End {
            cause: "done".into(),
        };
        let line = write(ChainLink::START, time, 1, "s1", &record).unwrap();
        assert_eq!(
            String::from_utf8(line.clone()).unwrap(),
            format!(
                r#"{{"seq":1,"time":"2026-01-02T03:04:05.678Z","prev":"{}","sandbox":"s1","event":{{"kind":"end","cause":"done"}}}}"#,
                "0".repeat(64)
            )
        );
        assert_eq!(
            parse(&line),
            Some(ParsedLine {
                seq: 1,
                prev: LineHash::START,
                group: 1,
                first_kept: None,
            })
        );
        assert_eq!(parse(&line[..line.len() - 1]), None);
    }

    #[test]
    fn no_record_makes_a_line_too_long() {
        let hostile = vec!["\0".repeat(1 << 12); 300];
        let record = AuditRecord::Exec {
            exec: 1,
            argv: hostile.clone(),
            cwd: "\0".repeat(1 << 21),
            env_names: hostile,
            terminal: false,
        };
        let line = write(
            ChainLink::START,
            Timestamp::now(),
            1,
            &"\0".repeat(1 << 21),
            &record,
        )
        .unwrap();
        assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
        assert!(parse(&line).is_some());
    }

    #[test]
    fn a_line_is_safe_to_show() {
        let cause = "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}txt\u{200b}\u{e0041} grün".to_owned();
        let record = AuditRecord::End { cause };
        let line = write(ChainLink::START, Timestamp::now(), 1, "a\u{9d}", &record).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains(is_unprintable), "{line}");
        assert!(line.contains("grün"), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            serde_json::from_value::<AuditRecord>(value["event"].clone()).unwrap(),
            record
        );
        assert_eq!(value["sandbox"], "a\u{9d}");
    }

    #[test]
    fn a_rotation_says_what_is_kept() {
        let rotated = |first_kept| AuditRecord::Rotated {
            previous: "a".into(),
            first_kept,
        };
        let line = write(ChainLink::START, Timestamp::now(), 3, "s", &rotated(7)).unwrap();
        let parsed = parse(&line).unwrap();
        assert_eq!((parsed.group, parsed.first_kept), (3, Some(7)));
        let cause = r#""event":{"kind":"rotated","first_kept":7"#.into();
        let line = write(
            ChainLink::START,
            Timestamp::now(),
            1,
            "s",
            &AuditRecord::End { cause },
        )
        .unwrap();
        assert_eq!(parse(&line).unwrap().first_kept, None);
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = LineHash::of(b"line");
        assert_eq!(LineHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(LineHash::parse(&hash.to_string().to_uppercase()), None);
        assert_eq!(LineHash::parse("00"), None);
    }
}
