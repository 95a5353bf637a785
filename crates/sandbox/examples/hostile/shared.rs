//! Lines 83 to 96: resources that exist once per machine, and information about others. Each
//! attempt is a few calls that must be refused; nothing is used up.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libc::{c_int, c_void};

use super::{
    Attack, AttackArguments, breach, check, has_own_kernel, held, in_child, last_errno, pause,
    refused,
};

pub(crate) const ATTACKS: &[Attack] = &[
    ("seccomp-filters", seccomp_filters),
    ("socket-filters", socket_filters),
    ("allocate-by-ioctl", allocate_by_ioctl),
    ("requests", requests),
    ("landlock", landlock),
    ("asynchronous-io", asynchronous_io),
    ("watch-budget", watch_budget),
    ("huge-pages", huge_pages),
    ("pipe-buffers", pipe_buffers),
    ("machine-wide", machine_wide),
    ("watch-programs", watch_programs),
    ("lock-programs", lock_programs),
    ("leases", leases),
    ("machine-secrets", machine_secrets),
];

/// Bits above those that the kernel reads of an `int`.
const HIGH_BIT: i64 = 1 << 40;

/// A filter with one instruction: allow.
fn with_program<T>(work: impl FnOnce(*const libc::sock_fprog) -> T) -> T {
    let mut allow = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut allow,
    };
    work(&raw const program)
}

/// A call that must fail as if the kernel did not have it. Any other error means that the call was
/// executed.
fn must_be_unknown(what: &str, returned: i64, errors: &[c_int]) {
    match (returned, last_errno()) {
        (-1, error) if errors.contains(&error) => held(format_args!("{what}: error {error}")),
        (-1, error) => breach(format_args!("{what} was heard: error {error}")),
        (value, _) => breach(format_args!("{what} answered {value}")),
    }
}

fn seccomp_filters(_: &AttackArguments) {
    const LISTENER: u64 = 1 << 3;
    const FILTER: c_int = 2;
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let refused = |what: &str, call: &dyn Fn(*const libc::sock_fprog) -> i64| {
        // In a child, because an accepted filter would apply to this process too.
        in_child(|| {
            let returned = with_program(call);
            must_be_unknown(what, returned, &[libc::EINVAL, libc::ENOSYS]);
            0
        });
    };
    for (name, flags) in [
        ("seccomp", 0),
        ("seccomp with a listener", LISTENER),
        ("seccomp of all threads", 1),
    ] {
        refused(name, &|program| unsafe {
            libc::syscall(libc::SYS_seccomp, 1, flags, program)
        });
    }
    refused("seccomp with high bits", &|program| unsafe {
        libc::syscall(libc::SYS_seccomp, HIGH_BIT | 1, 0, program)
    });
    for (name, high) in [
        ("PR_SET_SECCOMP", 0),
        ("PR_SET_SECCOMP with high bits", HIGH_BIT),
    ] {
        refused(name, &|program| unsafe {
            libc::syscall(
                libc::SYS_prctl,
                high | i64::from(libc::PR_SET_SECCOMP),
                FILTER,
                program,
            )
        });
    }
}

fn socket_filters(_: &AttackArguments) {
    const OPTIONS: &[(&str, i64)] = &[
        ("SO_ATTACH_FILTER", 26),
        ("SO_ATTACH_BPF", 50),
        ("SO_ATTACH_REUSEPORT_CBPF", 51),
        ("SO_ATTACH_REUSEPORT_EBPF", 52),
    ];
    for (family, kind) in [
        (libc::AF_INET, libc::SOCK_DGRAM),
        (libc::AF_INET6, libc::SOCK_STREAM),
        (libc::AF_UNIX, libc::SOCK_DGRAM),
        (libc::AF_NETLINK, libc::SOCK_DGRAM),
    ] {
        let socket = unsafe { libc::socket(family, kind, 0) };
        for (name, option) in OPTIONS {
            for (level, option) in [
                (i64::from(libc::SOL_SOCKET), *option),
                (HIGH_BIT | i64::from(libc::SOL_SOCKET), HIGH_BIT | *option),
            ] {
                let returned = with_program(|program| unsafe {
                    let size = size_of::<libc::sock_fprog>();
                    libc::syscall(libc::SYS_setsockopt, socket, level, option, program, size)
                });
                let what = format!("{name} on a socket of family {family}");
                must_be_unknown(&what, returned, &[libc::ENOPROTOOPT]);
            }
        }
        unsafe { libc::close(socket) };
    }
}

