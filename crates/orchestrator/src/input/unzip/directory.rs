//! Checks the declared size of a zip's central directory, before the zip library allocates memory
//! for it.

use std::io::{self, Read, Seek, SeekFrom};

use super::{InputError, MAX_DIRECTORY_BYTES, MAX_ENTRIES, refuse};

/// Signature of the ZIP64 end of central directory locator.
const ZIP64_LOCATOR: &[u8; 4] = b"PK\x06\x07";

/// Signature of the ZIP64 end of central directory record, which can declare arbitrarily large
/// numbers.
const ZIP64_END_RECORD: &[u8; 4] = b"PK\x06\x06";

/// From the signature to the end of the checked fields: entries at 32, bytes at 40.
const ZIP64_RECORD_BYTES: usize = 48;

/// Covers the longest comment and the records before it.
const TAIL_BYTES: u64 = (1 << 16) + 256;

const CHUNK_BYTES: usize = 1 << 20;

/// Without ZIP64 a directory has at most 65,535 entries, which is harmless. ZIP64 records are
/// searched in the whole file, because readers differ on where the record must be.
pub(super) fn check(file: &mut (impl Read + Seek), length: u64) -> Result<(), InputError> {
    let failed = InputError::server("read the uploaded zip");
    let is_too_long = declares_too_much(file, length).map_err(failed)?;
    if is_too_long {
        refuse("it has too many entries")
    } else {
        Ok(())
    }
}

fn declares_too_much(file: &mut (impl Read + Seek), length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let is_wide = tail.windows(4).any(|window| window == ZIP64_LOCATOR);
    file.rewind()?;
    if !is_wide {
        return Ok(false);
    }
    let mut held: Vec<u8> = Vec::with_capacity(CHUNK_BYTES + ZIP64_RECORD_BYTES);
    loop {
        let read = file.take(CHUNK_BYTES as u64).read_to_end(&mut held)?;
        if held.windows(ZIP64_RECORD_BYTES).any(is_excessive) {
            file.rewind()?;
            return Ok(true);
        }
        if read == 0 {
            file.rewind()?;
            return Ok(false);
        }
        let done = held.len().saturating_sub(ZIP64_RECORD_BYTES - 1);
        held.drain(..done);
    }
}

fn is_excessive(window: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = window[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes were taken"))
    };
    window.starts_with(ZIP64_END_RECORD)
        && (number(32) > MAX_ENTRIES as u64 || number(40) > MAX_DIRECTORY_BYTES)
}
