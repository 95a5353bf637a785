//! Layers of an untrusted image: whatever the entries of their tars are, files appear only inside
//! the root and within the limits, and the result does not depend on how the bytes are split.

#![no_main]

use std::io::{self, Read, Write};
use std::path::Path;

use arbitrary::Arbitrary;
use flate2::Compression;
use flate2::write::GzEncoder;
use hotcell_fuzz::{Playground, split};
use libfuzzer_sys::fuzz_target;
use tar::{EntryType, Header};

use self::images::unpack::budget::{UnpackBudget, UnpackLimits, unpacked};
use self::images::unpack::tree::RootTree;
use self::images::unpack::{TarContent, UnpackError, apply};

#[path = "../../crates/images/src/digest.rs"]
#[allow(dead_code, reason = "the image store uses the rest")]
mod digest;
#[path = "../../crates/images/src"]
mod images {
    #[allow(dead_code, reason = "the image store uses the rest")]
    pub(crate) mod unpack;
}

#[derive(Debug, Arbitrary)]
struct Layer {
    pieces: Vec<Piece>,
    is_compressed: bool,
    is_whole_root: bool,
    read_lengths: Vec<u16>,
}

/// Headers with a valid checksum, and any bytes.
#[derive(Debug, Arbitrary)]
enum Piece {
    Entry {
        kind: u8,
        name: Name,
        link: Name,
        mode: u16,
        content: Vec<u8>,
        /// Offset and value of bytes that are changed before the checksum is written.
        changes: Vec<(u16, u8)>,
    },
    ExtendedHeader(Vec<(u8, Value)>),
    LongName(Name),
    LongLink(Name),
    Bytes(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Name {
    Parts(Vec<u8>),
    Bytes(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Value {
    Number(u64),
    Name(Name),
}

const PARTS: [&[u8]; 11] = [
    b"a",
    b"b",
    b"c",
    b"..",
    b".",
    b"",
    b"outside",
    b"canary",
    b".wh.a",
    b".wh.",
    b".wh..wh..opq",
];
const KINDS: &[u8] = b"0123456757SxgLK\0";
const EXTENDED_KEYS: [&str; 5] = ["path", "linkpath", "size", "mtime", "comment"];
const MAX_LAYERS: usize = 3;
const MAX_ENTRIES: u64 = 64;
const LIMITS: UnpackLimits = UnpackLimits {
    bytes: 1 << 20,
    entries: MAX_ENTRIES,
    ratio: 200,
    layers: MAX_LAYERS,
};

impl Name {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Parts(parts) => {
                let part = |index: &u8| PARTS[usize::from(*index) % PARTS.len()];
                parts.iter().map(part).collect::<Vec<_>>().join(&b'/')
            }
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl Piece {
    fn tar(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::LongName(name) => entry(EntryType::GNULongName, &name.bytes()),
            Self::LongLink(name) => entry(EntryType::GNULongLink, &name.bytes()),
            Self::ExtendedHeader(records) => {
                let records: Vec<_> = records.iter().map(extended_record).collect();
                entry(EntryType::XHeader, &records.concat())
            }
            Self::Entry {
                kind,
                name,
                link,
                mode,
                content,
                changes,
            } => {
                let kind = EntryType::new(KINDS[usize::from(*kind) % KINDS.len()]);
                let mut header = new_header(kind, content.len());
                header.set_mode((*mode).into());
                if let Some(gnu) = header.as_gnu_mut() {
                    copy_start(&mut gnu.name, &name.bytes());
                    copy_start(&mut gnu.linkname, &link.bytes());
                }
                let block = header.as_mut_bytes();
                for (offset, value) in changes {
                    block[usize::from(*offset) % block.len()] = *value;
                }
                with_content(header, content)
            }
        }
    }
}

fn entry(kind: EntryType, content: &[u8]) -> Vec<u8> {
    with_content(new_header(kind, content.len()), content)
}

fn new_header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(0o644);
    header.set_mtime(1);
    header
}

fn with_content(mut header: Header, content: &[u8]) -> Vec<u8> {
    header.set_cksum();
    let mut bytes = [&header.as_bytes()[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn copy_start(field: &mut [u8], bytes: &[u8]) {
    let length = field.len().min(bytes.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

/// `LENGTH KEY=VALUE\n`, where the length includes its own digits.
fn extended_record((key, value): &(u8, Value)) -> Vec<u8> {
    let key = EXTENDED_KEYS[usize::from(*key) % EXTENDED_KEYS.len()];
    let value = match value {
        Value::Number(number) => number.to_string().into_bytes(),
        Value::Name(name) => name.bytes(),
    };
    let rest = [b" ", key.as_bytes(), b"=", &value, b"\n"].concat();
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length += 1;
    }
    [length.to_string().as_bytes(), &rest].concat()
}

impl Layer {
    fn stream(&self) -> Vec<u8> {
        let tar: Vec<u8> = self.pieces.iter().flat_map(Piece::tar).collect();
        if !self.is_compressed {
            return tar;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let written = encoder.write_all(&tar).and_then(|()| encoder.finish());
        written.expect("writing to memory never fails")
    }
}

/// Returns one piece for each read.
struct PieceReader<'a>(std::vec::IntoIter<&'a [u8]>, &'a [u8]);

impl Read for PieceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.next().unwrap_or_default();
        }
        self.1.read(buffer)
    }
}

fuzz_target!(|layers: Vec<Layer>| {
    let layers = &layers[..layers.len().min(MAX_LAYERS)];
    let streams: Vec<Vec<u8>> = layers.iter().map(Layer::stream).collect();
    let (whole, split) = (Playground::new(), Playground::new());
    let whole_outcome = unpack(&whole.inside(), layers, &streams, false);
    let split_outcome = unpack(&split.inside(), layers, &streams, true);
    assert_eq!(
        whole_outcome.is_ok(),
        split_outcome.is_ok(),
        "{whole_outcome:?}, {split_outcome:?}"
    );
    let contents = whole.contents();
    for (mode, _) in contents.values() {
        assert_eq!(mode & 0o6000, 0);
    }
    if whole_outcome.is_ok() {
        assert_eq!(contents, split.contents());
    }
    whole.assert_outside_unchanged();
    split.assert_outside_unchanged();
});

fn unpack(
    root: &Path,
    layers: &[Layer],
    streams: &[Vec<u8>],
    is_split: bool,
) -> Result<(), UnpackError> {
    let mut tree = RootTree::open(root)?;
    let mut budget = UnpackBudget::new(LIMITS);
    for (layer, stream) in layers.iter().zip(streams) {
        let pieces = if is_split {
            split(stream, &layer.read_lengths)
        } else {
            vec![&stream[..]]
        };
        let content = if layer.is_whole_root {
            TarContent::Whole
        } else {
            TarContent::Layer
        };
        let reader = PieceReader(pieces.into_iter(), &[]);
        apply(unpacked(reader, &budget)?, content, &mut tree, &mut budget)?;
    }
    Ok(())
}