/// The request structure of XFS, which every file system accepts.
#[repr(C)]
struct XfsFlock {
    kind: i16,
    whence: i16,
    start: i64,
    length: i64,
    system: i32,
    process: u32,
    padding: [i32; 4],
}

fn allocate_by_ioctl(_: &AttackArguments) {
    const LENGTH: i64 = 16 << 20;
    let file = File::create("allocated").unwrap();
    let space = XfsFlock {
        kind: 0,
        whence: 0,
        start: 0,
        length: LENGTH,
        system: 0,
        process: 0,
        padding: [0; 4],
    };
    for (name, request) in [
        ("FS_IOC_RESVSP", 0x4030_5828_i64),
        ("FS_IOC_RESVSP64", 0x4030_582a),
        ("FS_IOC_UNRESVSP", 0x4030_5829),
        ("FS_IOC_UNRESVSP64", 0x4030_582b),
        ("FS_IOC_ZERO_RANGE", 0x4030_5839),
        ("FS_IOC_ALLOCSP", 0x4030_580a),
        ("FS_IOC_ALLOCSP64", 0x4030_5824),
        ("EXT4_IOC_ALLOC_DA_BLKS", 0x660c),
    ] {
        for high in [0, HIGH_BIT] {
            let request = high | request;
            let returned = unsafe {
                libc::syscall(libc::SYS_ioctl, file.as_raw_fd(), request, &raw const space)
            };
            must_be_unknown(name, returned, &[libc::ENOTTY]);
        }
    }
    match file.metadata().unwrap().blocks() {
        0 => held("nothing was allocated"),
        blocks => breach(format_args!("{blocks} blocks were allocated")),
    }
}

/// Requests that change or reveal more than the own files.
fn requests(_: &AttackArguments) {
    let file = File::create("requested").unwrap();
    let folder = File::open("/proc/self/ns/user");
    let numbers = [0u8; 4096];
    for (name, request) in [
        ("FS_IOC_SETFLAGS", 0x4008_6602_i64),
        ("FS_IOC_FSSETXATTR", 0x401c_5820),
        ("FS_IOC_FIEMAP", 0xc020_660b),
        ("FITRIM", 0xc018_5879),
        ("FIFREEZE", 0xc004_5877),
        ("FICLONE", 0x4004_9409),
        ("KVM_CREATE_VM", 0xae01),
        ("LOOP_CTL_GET_FREE", 0x4c82),
    ] {
        let returned =
            unsafe { libc::syscall(libc::SYS_ioctl, file.as_raw_fd(), request, numbers.as_ptr()) };
        must_be_unknown(name, returned, &[libc::ENOTTY]);
    }
    if let Ok(namespace) = folder {
        for (name, request) in [("NS_GET_USERNS", 0xb701_i64), ("NS_GET_PARENT", 0xb702)] {
            let returned =
                unsafe { libc::syscall(libc::SYS_ioctl, namespace.as_raw_fd(), request, 0) };
            must_be_unknown(name, returned, &[libc::ENOTTY]);
        }
    }
}

fn landlock(_: &AttackArguments) {
    let rights = [0x1fffu64, 0, 0];
    unsafe {
        let version = libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1);
        must_be_unknown("the version of Landlock", version, &[libc::ENOSYS]);
        let rules = libc::syscall(libc::SYS_landlock_create_ruleset, rights.as_ptr(), 8, 0);
        must_be_unknown("a Landlock ruleset", rules, &[libc::ENOSYS]);
        let rule = libc::syscall(libc::SYS_landlock_add_rule, rules, 1, rights.as_ptr(), 0);
        must_be_unknown("a Landlock rule", rule, &[libc::ENOSYS]);
        let restricted = libc::syscall(libc::SYS_landlock_restrict_self, rules, 0);
        must_be_unknown("a Landlock restriction", restricted, &[libc::ENOSYS]);
    }
}

