//! The metadata of a zip entry. Pure.

use std::io;

use jiff::tz::TimeZone;
use nix::sys::stat::FileStat;
use zip::write::FullFileOptions;
use zip::{CompressionMethod, DateTime};

use super::trial::COMPRESSION_LEVEL;
use crate::tree;

/// Mode and time of an entry. Setuid, setgid and sticky bits are dropped.
pub(super) fn options(stat: &FileStat) -> io::Result<FullFileOptions<'static, 'static>> {
    let modified = tree::modified(stat);
    let mut options = FullFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(COMPRESSION_LEVEL))
        .unix_permissions(stat.st_mode & 0o777)
        .last_modified_time(dos_time(modified));
    // The extended timestamp field has UTC seconds; the DOS time has no time zone.
    if let Ok(seconds) = i32::try_from(stat.st_mtime) {
        let mut field = vec![1];
        field.extend_from_slice(&seconds.to_le_bytes());
        options.add_extra_field(0x5455, field, false)?;
    }
    Ok(options)
}

/// In UTC. Times that the format cannot represent become its earliest time.
fn dos_time(time: Option<jiff::Timestamp>) -> DateTime {
    let date = time.map(|time| time.to_zoned(TimeZone::UTC).datetime());
    let date = date.and_then(|date| {
        let small = |part: i8| u8::try_from(part).ok();
        DateTime::from_date_and_time(
            u16::try_from(date.year()).ok()?,
            small(date.month())?,
            small(date.day())?,
            small(date.hour())?,
            small(date.minute())?,
            small(date.second())?,
        )
        .ok()
    });
    date.unwrap_or_default()
}
