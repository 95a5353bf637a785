//! Lines 45, 86 and 88: disk space and inodes in unlinked files, held where a scan of the
//! workspace, of live processes or of the counters of ended ones might miss them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use super::disk::{GUARD_REACTION_TIME, fill};
use super::{Attack, AttackArguments, breach, check, held, pause, refused};

pub(crate) const ATTACKS: &[Attack] = &[
    ("disk-unreaped", unreaped),
    ("disk-relay", relay),
    ("disk-ended-leader", ended_leader),
    ("disk-project", project),
    ("inodes-unlinked", unlinked_inodes),
    ("inodes-sockets", socket_inodes),
];

fn create_unlinked() -> io::Result<File> {
    let file = File::create("hoard")?;
    fs::remove_file("hoard")?;
    Ok(file)
}

/// Children write. Their parent ignores SIGCHLD, so the kernel adds their counters to no process.
fn unreaped(world: &AttackArguments) {
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut open: Vec<File> = Vec::new();
    let what = "removed files written by children that nobody waits for";
    fill(what, world, |number, content| {
        if number.is_multiple_of(8) {
            open.push(create_unlinked()?);
        }
        let file = open.last_mut().unwrap();
        match unsafe { libc::fork() } {
            0 => {
                let code = i32::from(file.write_all(content).is_err());
                unsafe { libc::_exit(code) }
            }
            -1 => return Err(io::Error::last_os_error()),
            _ => {}
        }
        // Returns when no child is left.
        unsafe { libc::wait(std::ptr::null_mut()) };
        Ok(())
    });
}

/// Files are passed from parent to child all the time: each process is gone before a slow scan
/// inspects it.
fn relay(world: &AttackArguments) {
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut open: Vec<File> = Vec::new();
    let mut pipe = [0; 2];
    check(unsafe { libc::pipe(pipe.as_mut_ptr()) }.into()).unwrap();
    if unsafe { libc::fork() } != 0 {
        // The suite waits for this process, while its descendants hold the files.
        unsafe { libc::close(pipe[1]) };
        unsafe { libc::read(pipe[0], [0u8].as_mut_ptr().cast(), 1) };
        return;
    }
    fill("removed files in a relay", world, |number, content| {
        if number.is_multiple_of(8) {
            open.push(create_unlinked()?);
        }
        open.last_mut().unwrap().write_all(content)?;
        for _ in 0..4 {
            match unsafe { libc::fork() } {
                0 => {}
                -1 => return Err(io::Error::last_os_error()),
                _ => unsafe { libc::_exit(0) },
            }
        }
        Ok(())
    });
}

/// The main thread ends, and with it most of what `/proc/PID` shows of the process.
fn ended_leader(world: &AttackArguments) {
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut open: Vec<File> = Vec::new();
            let what = "removed files of a process without its first thread";
            fill(what, world, |number, content| {
                if number.is_multiple_of(8) {
                    open.push(create_unlinked()?);
                }
                open.last_mut().unwrap().write_all(content)
            });
            unsafe { libc::_exit(0) }
        });
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
}

/// Moves the workspace to another project, which has no quota.
fn project(_: &AttackArguments) {
    // `struct fsxattr`: flags, two sizes, the project.
    let mut attributes = [0u32; 7];
    let folder = File::open(".").unwrap();
    unsafe {
        libc::ioctl(folder.as_raw_fd(), 0x801c_581f, attributes.as_mut_ptr());
        attributes[0] &= !0x200;
        attributes[3] = attributes[3].wrapping_add(1);
        let returned = libc::ioctl(folder.as_raw_fd(), 0x401c_5820, attributes.as_ptr());
        refused("another project", returned.into());
    }
}

/// Eight times the limit, spread over processes, because each has a limit of open files.
fn hoard_inodes<T>(what: &str, world: &AttackArguments, make: impl Fn(u64) -> io::Result<T>) {
    const EACH: u64 = 3000;
    let most = world.number("inodes") * 8;
    held(format_args!("{what}: begins"));
    for child in 0..most.div_ceil(EACH) {
        let mut pipe = [0; 2];
        check(unsafe { libc::pipe(pipe.as_mut_ptr()) }.into()).unwrap();
        match unsafe { libc::fork() } {
            0 => {
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let hoard: Vec<T> = (0..EACH)
                    .map_while(|number| {
                        if number.is_multiple_of(500) {
                            pause(10);
                        }
                        make(child * EACH + number).ok()
                    })
                    .collect();
                let is_full = [u8::from(hoard.len() as u64 == EACH)];
                unsafe { libc::write(pipe[1], is_full.as_ptr().cast(), 1) };
                pause(60_000);
                unsafe { libc::_exit(0) }
            }
            -1 => {
                held(format_args!("{what}: {}", io::Error::last_os_error()));
                return;
            }
            _ => unsafe { libc::close(pipe[1]) },
        };
        let mut is_full = [0u8];
        unsafe { libc::read(pipe[0], is_full.as_mut_ptr().cast(), 1) };
        unsafe { libc::close(pipe[0]) };
        if is_full == [0] {
            held(format_args!("{what}: refused in process {child}"));
            return;
        }
    }
    pause(GUARD_REACTION_TIME.as_millis() as u64);
    breach(format_args!("{most} {what}"));
}

/// Empty files that are kept alive only by descriptors.
fn unlinked_inodes(world: &AttackArguments) {
    hoard_inodes("removed files", world, |number| {
        let path = format!("hoard-{number}");
        let file = File::create(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    });
}

/// Sockets whose names were removed: no descriptor refers to the inode.
fn socket_inodes(world: &AttackArguments) {
    hoard_inodes("removed sockets", world, |number| {
        let path = format!("hoard-{number}");
        let socket = UnixDatagram::bind(&path)?;
        fs::remove_file(&path)?;
        Ok(socket)
    });
}
