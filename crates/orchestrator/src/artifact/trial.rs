//! Compresses a file to nowhere to learn its packed size, because a zip is written without seeking
//! back.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::packer::written;
use super::sink::HashingSink;

/// Fast, with most of the gain of higher levels. Level 1 makes incompressible data larger.
pub(super) const COMPRESSION_LEVEL: i64 = 2;

/// Files above this size are written with 64-bit (ZIP64) sizes.
pub(super) const ZIP64_MIN_BYTES: u64 = 0xf000_0000;

/// Whether a file packs into less than the given number of bytes. Rewinds the file.
pub(super) fn fits_compressed(
    file: &mut File,
    size: u64,
    room: u64,
    buffer: &mut [u8],
) -> io::Result<bool> {
    let mut trial = trial(size)?;
    let mut reader = (&*file).take(size);
    // A read error is reported when the file is packed.
    while let Ok(length @ 1..) = reader.read(buffer) {
        trial.write_all(&buffer[..length])?;
        if written(&trial) > room {
            return Ok(false);
        }
    }
    file.rewind()?;
    Ok(trial.finish()?.into_inner().written() < room)
}

/// A zip of one file whose output is discarded.
fn trial(size: u64) -> io::Result<ZipWriter<StreamWriter<HashingSink<io::Sink>>>> {
    let mut zip = ZipWriter::new_stream(HashingSink::new(io::sink()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(COMPRESSION_LEVEL))
        .large_file(size > ZIP64_MIN_BYTES);
    zip.start_file("", options)?;
    Ok(zip)
}
