//! Lines 51 to 54: processes that do not end, and attacks on the guest.

use std::fs;
use std::io::{self, Write};

use super::{
    Attack, AttackArguments, breach, check, held, in_child, judge, last_errno, pause, refused,
};

pub(crate) const ATTACKS: &[Attack] = &[
    ("daemon", daemon),
    ("kill-guest", kill_guest),
    ("kill-all", kill_all),
    ("starve-guest", starve_guest),
    ("stop", stop),
    ("hold-output", hold_output),
    ("deep-folders", deep_folders),
    ("long-line", long_line),
    ("watch-storm", watch_storm),
];

/// Forks twice, as daemons do: no parent, no session, no terminal. The first process waits until
/// that is done, because a kill of its group would hit the daemon before.
fn detach() -> bool {
    let mut done = [0; 2];
    check(unsafe { libc::pipe(done.as_mut_ptr()) }.into()).unwrap();
    unsafe {
        if libc::fork() != 0 {
            libc::close(done[1]);
            libc::read(done[0], [0u8; 1].as_mut_ptr().cast(), 1);
            return false;
        }
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::write(done[1], c"x".as_ptr().cast(), 1);
        libc::close(done[1]);
    }
    true
}

fn daemon(_: &AttackArguments) {
    if detach() {
        unsafe {
            libc::close(0);
            libc::close(1);
            libc::close(2);
            loop {
                libc::pause();
            }
        }
    }
    held("detached");
}

/// Keeps standard output open; the command itself ends.
fn hold_output(_: &AttackArguments) {
    held("ends, with its output open elsewhere");
    if detach() {
        loop {
            unsafe { libc::pause() };
        }
    }
}

fn kill_guest(_: &AttackArguments) {
    for signal in 1..32 {
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Sends all signals that the guest handles while it sleeps: nested handlers need stack space.
    // The guest has a lower priority on the same processor, so it cannot handle the first too early.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut one);
        let lowest = libc::sched_param { sched_priority: 0 };
        for pid in [0, 1] {
            libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &raw const one);
        }
        libc::sched_setscheduler(1, libc::SCHED_IDLE, &raw const lowest);
    }
    pause(5);
    burst(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGBUS,
        libc::SIGSEGV,
        libc::SIGTERM,
        libc::SIGCHLD,
    ]);
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) };
    for signal in 1..=64 {
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            info.si_signo = signal;
            info.si_code = -1;
            libc::kill(1, signal);
            libc::syscall(libc::SYS_tgkill, 1, 1, signal);
            libc::syscall(libc::SYS_tkill, 1, signal);
            libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, 0, 0);
            libc::syscall(libc::SYS_rt_sigqueueinfo, 1, signal, &raw const info);
        }
    }
    for _ in 0..50 {
        burst(&(1..32).collect::<Vec<_>>());
    }
    held("sent every signal to process 1");
}

fn burst(signals: &[i32]) {
    for signal in signals {
        unsafe { libc::kill(1, *signal) };
    }
    pause(1);
}

fn kill_all(_: &AttackArguments) {
    held("kills everybody");
    unsafe { libc::kill(-1, libc::SIGKILL) };
    held("everybody else is dead");
    // Its parent, and all processes that it can see.
    for pid in 2..200 {
        if pid != unsafe { libc::getpid() } {
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    held("still here");
}

/// Takes resources that the guest needs.
fn starve_guest(_: &AttackArguments) {
    for (name, resource) in [
        ("open files", libc::RLIMIT_NOFILE),
        ("memory", libc::RLIMIT_AS),
        ("processes", libc::RLIMIT_NPROC),
        ("processor time", libc::RLIMIT_CPU),
        ("file size", libc::RLIMIT_FSIZE),
        ("pending signals", libc::RLIMIT_SIGPENDING),
    ] {
        let nothing = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let returned =
            unsafe { libc::prlimit(1, resource, &raw const nothing, std::ptr::null_mut()) };
        refused(
            format_args!("limit the {name} of process 1"),
            returned.into(),
        );
    }
    let lowest = libc::sched_param { sched_priority: 0 };
    unsafe {
        let returned = libc::sched_setscheduler(1, libc::SCHED_IDLE, &raw const lowest);
        refused("let process 1 run when nobody else does", returned.into());
        refused(
            "renice process 1",
            libc::setpriority(libc::PRIO_PROCESS, 1, 19).into(),
        );
        refused(
            "ioprio of process 1",
            libc::syscall(libc::SYS_ioprio_set, 1, 1, 3 << 13),
        );
        let one: libc::cpu_set_t = {
            let mut set = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            set
        };
        let size = size_of::<libc::cpu_set_t>();
        refused(
            "pin process 1",
            libc::sched_setaffinity(1, size, &raw const one).into(),
        );
        refused(
            "take process 1 into a group",
            libc::setpgid(1, libc::getpid()).into(),
        );
    }
    judge(
        "write oom_score_adj of process 1",
        fs::write("/proc/1/oom_score_adj", "1000"),
    );
    judge(
        "write comm of process 1",
        fs::write("/proc/1/comm", "hostile"),
    );
    judge("follow the memory of process 1", robust_list());
}

fn robust_list() -> io::Result<i64> {
    let (mut head, mut length) = (0usize, 0usize);
    check(unsafe { libc::syscall(libc::SYS_get_robust_list, 1, &raw mut head, &raw mut length) })
}

/// Stops itself; another process must end it.
fn stop(_: &AttackArguments) {
    let status = in_child(|| match unsafe { libc::kill(1, libc::SIGSTOP) } {
        0 => 0,
        _ => last_errno(),
    });
    held(format_args!("stopping process 1 returned {status}"));
    held("stops");
    unsafe { libc::raise(libc::SIGSTOP) };
    breach("went on after a stop");
}

/// Nested folders, too deep for a recursive walk.
fn deep_folders(world: &AttackArguments) {
    fs::create_dir("deep").unwrap();
    std::env::set_current_dir("deep").unwrap();
    for _ in 0..world.number("depth") {
        fs::create_dir("d").unwrap();
        std::env::set_current_dir("d").unwrap();
    }
    held("planted");
}

/// A line that is longer than the sandbox's memory.
fn long_line(world: &AttackArguments) {
    let content = vec![b'x'; 1 << 20];
    let mut file = fs::File::create("long").unwrap();
    for _ in 0..world.number("bytes") >> 20 {
        file.write_all(&content).unwrap();
    }
    held("planted");
}

/// A large folder tree appears and disappears: following each change must not overload the watcher.
fn watch_storm(world: &AttackArguments) {
    fs::create_dir_all("watched").unwrap();
    for number in 0..world.number("folders") {
        fs::create_dir_all(format!("tree/{}/{number}", number / 200)).unwrap();
    }
    held("planted");
    loop {
        let _ = fs::rename("tree", "watched/tree");
        let _ = fs::rename("watched/tree", "tree");
    }
}
