//! Lines 45 and 46: the disk, in plain files and in places that a scan might miss.
//!
//! Each writes a total of eight times the limit, slowly enough for a periodic scan; only the attack
//! that allocates without writing does not wait.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::{Attack, AttackArguments, breach, check, held, pause};

pub(crate) const ATTACKS: &[Attack] = &[
    ("disk", disk),
    ("disk-unlinked", unlinked),
    ("disk-locked-folder", locked_folder),
    ("disk-deep", deep),
    ("disk-undumpable", undumpable),
    ("disk-in-flight", in_flight),
    ("disk-mapped", mapped),
    ("disk-allocate", allocate),
    ("disk-again", again),
    ("disk-step", step),
    ("inodes", inodes),
];

const STEP_BYTES: usize = 1 << 20;

/// Time for the guard to act on the last step.
pub(super) const GUARD_REACTION_TIME: Duration = Duration::from_secs(2);

/// Writes 1 MiB steps. Reaching the end means that the limit was not enforced.
pub(super) fn fill(
    what: &str,
    world: &AttackArguments,
    mut step: impl FnMut(u64, &[u8]) -> io::Result<()>,
) {
    let content = vec![1u8; STEP_BYTES];
    let steps = world.number("bytes") / STEP_BYTES as u64;
    held(format_args!("{what}: begins"));
    for number in 0..steps {
        if let Err(error) = step(number, &content) {
            held(format_args!("{what}: {error} after {number} MiB"));
            return;
        }
        pause(5);
    }
    let end = Instant::now() + GUARD_REACTION_TIME;
    while Instant::now() < end {
        pause(20);
    }
    breach(format_args!("{what}: {steps} MiB"));
}

/// A file for each 8 MiB, because a single file may not exceed the limit.
fn name(number: u64) -> String {
    format!("hoard-{}", number / 8)
}

fn append(path: &str, content: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(content)
}

fn disk(world: &AttackArguments) {
    fill("files", world, |number, content| {
        append(&name(number), content)
    });
}

fn hoard_unlinked(what: &str, world: &AttackArguments) {
    let mut open: Vec<File> = Vec::new();
    fill(what, world, |number, content| {
        if number.is_multiple_of(8) {
            open.push(File::create("hoard")?);
            fs::remove_file("hoard")?;
        }
        open.last_mut().unwrap().write_all(content)
    });
}

fn unlinked(world: &AttackArguments) {
    hoard_unlinked("removed files that are open", world);
}

/// In a folder that even its owner may not list.
fn locked_folder(world: &AttackArguments) {
    fs::create_dir("locked").unwrap();
    let mut open: Vec<File> = (0..64)
        .map(|n| File::create(format!("locked/{n}")).unwrap())
        .collect();
    fs::set_permissions("locked", fs::Permissions::from_mode(0o000)).unwrap();
    fill("files in a locked folder", world, |number, content| {
        open[number as usize / 8].write_all(content)
    });
}

/// At the end of a path that exceeds the maximum path length.
fn deep(world: &AttackArguments) {
    let long = "d".repeat(250);
    for _ in 0..20 {
        fs::create_dir(&long).unwrap();
        std::env::set_current_dir(&long).unwrap();
    }
    fill("files in a deep folder", world, |number, content| {
        append(&name(number), content)
    });
}

/// In a process that cannot be inspected.
fn undumpable(world: &AttackArguments) {
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0u64) };
    hoard_unlinked("removed files of a process that hides", world);
}

/// Open files that are in no process, only in flight in a socket.
fn in_flight(world: &AttackArguments) {
    let mut pair = [0; 2];
    let kind = libc::SOCK_DGRAM;
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }.into()).unwrap();
    fill("removed files in flight", world, |_, content| {
        let mut file = File::create("hoard")?;
        fs::remove_file("hoard")?;
        file.write_all(content)?;
        send_descriptor(pair[0], file.as_raw_fd()).or_else(|error| {
            // The queue of one socket is short: continue with another, and keep the full one open.
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
            check(made.into())?;
            send_descriptor(pair[0], file.as_raw_fd())
        })
    });
}

fn send_descriptor(socket: i32, descriptor: i32) -> io::Result<()> {
    let mut byte = 0u8;
    let mut data = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 4];
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header)
            .cast::<i32>()
            .write_unaligned(descriptor);
        check(libc::sendmsg(socket, &raw const message, libc::MSG_DONTWAIT) as i64)?;
    }
    Ok(())
}

/// Removed and closed: only a mapping keeps them alive.
fn mapped(world: &AttackArguments) {
    fill("removed files that are mapped", world, |_, content| {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open("hoard")?;
        fs::remove_file("hoard")?;
        file.write_all(content)?;
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                STEP_BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    });
}

/// Allocates blocks without writing them, all at once; the suite checks the free disk space.
fn allocate(world: &AttackArguments) {
    let each = world.number("each");
    let files = world.number("bytes") / each;
    for number in 0..files {
        let file = File::create(format!("hoard-{number}")).unwrap();
        let returned = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, each as i64) };
        if let Err(error) = check(returned.into()) {
            held(format_args!("allocate: {error} after {number} files"));
            return;
        }
    }
    held(format_args!("allocated {files} files"));
}

/// One of several commands that each fill the space that the previous one left.
fn again(world: &AttackArguments) {
    let round = world.number("round");
    let what = format!("round {round}");
    fill(&what, world, |number, content| {
        append(&format!("round-{round}-{}", number / 8), content)
    });
}

/// One of many short commands that each write a little and end.
fn step(world: &AttackArguments) {
    let number = world.number("step");
    let content = vec![1u8; world.number("bytes") as usize];
    match append(&format!("step-{number}"), &content) {
        Ok(()) => held(format_args!("step {number}: written")),
        Err(error) => held(format_args!("step {number}: {error}")),
    }
}

/// Empty files.
fn inodes(world: &AttackArguments) {
    let most = world.number("inodes") * 8;
    let path = |number: u64| CString::new(format!("names/{}/{number}", number / 1000)).unwrap();
    fs::create_dir("names").unwrap();
    held("inodes: begins");
    for number in 0..most {
        if number.is_multiple_of(1000) {
            fs::create_dir(format!("names/{}", number / 1000)).unwrap();
            pause(10);
        }
        let made = unsafe { libc::mknod(path(number).as_ptr(), libc::S_IFREG | 0o644, 0) };
        if let Err(error) = check(made.into()) {
            held(format_args!("inodes: {error} after {number}"));
            return;
        }
    }
    pause(GUARD_REACTION_TIME.as_millis() as u64);
    breach(format_args!("{most} files"));
}
