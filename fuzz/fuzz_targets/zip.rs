//! An uploaded zip: whatever its entries are, files appear only inside the workspace and within the
//! limit, and the check before a job is accepted has the same result as unpacking.

#![no_main]

use std::fs;
use std::io::Write;

use arbitrary::Arbitrary;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use hotcell_fuzz::Playground;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/orchestrator/src/input"]
mod input {
    use std::fmt;
    use std::path::Path;

    mod unzip;

    /// Has the same name and methods as in `orchestrator`.
    #[derive(Debug, PartialEq)]
    pub(crate) struct InputError(String);

    impl InputError {
        fn server<E: fmt::Display>(action: &str) -> impl Fn(E) -> Self {
            move |error| Self(format!("cannot {action}: {error}"))
        }
    }

    pub(crate) fn check(zip: &Path, max_bytes: u64) -> Result<(), InputError> {
        unzip::check(zip, max_bytes)
    }

    pub(crate) fn unpack(zip: &Path, into: &Path, max_bytes: u64) -> Result<(), InputError> {
        unzip::unpack(zip, into, max_bytes)
    }
}

#[derive(Debug, Arbitrary)]
struct Zip {
    entries: Vec<Entry>,
    /// Offset and value of bytes that are changed at the end.
    changes: Vec<(u16, u8)>,
    suffix: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Entry {
    name: Name,
    mode: u16,
    flags: u16,
    extra: Vec<u8>,
    content: Vec<u8>,
    is_compressed: bool,
    /// How often the content is repeated.
    repetitions: u8,
}

#[derive(Debug, Arbitrary)]
enum Name {
    Parts(Vec<u8>),
    Text(String),
    Bytes(Vec<u8>),
}

const PARTS: [&str; 9] = ["a", "b", "c", "..", ".", "", "outside", "canary", "A"];
const MAX_BYTES: u64 = 256 << 10;
/// UTF-8 names. Other flags, such as encryption, are rare.
const KNOWN_FLAGS: u16 = 1 << 11;

impl Name {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Parts(parts) => {
                let part = |index: &u8| PARTS[usize::from(*index) % PARTS.len()];
                let parts: Vec<&str> = parts.iter().map(part).collect();
                parts.join("/").into_bytes()
            }
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
        };
        bytes.truncate(u16::MAX.into());
        bytes
    }
}

impl Entry {
    /// The fields that the local and the central header share, the name and extra field, and the
    /// packed content.
    fn encode(&self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let content = self.content.repeat(self.repetitions.max(1).into());
        let mut crc = Crc::new();
        crc.update(&content);
        let packed = if self.is_compressed {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(&content).and_then(|()| encoder.finish());
            written.expect("writing to memory never fails")
        } else {
            content.clone()
        };
        let name = self.name.bytes();
        let extra = &self.extra[..self.extra.len().min(64)];
        let flags = if self.flags.is_multiple_of(16) {
            self.flags
        } else {
            self.flags & KNOWN_FLAGS
        };
        let method = if self.is_compressed { 8 } else { 0 };
        let mut fields = Vec::new();
        for number in [20, flags, method, 0, 0x21] {
            fields.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), packed.len() as u32, content.len() as u32] {
            fields.extend(number.to_le_bytes());
        }
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend((extra.len() as u16).to_le_bytes());
        (fields, [&name, extra].concat(), packed)
    }
}

impl Zip {
    fn encode(&self) -> Vec<u8> {
        let mut zip = Vec::new();
        let mut directory = Vec::new();
        for entry in &self.entries {
            let (fields, name, packed) = entry.encode();
            directory.extend(b"PK\x01\x02\x14\x03");
            directory.extend(&fields);
            directory.extend([0; 6]);
            directory.extend((u32::from(entry.mode) << 16).to_le_bytes());
            directory.extend((zip.len() as u32).to_le_bytes());
            directory.extend(&name);
            zip.extend(b"PK\x03\x04");
            zip.extend([&fields[..], &name, &packed].concat());
        }
        let offset = zip.len() as u32;
        zip.extend(&directory);
        zip.extend(b"PK\x05\x06\0\0\0\0");
        let count = (self.entries.len() as u16).to_le_bytes();
        zip.extend([count, count].concat());
        zip.extend((directory.len() as u32).to_le_bytes());
        zip.extend(offset.to_le_bytes());
        zip.extend([0; 2]);
        for (offset, value) in &self.changes {
            let offset = usize::from(*offset) % zip.len();
            zip[offset] = *value;
        }
        zip.extend(&self.suffix);
        zip
    }
}

fuzz_target!(|zip: Zip| {
    let playground = Playground::new();
    let upload = tempfile::NamedTempFile::new().expect("there is a writable temporary folder");
    fs::write(upload.path(), zip.encode()).expect("the file is new");
    let checked = input::check(upload.path(), MAX_BYTES);
    let unpacked = input::unpack(upload.path(), &playground.inside(), MAX_BYTES);
    assert_eq!(checked, unpacked);
    let mut size = 0;
    for (path, (mode, content)) in playground.contents() {
        assert!(
            matches!(mode, 0o100_644 | 0o100_755 | 0o040_755),
            "{path:?}: {mode:o}"
        );
        size += content.len() as u64;
    }
    assert!(size <= MAX_BYTES);
    playground.assert_outside_unchanged();
});
