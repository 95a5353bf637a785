//! The kernel in the format that Firecracker needs: an ELF file. Distributions pack theirs into a
//! `bzImage`, which is unpacked once and cached. Entry point: [`vmlinux`].

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::lz4;
use crate::backends::confined_guest::own_folder;
use crate::backends::machine::{key, stamp};

/// Size limit of a kernel, packed or not.
const MAX_KERNEL_BYTES: usize = 256 << 20;

const ELF_MAGIC: &[u8] = b"\x7fELF";

/// An unpacked kernel, and a key that identifies it.
#[derive(Debug, Clone)]
pub(super) struct Vmlinux {
    pub(super) file: PathBuf,
    pub(super) key: String,
}

pub(super) fn vmlinux(cache: &Path, kernel: &Path) -> io::Result<Vmlinux> {
    let key = key(&[stamp(kernel)]);
    let folder = own_folder(&cache.join("machines"))?;
    let file = folder.join(format!("vmlinux-{key}"));
    if !file.is_file() {
        let mut packed = Vec::new();
        let most = MAX_KERNEL_BYTES as u64;
        File::open(kernel)?.take(most).read_to_end(&mut packed)?;
        let unpacked = unpack(&packed)?;
        let draft = folder.join(format!(".vmlinux-{}-{key}", std::process::id()));
        let mut writing = File::create(&draft)?;
        writing.write_all(&unpacked)?;
        writing.sync_all()?;
        fs::rename(&draft, &file)?;
    }
    Ok(Vmlinux { file, key })
}

/// Converts any kernel file to ELF.
fn unpack(kernel: &[u8]) -> io::Result<Vec<u8>> {
    if kernel.starts_with(ELF_MAGIC) {
        return Ok(kernel.to_vec());
    }
    let payload = payload(kernel).ok_or_else(|| wrong("it is neither ELF nor a `bzImage`"))?;
    let unpacked = match payload {
        _ if payload.starts_with(&lz4::LEGACY_MAGIC) => {
            lz4::unpack(&payload[4..], MAX_KERNEL_BYTES)?
        }
        [0x1f, 0x8b, ..] => read_bounded(flate2::read::GzDecoder::new(payload))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => read_bounded(
            ruzstd::decoding::StreamingDecoder::new(payload).map_err(io::Error::other)?,
        )?,
        _ if payload.starts_with(ELF_MAGIC) => payload.to_vec(),
        _ => return Err(wrong("it is packed in a way that is not known here")),
    };
    if unpacked.starts_with(ELF_MAGIC) {
        Ok(unpacked)
    } else {
        Err(wrong("what is in it is no kernel"))
    }
}

fn read_bounded(unpacking: impl Read) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    unpacking
        .take(MAX_KERNEL_BYTES as u64)
        .read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// The packed kernel in a `bzImage`, located by the boot header.
fn payload(kernel: &[u8]) -> Option<&[u8]> {
    const SECTOR: usize = 512;
    if kernel.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let number = |at: usize| {
        let bytes = kernel.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    // 0 means 4 in old kernels.
    let setup = match *kernel.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let begin = (setup + 1) * SECTOR + number(0x248)?;
    kernel.get(begin..begin.checked_add(number(0x24c)?)?)
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `bzImage` with this payload, as the kernel's build makes it: the length comes last.
    fn packed(payload: &[u8]) -> Vec<u8> {
        let mut kernel = vec![0; 512 * 3 + 64];
        kernel[0x1f1] = 2;
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x248..0x24c].copy_from_slice(&64u32.to_le_bytes());
        kernel[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        kernel.extend_from_slice(payload);
        kernel.extend_from_slice(b"what follows");
        kernel
    }

    #[test]
    fn kernels_are_unpacked_however_they_are_packed() {
        let elf = [ELF_MAGIC, &[7; 20]].concat();
        let check = |kernel: &[u8], expect: Result<&[u8], &str>| match (unpack(kernel), expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect),
            (Err(error), Err(expect)) => {
                assert!(error.to_string().contains(expect), "{error}");
            }
            (outcome, expect) => panic!("{outcome:?}, not {expect:?}"),
        };
        check(&elf, Ok(&elf));
        check(&packed(&elf), Ok(&elf));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&elf).unwrap();
        check(&packed(&gzip.finish().unwrap()), Ok(&elf));
        // Literals only, with the length after the frame.
        let mut lz4 = lz4::LEGACY_MAGIC.to_vec();
        lz4.extend_from_slice(&26u32.to_le_bytes());
        lz4.extend_from_slice(&[0xf0, 24 - 15]);
        lz4.extend_from_slice(&elf);
        lz4.extend_from_slice(&24u32.to_le_bytes());
        check(&packed(&lz4), Ok(&elf));
        check(b"", Err("neither"));
        check(&[0; 4096], Err("neither"));
        check(&packed(b"\xfd7zXZ"), Err("not known here"));
        let mut text = lz4::LEGACY_MAGIC.to_vec();
        text.extend_from_slice(&[2, 0, 0, 0, 0x10, b'a']);
        check(&packed(&text), Err("no kernel"));
        let mut short = packed(&elf);
        short.truncate(1650);
        check(&short[..1610], Err("neither"));
    }

    /// A kernel of the distribution: the unpacked size must match the length that the build
    /// appended.
    #[test]
    fn the_kernel_of_this_machine_is_unpacked() {
        use crate::backends::machine::kernel::VmKernel;
        let machines = crate::backend_config::BackendConfig::default().machines;
        let found = VmKernel::find(&machines, protocol::Backend::Firecracker);
        let kernel = found.expect("hint: apt install linux-image-cloud-amd64");
        let packed = fs::read(&kernel.image).unwrap();
        let (_, length) = payload(&packed).unwrap().split_last_chunk::<4>().unwrap();
        let unpacked = unpack(&packed).unwrap();
        assert_eq!(unpacked.len(), u32::from_le_bytes(*length) as usize);
    }
}
