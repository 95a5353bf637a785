//! Extended headers of tar (pax), which override fields of the header that follows. The reader of entries
//! limits their size.

use super::error::UnpackError;

/// The fields that an extended header overrides.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PaxHeader {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<i64>,
}

/// Parses records of the form `LENGTH KEY=VALUE\n`, where the length is that of the whole record.
pub(super) fn parse(mut bytes: &[u8]) -> Result<PaxHeader, UnpackError> {
    const BROKEN: UnpackError = UnpackError::Malformed("an extended header is broken");
    let mut pax = PaxHeader::default();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or(BROKEN)?;
        let length: usize = parse_number(&bytes[..space]).ok_or(BROKEN)?;
        let record = bytes.get(space + 1..length).ok_or(BROKEN)?;
        let record = record.strip_suffix(b"\n").ok_or(BROKEN)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(BROKEN)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => pax.path = Some(value.to_owned()),
            b"linkpath" => pax.link = Some(value.to_owned()),
            b"size" => pax.size = Some(parse_number(value).ok_or(BROKEN)?),
            b"mtime" => pax.mtime = Some(parse_seconds(value).ok_or(BROKEN)?),
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err(UnpackError::Unsupported("has a sparse file in pax format"));
            }
            _ => {}
        }
        bytes = &bytes[length..];
    }
    Ok(pax)
}

fn parse_number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whole seconds; the fraction is cut off.
fn parse_seconds(text: &[u8]) -> Option<i64> {
    parse_number(text.split(|byte| *byte == b'.').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<PaxHeader>) {
        assert_eq!(parse(bytes).ok(), expected);
    }

    #[test]
    fn records() {
        check(b"", Some(PaxHeader::default()));
        let path = PaxHeader {
            path: Some(b"a b=c\nd".to_vec()),
            ..PaxHeader::default()
        };
        check(b"17 path=a b=c\nd\n", None);
        check(b"16 path=a b=c\nd\n", Some(path));
        let both = PaxHeader {
            size: Some(9),
            mtime: Some(12),
            ..PaxHeader::default()
        };
        check(b"10 size=9\n15 mtime=12.5\n", None);
        check(b"10 size=9\n14 mtime=12.5\n", Some(both));
        // The value of an extended attribute may hold any bytes.
        check(b"16 SCHILY.x=\n\0\xff\n", Some(PaxHeader::default()));
        for broken in [
            &b"1 "[..],
            b"99 path=a\n",
            b"0 path=a\n",
            b"-1 path=a\n",
            b"9 path=a",
            b"9 pathaa\n",
            b"18446744073709551616 path=a\n",
            b"10 size=x\n",
            b"11 size=-1\n",
            b"23 GNU.sparse.major=1\n",
        ] {
            check(broken, None);
        }
    }
}