fn asynchronous_io(_: &AttackArguments) {
    let mut context: u64 = 0;
    let returned = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
    must_be_unknown("io_setup", returned, &[libc::ENOSYS]);
}

/// Whether one sandbox can take more than a quarter of its owner's total.
fn watch_budget(_: &AttackArguments) {
    if has_own_kernel() {
        return held("watches of its own kernel");
    }
    let number = |path: &str| -> u64 {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(u64::MAX)
    };
    for what in ["instances", "watches"] {
        let all = number(&format!("/proc/sys/fs/inotify/max_user_{what}"));
        let own = number(&format!("/proc/sys/user/max_inotify_{what}"));
        if own > all / 4 {
            breach(format_args!("{own} of {all} inotify {what}"))
        } else {
            held(format_args!("{own} of {all} inotify {what}"))
        }
    }
}

fn huge_pages(_: &AttackArguments) {
    // A size that no processor has: any code that handles it reports that.
    const NO_SIZE: c_int = 1 << 26;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
    for flags in [anonymous, anonymous | NO_SIZE] {
        let returned = unsafe {
            libc::mmap(std::ptr::null_mut(), 1 << 21, libc::PROT_READ, flags, -1, 0) as i64
        };
        must_be_unknown("MAP_HUGETLB", returned, &[libc::ENOMEM]);
    }
    let returned = unsafe { libc::memfd_create(c"huge".as_ptr(), libc::MFD_HUGETLB) };
    must_be_unknown("MFD_HUGETLB", returned.into(), &[libc::EINVAL]);
    let flags = libc::IPC_CREAT | libc::SHM_HUGETLB | 0o600;
    let returned = unsafe { libc::shmget(libc::IPC_PRIVATE, 4095, flags) };
    must_be_unknown("SHM_HUGETLB", returned.into(), &[libc::EPERM]);
}

/// Whether the kernel's limits per user apply to this sandbox alone: root gives each sandbox its own user.
fn has_own_user() -> bool {
    const FIRST_SANDBOX_USER: u32 = 0x7000_0000;
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    let outside = map.split_whitespace().nth(1).unwrap();
    outside.parse::<u32>().unwrap() >= FIRST_SANDBOX_USER
}

fn pipe_buffers(_: &AttackArguments) {
    let max_bytes: i64 = if has_own_user() { 1 << 20 } else { 64 << 10 };
    let mut ends: [RawFd; 2] = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    for size in [max_bytes + 1, 2 << 20, (1 << 32) | 4096] {
        let returned = unsafe { libc::syscall(libc::SYS_fcntl, ends[0], libc::F_SETPIPE_SZ, size) };
        if returned > max_bytes {
            breach(format_args!("a pipe of {returned} bytes"))
        } else {
            held(format_args!("a pipe of {size} bytes: {returned}"))
        }
    }
}

/// Calls that affect the whole machine.
fn machine_wide(_: &AttackArguments) {
    let file = File::create("synced").unwrap();
    unsafe {
        let returned = libc::syscall(libc::SYS_syncfs, file.as_raw_fd());
        must_be_unknown("syncfs", returned, &[libc::ENOSYS]);
        for command in [1, 2, 4] {
            let returned = libc::syscall(libc::SYS_membarrier, command, 0, 0);
            must_be_unknown("membarrier of all processors", returned, &[libc::EINVAL]);
        }
        refused(
            "MPTCP",
            libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP).into(),
        );
        // PR_SCHED_CORE, PR_SET_MEMORY_MERGE, PR_SET_VMA.
        for option in [62, 67, 0x5356_4d41] {
            let returned = libc::syscall(libc::SYS_prctl, option, 1, 0, 0, 0);
            must_be_unknown("a wide prctl", returned, &[libc::EINVAL]);
        }
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        let returned = libc::madvise(page, 4096, libc::MADV_MERGEABLE);
        must_be_unknown("MADV_MERGEABLE", returned.into(), &[libc::EINVAL]);
        let label = [0u8; 32];
        let socket = libc::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0);
        let returned = libc::setsockopt(
            socket,
            libc::IPPROTO_IPV6,
            32,
            label.as_ptr().cast::<c_void>(),
            label.len() as u32,
        );
        must_be_unknown("IPV6_FLOWLABEL_MGR", returned.into(), &[libc::ENOPROTOOPT]);
    }
}

