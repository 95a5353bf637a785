//! Tries how well a file packs before it is packed: a zip is written without going back.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::packer::written;
use super::sink::Sink;

/// Fast, and most of what stronger levels gain; the first level makes noise larger.
pub(super) const LEVEL: i64 = 2;

/// From this size on a file is written with room for sizes of 64 bits.
pub(super) const LARGE: u64 = 0xf000_0000;

/// Whether a file packs into less than this. Leaves it at its beginning.
pub(super) fn fits(file: &mut File, size: u64, room: u64, buffer: &mut [u8]) -> io::Result<bool> {
    let mut trial = trial(size)?;
    let mut reader = (&*file).take(size);
    // What cannot be read shows when it is packed.
    while let Ok(length @ 1..) = reader.read(buffer) {
        trial.write_all(&buffer[..length])?;
        if written(&trial) > room {
            return Ok(false);
        }
    }
    file.rewind()?;
    Ok(trial.finish()?.into_inner().written() < room)
}

/// A zip of one file that nobody keeps.
fn trial(size: u64) -> io::Result<ZipWriter<StreamWriter<Sink<io::Sink>>>> {
    let mut zip = ZipWriter::new_stream(Sink::new(io::sink()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .large_file(size > LARGE);
    zip.start_file("", options)?;
    Ok(zip)
}
