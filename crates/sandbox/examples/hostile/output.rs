//! Lines 70 to 76: output that is too long, unusual, or imitates the protocol.

use std::fs::OpenOptions;
use std::io::{self, Write};

use super::{Attack, AttackArguments, breach, held, refused};

pub(crate) const ATTACKS: &[Attack] = &[
    ("flood", flood),
    ("all-bytes", all_bytes),
    ("odd-names", odd_names),
    ("type-into-terminal", type_into_terminal),
    ("forge-frames", forge_frames),
    ("frames-everywhere", frames_everywhere),
    ("environment", environment),
];

/// That many bytes without a newline.
fn flood(world: &AttackArguments) {
    let block = [b'x'; 64 * 1024];
    let mut left = world.number("bytes");
    let mut out = io::stdout().lock();
    while left > 0 {
        let size = left.min(block.len() as u64);
        // Bypasses the line buffer.
        unsafe { libc::write(1, block.as_ptr().cast(), size as usize) };
        left -= size;
    }
    let _ = out.flush();
}

/// All byte values, and invalid text.
fn all_bytes(_: &AttackArguments) {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend_from_slice(b"\xc3\x28\xed\xa0\x80\xf8\x88\x80\x80\x80\xff\xfe\xc0\xaf\xe2\x82");
    bytes.extend_from_slice(b"\x1b]52;c;aG9zdGlsZQ==\x07\x1b[2J\x1bP+q544e\x1b\\\x9b6n");
    for descriptor in [1, 2] {
        unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    }
}

fn odd_names(_: &AttackArguments) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    for name in [
        &b"\xff\xfe"[..],
        b"\x1b]52;c;aG9zdGlsZQ==\x07",
        b"<img src=x onerror=alert(1)>",
        b"line\nbreak",
        b"-rf",
    ] {
        std::fs::write(OsStr::from_bytes(name), b"needle \xff\x1b[31m\n").unwrap();
    }
    held("planted");
}

/// Types into its own terminal, as if the user had.
fn type_into_terminal(_: &AttackArguments) {
    for descriptor in 0..3 {
        for byte in b"hostile\n" {
            let returned = unsafe { libc::ioctl(descriptor, libc::TIOCSTI, byte) };
            refused("TIOCSTI", returned.into());
        }
        // A filter that compares all 64 bits would allow this; the kernel reads 32.
        let request = libc::TIOCSTI | 1 << 32;
        let returned =
            unsafe { libc::syscall(libc::SYS_ioctl, descriptor, request, c"x".as_ptr()) };
        refused("TIOCSTI with a high bit", returned);
        let mut subcode = 2u8;
        let returned = unsafe { libc::ioctl(descriptor, 0x541c, &raw mut subcode) };
        refused("TIOCLINUX", returned.into());
        let discipline = 1;
        let returned = unsafe { libc::ioctl(descriptor, 0x5423, &raw const discipline) };
        refused("TIOCSETD", returned.into());
    }
    if let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") {
        use std::os::fd::AsRawFd;
        let returned = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()) };
        refused("TIOCSTI at /dev/tty", returned.into());
    } else {
        held("TIOCSTI at /dev/tty: it cannot be opened");
    }
}

/// Frames of every kind, for every stream that may be open: a hello, an end, an exit code of 0.
fn frames() -> Vec<u8> {
    let mut frames = Vec::new();
    for stream in 0..16u32 {
        for kind in 0..=11u8 {
            let payload: &[u8] = match kind {
                4 => &[0, 0, 0, 0],
                7 => &[0xff; 4],
                _ => b"forged",
            };
            frames.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            frames.extend_from_slice(&stream.to_le_bytes());
            frames.push(kind);
            frames.extend_from_slice(payload);
        }
    }
    // And one that announces an impossible length.
    frames.extend_from_slice(&[0xff; 64]);
    frames
}

fn forge_frames(_: &AttackArguments) {
    let frames = frames();
    for descriptor in [1, 2] {
        unsafe { libc::write(descriptor, frames.as_ptr().cast(), frames.len()) };
    }
    std::process::exit(7);
}

fn frames_everywhere(_: &AttackArguments) {
    let frames = frames();
    let mut reached = 0;
    for descriptor in (0..1024).filter(|number| *number != 1) {
        let written = unsafe { libc::write(descriptor, frames.as_ptr().cast(), frames.len()) };
        reached += i32::from(written > 0);
    }
    for pid in ["1", "self"] {
        for descriptor in (0..64).filter(|number| *number != 1) {
            let path = format!("/proc/{pid}/fd/{descriptor}");
            if let Ok(mut file) = OpenOptions::new().write(true).open(&path) {
                reached += i32::from(file.write_all(&frames).is_ok());
                if pid == "1" {
                    breach(format_args!("opened {path}"));
                }
            }
        }
    }
    held(format_args!("wrote frames to {reached} descriptors"));
}

/// Prints the environment of this program.
fn environment(_: &AttackArguments) {
    for (name, value) in std::env::vars_os() {
        println!("VARIABLE {}={}", name.display(), value.display());
    }
    held("that is all");
}
