//! Detects the type of a file by its first bytes, never by its name.

use std::fmt::Write;

/// Number of bytes needed for detection.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileContent {
    Text,
    /// An image of this media type, which models can view.
    Image(&'static str),
    /// A short description of the format.
    Binary(&'static str),
}

const BINARY_SIGNATURES: [(&[u8], &str); 14] = [
    (b"\x7fELF", "an ELF program or library"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"BZh", "bzip2 data"),
    (b"\0asm", "a WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"MZ\x90", "a Windows program"),
    (b"!<arch>\n", "a static library"),
    (
        b"\xff\xfe",
        "UTF-16 text, which `iconv -f UTF-16 -t UTF-8` converts",
    ),
    (
        b"\xfe\xff",
        "UTF-16 text, which `iconv -f UTF-16 -t UTF-8` converts",
    ),
];

/// Detects by the first [`SNIFF_BYTES`] bytes, or by all bytes of a shorter file.
pub(crate) fn content_of(start: &[u8]) -> FileContent {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => FileContent::Image("image/png"),
        [0xff, 0xd8, 0xff, ..] => FileContent::Image("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => FileContent::Image("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => FileContent::Image("image/webp"),
        _ => match BINARY_SIGNATURES
            .iter()
            .find(|(magic, _)| start.starts_with(magic))
        {
            Some((_, kind)) => FileContent::Binary(kind),
            None if start.get(257..262) == Some(b"ustar") => FileContent::Binary("a tar archive"),
            None if is_text(start) => FileContent::Text,
            None => FileContent::Binary("binary data"),
        },
    }
}

/// Whether it is readable text, in UTF-8 or a single-byte encoding.
pub(crate) fn is_text(start: &[u8]) -> bool {
    let is_control = |byte: &&u8| **byte < 0x20 && !b"\n\r\t\x0c\x1b\x08".contains(*byte);
    let controls = start.iter().filter(is_control).count();
    let invalid: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    !start.contains(&0) && (controls + invalid) * 10 <= start.len() * 3
}

/// The first bytes as a hex dump with printable characters.
pub(crate) fn hex(start: &[u8]) -> String {
    let mut text = String::new();
    for row in start.chunks(16).take(4) {
        for byte in row {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x} ");
        }
        let readable = row.iter().map(|byte| match byte {
            b' '..=b'~' => *byte as char,
            _ => '.',
        });
        let readable: String = readable.collect();
        let _ = writeln!(text, " {readable}");
    }
    text
}
