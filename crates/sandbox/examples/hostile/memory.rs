//! Lines 43, 44 and 50: memory of every kind, up to a number of bytes that is well past the limit.
//!
//! Each prints a line for every step, so that a kill leaves a trace.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::FromRawFd;

use super::{Attack, AttackArguments, breach, check, held};

pub(crate) const ATTACKS: &[Attack] = &[
    ("memory", memory),
    ("memory-spared", memory_spared),
    ("memory-many", memory_many),
    ("memory-shared", memory_shared),
    ("memory-file", memory_file),
    ("memory-sockets", memory_sockets),
    ("tmpfs", tmpfs),
    ("sysv-shared-memory", sysv_shared_memory),
    ("sysv-semaphores", sysv_semaphores),
    ("sysv-messages", sysv_messages),
];

const STEP_BYTES: usize = 4 << 20;

/// Takes step after step until that many bytes are taken or a step fails.
fn grow(what: &str, bytes: u64, step: u64, mut take: impl FnMut(u64) -> io::Result<()>) {
    let mut taken = 0;
    while taken < bytes {
        if let Err(error) = take(taken / step) {
            held(format_args!("{what}: {error} after {taken} bytes"));
            return;
        }
        taken += step;
    }
    breach(format_args!("{what}: {taken} bytes"));
}

fn map(flags: libc::c_int) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_ANONYMOUS;
    let at = unsafe { libc::mmap(std::ptr::null_mut(), STEP_BYTES, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(at.cast())
    }
}

fn touch(at: *mut u8) {
    for offset in (0..STEP_BYTES).step_by(4096) {
        unsafe { at.add(offset).write_volatile(1) };
    }
}

fn memory(world: &AttackArguments) {
    grow(
        "private memory",
        world.number("bytes"),
        STEP_BYTES as u64,
        |_| map(libc::MAP_PRIVATE).map(touch),
    );
}

/// Asks the kernel to kill other processes first.
fn memory_spared(world: &AttackArguments) {
    for score in ["-1000", "-999", "0"] {
        if std::fs::write("/proc/self/oom_score_adj", score).is_ok() {
            break;
        }
    }
    memory(world);
}

/// Many processes, each of them small.
fn memory_many(world: &AttackArguments) {
    let bytes = world.number("bytes");
    let mut ready = [0; 2];
    check(unsafe { libc::pipe(ready.as_mut_ptr()) }.into()).unwrap();
    let mut count = 0;
    while count * (STEP_BYTES as u64) < bytes {
        match unsafe { libc::fork() } {
            0 => {
                let taken = map(libc::MAP_PRIVATE).map(touch);
                unsafe {
                    libc::write(ready[1], c"x".as_ptr().cast(), usize::from(taken.is_ok()));
                    loop {
                        libc::pause();
                    }
                }
            }
            -1 => break,
            _ => count += 1,
        }
    }
    let mut pipe = unsafe { std::fs::File::from_raw_fd(ready[0]) };
    let mut done = 0;
    let killed = loop {
        let mut poll = libc::pollfd {
            fd: ready[0],
            events: libc::POLLIN,
            revents: 0,
        };
        if unsafe { libc::poll(&raw mut poll, 1, 20) } > 0 {
            done += pipe.read(&mut [0; 1]).unwrap_or(0) as u64;
        }
        if done == count {
            break false;
        }
        if unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {
            break true;
        }
    };
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::kill(0, libc::SIGTERM);
    }
    if killed {
        held(format_args!(
            "one was killed, {done} of {count} had their memory"
        ))
    } else {
        breach(format_args!(
            "{count} processes with {STEP_BYTES} bytes each"
        ))
    }
}

fn memory_shared(world: &AttackArguments) {
    grow(
        "shared memory",
        world.number("bytes"),
        STEP_BYTES as u64,
        |_| map(libc::MAP_SHARED).map(touch),
    );
}

fn memory_file(world: &AttackArguments) {
    let content = vec![1u8; STEP_BYTES];
    grow(
        "memory files",
        world.number("bytes"),
        STEP_BYTES as u64,
        |_| {
            let raw = check(unsafe { libc::memfd_create(c"hoard".as_ptr(), 0) }.into())?;
            let mut file = unsafe { std::fs::File::from_raw_fd(raw as i32) };
            file.write_all(&content)?;
            std::mem::forget(file);
            Ok(())
        },
    );
}

/// Bytes that were sent but never read stay in the kernel.
fn memory_sockets(world: &AttackArguments) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let content = vec![1u8; 256 * 1024];
    let bytes = world.number("bytes");
    let mut taken = 0u64;
    let mut open = Vec::new();
    while taken < bytes {
        let pair = TcpStream::connect(address).and_then(|one| Ok((one, listener.accept()?.0)));
        let (mut one, other) = match pair {
            Ok(pair) => pair,
            Err(error) => {
                held(format_args!("{taken} bytes in sockets: {error}"));
                return;
            }
        };
        one.set_nonblocking(true).unwrap();
        let before = taken;
        while let Ok(length) = one.write(&content) {
            taken += length as u64;
        }
        if taken == before {
            held(format_args!("{taken} bytes in sockets: no more is taken"));
            return;
        }
        open.push((one, other));
    }
    breach(format_args!("{taken} bytes in {} sockets", open.len()));
}

/// Files of 4 MiB in every file system that is in memory.
fn tmpfs(world: &AttackArguments) {
    let content = vec![1u8; STEP_BYTES];
    let bytes = world.number("bytes");
    let mut taken = 0;
    for folder in [
        "/tmp",
        "/dev/shm",
        "/home/hotcell",
        "/run",
        "/dev",
        "/var/tmp",
    ] {
        for number in 0.. {
            let path = format!("{folder}/hoard-{number}");
            let open = OpenOptions::new().create(true).append(true).open(&path);
            let written = open.and_then(|mut file| file.write_all(&content));
            taken += std::fs::metadata(&path).map_or(0, |file| file.len());
            if let Err(error) = written {
                held(format_args!("{path}: {error}, {taken} bytes in all"));
                break;
            }
            if taken > bytes {
                breach(format_args!("{taken} bytes in memory file systems"));
                return;
            }
        }
    }
}

fn sysv_shared_memory(world: &AttackArguments) {
    grow(
        "System V shared memory",
        world.number("bytes"),
        STEP_BYTES as u64,
        |_| {
            let id = check(unsafe { libc::shmget(libc::IPC_PRIVATE, STEP_BYTES, 0o600) }.into())?;
            let at = unsafe { libc::shmat(id as i32, std::ptr::null(), 0) };
            if at as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            touch(at.cast());
            // Detached and not removed: the memory belongs to no process, and stays as long as the
            // sandbox lives.
            unsafe { libc::shmdt(at) };
            Ok(())
        },
    );
}

/// A semaphore takes 64 bytes of the kernel's memory.
fn sysv_semaphores(world: &AttackArguments) {
    grow(
        "System V semaphores",
        world.number("bytes"),
        32_000 * 64,
        |_| check(unsafe { libc::semget(libc::IPC_PRIVATE, 32_000, 0o600) }.into()).map(|_| ()),
    );
}

fn sysv_messages(world: &AttackArguments) {
    let message = [1u8; 8 + 8192];
    grow("System V messages", world.number("bytes"), 16_384, |_| {
        let queue = check(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }.into())? as i32;
        for _ in 0..2 {
            let (text, flags) = (message.as_ptr().cast(), libc::IPC_NOWAIT);
            check(unsafe { libc::msgsnd(queue, text, 8192, flags) }.into())?;
        }
        Ok(())
    });
}
