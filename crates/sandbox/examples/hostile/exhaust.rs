//! Lines 42 and 46 to 49: processes, descriptors, threads, processor time, and resources that all
//! users of the machine share.

use std::fs::{self, File};
use std::io;
use std::os::fd::IntoRawFd;

use super::{Attack, AttackArguments, breach, check, has_own_kernel, held, judge, pause};

pub(crate) const ATTACKS: &[Attack] = &[
    ("fork-bomb", fork_bomb),
    ("fork-bomb-sessions", fork_bomb_sessions),
    ("threads", threads),
    ("open-files", open_files),
    ("raise-limits", raise_limits),
    ("spin", spin),
    ("spin-daemon", spin_daemon),
    ("affinity", affinity),
    ("terminals", terminals),
    ("watches", watches),
];

/// Every process forks without end; prints `FULL` when no more can be created.
fn bomb(each: fn()) {
    ignore_terminate();
    let first = unsafe { libc::getpid() };
    let mut said = false;
    loop {
        match unsafe { libc::fork() } {
            0 => each(),
            -1 => {
                if !said && unsafe { libc::getpid() } == first {
                    held(format_args!("FULL: {}", io::Error::last_os_error()));
                    said = true;
                }
                unsafe { libc::sched_yield() };
            }
            _ => {}
        }
    }
}

fn fork_bomb(_: &AttackArguments) {
    bomb(|| {});
}

fn fork_bomb_sessions(_: &AttackArguments) {
    bomb(|| unsafe {
        libc::setsid();
    });
}

fn ignore_terminate() {
    for signal in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGXCPU,
        libc::SIGALRM,
    ] {
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Prints `FULL` and waits: the suite counts from outside.
fn threads(world: &AttackArguments) {
    let limit = world.number("pids");
    let mut count = 1;
    let error = loop {
        let started = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| {
            loop {
                std::thread::park();
            }
        });
        match started {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        if count > limit * 2 {
            breach(format_args!("{count} threads"));
            return;
        }
    };
    held(format_args!("FULL: {count} threads: {error}"));
    loop {
        std::thread::park();
    }
}

fn open_files(world: &AttackArguments) {
    let limit = world.number("files");
    let mut count = 3;
    loop {
        match File::open("/dev/null") {
            Ok(file) => {
                let _ = file.into_raw_fd();
                count += 1;
            }
            Err(error) => {
                held(format_args!("{count} open files: {error}"));
                break;
            }
        }
        if count > limit {
            breach(format_args!("{count} open files"));
            break;
        }
    }
    raise_limits(world);
}

fn raise_limits(_: &AttackArguments) {
    for (name, resource) in [
        ("core", libc::RLIMIT_CORE),
        ("file size", libc::RLIMIT_FSIZE),
        ("locked memory", libc::RLIMIT_MEMLOCK),
        ("message queues", libc::RLIMIT_MSGQUEUE),
        ("open files", libc::RLIMIT_NOFILE),
        ("nice", libc::RLIMIT_NICE),
        ("real-time priority", libc::RLIMIT_RTPRIO),
    ] {
        let mut now: libc::rlimit = unsafe { std::mem::zeroed() };
        unsafe { libc::getrlimit(resource, &raw mut now) };
        if now.rlim_max == libc::RLIM_INFINITY {
            breach(format_args!("no limit on {name}"));
            continue;
        }
        let more = libc::rlimit {
            rlim_cur: now.rlim_max + 1,
            rlim_max: now.rlim_max + 1,
        };
        let returned = unsafe { libc::setrlimit(resource, &raw const more) };
        judge(
            format_args!("raise the limit on {name}"),
            check(returned.into()),
        );
    }
}

fn spin(_: &AttackArguments) {
    ignore_terminate();
    held("spinning");
    loop {
        std::hint::spin_loop();
    }
}

fn spin_daemon(world: &AttackArguments) {
    if unsafe { libc::fork() } == 0 {
        unsafe { libc::setsid() };
        spin(world);
    }
    spin(world);
}

/// Tries to move to a processor that it was not given.
fn affinity(_: &AttackArguments) {
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    unsafe { libc::sched_getaffinity(0, size, &raw mut set) };
    let before = unsafe { libc::CPU_COUNT(&set) };
    for processor in 0..1024 {
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    unsafe {
        libc::sched_setaffinity(0, size, &raw const set);
        libc::sched_getaffinity(0, size, &raw mut set);
    }
    let after = unsafe { libc::CPU_COUNT(&set) };
    if after > before {
        breach(format_args!("{after} processors instead of {before}"))
    } else {
        held(format_args!("{after} processors"))
    }
}

/// The machine has a limited number of terminals for all users: half of them are too many for one
/// sandbox.
fn terminals(_: &AttackArguments) {
    let most = number("/proc/sys/kernel/pty/max", 4096);
    let too_many = (most - number("/proc/sys/kernel/pty/reserve", 1024)) / 2;
    let taken = take(too_many, || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/ptmx")
            .map(|file| file.into_raw_fd())
    });
    judge_taken("terminals", taken, too_many);
}

/// The owner of all sandboxes has a limited number of inotify instances for all of them.
fn watches(_: &AttackArguments) {
    let too_many = number("/proc/sys/fs/inotify/max_user_instances", 128) / 2;
    let taken = take(too_many, || {
        check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC) }.into()).map(|fd| fd as i32)
    });
    judge_taken("inotify instances", taken, too_many);
}

/// A number from the kernel, or Linux's default if the file is missing.
fn number(path: &str, usual: u64) -> u64 {
    fs::read_to_string(path).map_or(usual, |text| text.trim().parse().unwrap())
}

fn take(most: u64, mut one: impl FnMut() -> io::Result<i32>) -> (u64, Option<io::Error>) {
    for count in 0..most {
        if let Err(error) = one() {
            return (count, Some(error));
        }
    }
    pause(0);
    (most, None)
}

fn judge_taken(what: &str, (count, error): (u64, Option<io::Error>), too_many: u64) {
    match error {
        Some(error) => held(format_args!("{count} {what}: {error}")),
        None if has_own_kernel() => held(format_args!("{count} {what} that are its own")),
        None => breach(format_args!(
            "{too_many} {what}, half of what all sandboxes share"
        )),
    }
}
