//! Ids of sessions and calls.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Id of a session: its start time and four characters that distinguish sessions of the same
/// second, as in `20260131-174502-k3fd`. Ids sort by age, to a millisecond.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// Letters and digits that cannot be confused with one another, in sort order.
const ID_ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

impl SessionId {
    /// `random` should differ between sessions that start at the same time.
    pub fn new(begun: &jiff::civil::DateTime, random: u32) -> Self {
        // Ten bits for the time within the second, then ten random bits.
        let moment = begun.subsec_nanosecond() as u32 / 976_563;
        let number = moment << 10 | random & 0x3ff;
        let suffix: String = [15, 10, 5, 0]
            .map(|place| ID_ALPHABET[(number >> place) as usize % ID_ALPHABET.len()] as char)
            .iter()
            .collect();
        Self(format!(
            "{:04}{:02}{:02}-{:02}{:02}{:02}-{suffix}",
            begun.year(),
            begun.month(),
            begun.day(),
            begun.hour(),
            begun.minute(),
            begun.second()
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text that is not a session id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSessionId(String);

impl fmt::Display for InvalidSessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is not a session name", self.0)
    }
}

impl std::error::Error for InvalidSessionId {}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let is_right = |(place, letter): (usize, u8)| match place {
            8 | 15 => letter == b'-',
            0..=14 => letter.is_ascii_digit(),
            _ => letter.is_ascii_lowercase() || letter.is_ascii_digit(),
        };
        if text.len() == 20 && text.bytes().enumerate().all(is_right) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSessionId(text.to_owned()))
        }
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidSessionId;

    fn try_from(text: String) -> Result<Self, InvalidSessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Id of a tool call, assigned by the model's provider.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CallId(pub String);

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl From<&str> for CallId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_survive_their_text() {
        let begun = jiff::civil::datetime(2026, 1, 31, 17, 45, 2, 0);
        for random in [0, 1, 31, 0xffff_ffff, 0x1234_5678] {
            let id = SessionId::new(&begun, random);
            assert_eq!(id.as_str().parse::<SessionId>().unwrap(), id);
            assert!(id.as_str().starts_with("20260131-174502-"));
        }
    }

    #[test]
    fn names_sort_by_age() {
        let at = |nanoseconds| jiff::civil::datetime(2026, 1, 31, 17, 45, 2, nanoseconds);
        let names = [0, 1_000_000, 500_000_000, 999_999_999]
            .map(|nanoseconds| SessionId::new(&at(nanoseconds), u32::MAX - nanoseconds as u32));
        assert!(
            names.is_sorted_by(|older, newer| older < newer),
            "{names:?}"
        );
    }

    #[test]
    fn other_text_is_no_name() {
        for bad in [
            "",
            "20260131-174502",
            "20260131-174502-../a",
            "20260131x174502-abcd",
        ] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }
}
