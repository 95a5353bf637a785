//! A look at how long a zip says its list of entries is, before a library makes room for it.

use std::io::{self, Read, Seek, SeekFrom};

use super::{InputError, LONGEST_LIST, MOST_ENTRIES, refuse};

/// Before the end of a zip, where the wide form says that it is in use.
const WIDE_LOCATOR: &[u8; 4] = b"PK\x06\x07";

/// Begins the end of a list in its wide form, of which numbers can be as large as they like.
const WIDE_END: &[u8; 4] = b"PK\x06\x06";

/// From the signature to the end of the numbers looked at: entries at 32, bytes at 40.
const WIDE_LENGTH: usize = 48;

/// The longest comment, with the records around it.
const TAIL: u64 = (1 << 16) + 256;

const CHUNK: usize = 1 << 20;

/// In its narrow form a list has at most 65,535 entries, which is no harm. The wide form is looked
/// for everywhere, because readers differ on where it has to be.
pub(super) fn check(file: &mut (impl Read + Seek), length: u64) -> Result<(), InputError> {
    let failed = InputError::server("read the uploaded zip");
    let is_too_long = claims_too_much(file, length).map_err(failed)?;
    if is_too_long {
        refuse("it has too many entries")
    } else {
        Ok(())
    }
}

fn claims_too_much(file: &mut (impl Read + Seek), length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let is_wide = tail.windows(4).any(|window| window == WIDE_LOCATOR);
    file.rewind()?;
    if !is_wide {
        return Ok(false);
    }
    let mut held: Vec<u8> = Vec::with_capacity(CHUNK + WIDE_LENGTH);
    loop {
        let read = file.take(CHUNK as u64).read_to_end(&mut held)?;
        if held.windows(WIDE_LENGTH).any(is_excessive) {
            file.rewind()?;
            return Ok(true);
        }
        if read == 0 {
            file.rewind()?;
            return Ok(false);
        }
        let done = held.len().saturating_sub(WIDE_LENGTH - 1);
        held.drain(..done);
    }
}

fn is_excessive(window: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = window[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes were taken"))
    };
    window.starts_with(WIDE_END) && (number(32) > MOST_ENTRIES as u64 || number(40) > LONGEST_LIST)
}
