//! Decodes LZ4 as used in kernel images: the "legacy" frame, with blocks of at most 8 MiB. Broken
//! data only causes an error. Entry point: [`unpack`].

use std::io;

use lz4_flex::block::decompress_into;

/// Magic number of the frame.
pub(super) const LEGACY_MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

const MAX_BLOCK_BYTES: usize = 8 << 20;

/// Unpacks a frame without its magic number, up to `longest` bytes. Data that cannot be another
/// block ends it: the kernel's build appends the length to the frame.
pub(super) fn unpack(mut packed: &[u8], longest: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > rest.len() {
            break;
        }
        let (block, after) = rest.split_at(length);
        let begin = out.len();
        out.resize(longest.min(begin + MAX_BLOCK_BYTES), 0);
        let unpacked = decompress_into(block, &mut out[begin..])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        out.truncate(begin + unpacked);
        packed = after;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Uses the `lz4` program for packing.
    #[test]
    fn what_lz4_packs_is_unpacked() {
        let check = |content: &[u8]| {
            let mut lz4 = Command::new("lz4")
                .args(["-l", "-9", "-c"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = lz4.stdin.take().unwrap();
            let given = content.to_vec();
            let writer = std::thread::spawn(move || input.write_all(&given).unwrap());
            let packed = lz4.wait_with_output().unwrap().stdout;
            writer.join().unwrap();
            let (magic, rest) = packed.split_first_chunk::<4>().unwrap();
            assert_eq!(*magic, LEGACY_MAGIC);
            assert!(unpack(rest, 64 << 20).unwrap() == content);
        };
        check(b"x");
        check(&b"abc".repeat(5000));
        let noise: Vec<u8> = (0..10_000_000u64)
            .map(|n| (n.wrapping_mul(6_364_136_223_846_793_005) >> 33) as u8 & 7)
            .collect();
        check(&noise);
    }

    #[test]
    fn broken_data_is_an_error() {
        let check = |block: &[u8]| {
            let mut packed = (block.len() as u32).to_le_bytes().to_vec();
            packed.extend_from_slice(block);
            let error = unpack(&packed, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        };
        check(&[0xf0]);
        check(&[0x50, b'a']);
        check(&[0x10, b'a', 0, 0]);
        check(&[0x10, b'a', 2, 0]);
        check(&[0x10, b'a', 1]);
        check(&[0x1f, b'a', 1, 0, 200, 0x10, b'a']);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>) {
            if let Ok(out) = unpack(&bytes, 1000) {
                assert!(out.len() <= 1000);
            }
        }
    }
}