/// Watches the paths in the argument `watched` until `go` appears; any event comes from the host.
fn watch_programs(world: &AttackArguments) {
    let queue = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
    if queue < 0 {
        return held(format_args!("no watches: error {}", last_errno()));
    }
    for path in world.list("watched") {
        let name = CString::new(path).unwrap();
        unsafe { libc::inotify_add_watch(queue, name.as_ptr(), libc::IN_ALL_EVENTS) };
    }
    // Drops the events that this process caused itself.
    let mut events = [0u8; 65536];
    let mut read = || unsafe { libc::read(queue, events.as_mut_ptr().cast(), events.len()) };
    while read() > 0 {}
    println!("WATCHING");
    wait_for("go");
    match read() {
        1.. => breach("saw what the host does with its programs"),
        _ => held("no events of the host"),
    }
}

/// Locks the paths in the argument `locked` with every method, until `go` appears.
fn lock_programs(world: &AttackArguments) {
    let mut files = Vec::new();
    for path in world.list("locked") {
        let file = File::open(path).unwrap();
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_RDLCK as i16;
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        files.push(file);
    }
    println!("LOCKED");
    wait_for("go");
    held("the host looked");
}

fn wait_for(name: &str) {
    while !Path::new(name).exists() {
        pause(5);
    }
}

fn leases(_: &AttackArguments) {
    let file = File::create("leased").unwrap();
    let folder = File::open(".").unwrap();
    unsafe {
        for kind in [libc::F_WRLCK, libc::F_RDLCK] {
            let returned = libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind);
            must_be_unknown("a lease", returned.into(), &[libc::EINVAL]);
        }
        let returned = libc::fcntl(folder.as_raw_fd(), libc::F_NOTIFY, 1);
        must_be_unknown("a notice of changes", returned.into(), &[libc::EINVAL]);
    }
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) }.into()) {
        Ok(_) => held("other commands work"),
        Err(error) => breach(format_args!("F_GETFD: {error}")),
    }
}

/// Prints what `/proc` reveals of the machine; the suite checks it for secrets.
fn machine_secrets(_: &AttackArguments) {
    for path in [
        "/proc/cmdline",
        "/proc/sys/kernel/random/boot_id",
        "/proc/self/mountinfo",
        "/proc/self/mounts",
        "/proc/self/mountstats",
        "/proc/bootconfig",
    ] {
        let text = fs::read(path).unwrap_or_default();
        println!("{path}: {}", String::from_utf8_lossy(&text));
    }
    for path in [
        "/proc/pressure/cpu",
        "/proc/pressure/io",
        "/proc/pressure/memory",
        "/proc/keys",
        "/proc/key-users",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/kallsyms",
        "/proc/kcore",
        "/proc/diskstats",
        "/proc/interrupts",
        "/proc/softirqs",
        "/proc/partitions",
        "/proc/locks",
        "/proc/vmallocinfo",
        "/proc/slabinfo",
        "/proc/buddyinfo",
        "/proc/zoneinfo",
        "/proc/modules",
        "/proc/iomem",
        "/proc/ioports",
        "/proc/bus/pci/devices",
    ] {
        let text = fs::read(path).unwrap_or_default();
        match text.iter().any(|byte| !byte.is_ascii_whitespace()) {
            true if has_own_kernel() => held(format_args!("{path} of its own kernel")),
            true => breach(format_args!("read {path}")),
            false => held(format_args!("{path} is empty")),
        }
    }
}
