//! Lines 25 to 41: dangerous system calls, each by its number.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use libc::{c_int, c_void};

use super::{
    Attack, AttackArguments, Sleeper, breach, check, has_own_kernel, held, in_child, judge,
    last_errno, refused,
};

pub(crate) const ATTACKS: &[Attack] = &[
    ("ptrace", ptrace),
    ("ptrace-child", ptrace_child),
    ("process-memory", process_memory),
    ("process-memory-child", process_memory_child),
    ("pidfd-getfd", pidfd_getfd),
    ("unshare", unshare),
    ("unshare-user", unshare_user),
    ("clone", clone),
    ("clone3", clone3),
    ("mount", mount),
    ("setns", setns),
    ("bpf", bpf),
    ("userfaultfd", userfaultfd),
    ("io-uring", io_uring),
    ("perf", perf),
    ("keys", keys),
    ("i386", i386),
    ("x32", x32),
    ("device-files", device_files),
    ("modules", modules),
    ("clock", clock),
    ("cgroup", cgroup),
    ("handles", handles),
    ("machine", machine),
];

const NAMESPACES: &[(&str, c_int)] = &[
    ("user", libc::CLONE_NEWUSER),
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("network", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
    ("time", 0x80),
];

fn trace(pid: libc::pid_t, who: &str) {
    for (name, request) in [
        ("PTRACE_ATTACH", libc::PTRACE_ATTACH),
        ("PTRACE_SEIZE", libc::PTRACE_SEIZE),
    ] {
        let returned = unsafe { libc::syscall(libc::SYS_ptrace, request, pid, 0, 0) };
        refused(format_args!("{name} of {who}"), returned);
    }
}

fn ptrace(_: &AttackArguments) {
    trace(1, "process 1");
    trace(std::os::unix::process::parent_id() as i32, "the parent");
    ptrace_child(&AttackArguments(Default::default()));
    let traced = in_child(|| {
        let returned = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) };
        i32::from(returned < 0)
    });
    match traced {
        0 => breach("PTRACE_TRACEME"),
        _ => held("PTRACE_TRACEME"),
    }
}

fn ptrace_child(_: &AttackArguments) {
    let sibling = Sleeper::start();
    trace(sibling.0, "a sibling");
}

fn move_memory(pid: libc::pid_t, who: &str) {
    // The same address in this process and in a child.
    static TARGET: u64 = 0x5ec2e7;
    let mut buffer = 0u64;
    let local = libc::iovec {
        iov_base: (&raw mut buffer).cast::<c_void>(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: (&raw const TARGET).cast_mut().cast::<c_void>(),
        iov_len: 8,
    };
    let (local, remote) = (&raw const local, &raw const remote);
    let returned = unsafe { libc::process_vm_readv(pid, local, 1, remote, 1, 0) };
    refused(format_args!("process_vm_readv of {who}"), returned as i64);
    let returned = unsafe { libc::process_vm_writev(pid, local, 1, remote, 1, 0) };
    match (returned, last_errno()) {
        // It was allowed, and failed only because the target is constant.
        (-1, libc::EFAULT) => breach(format_args!("process_vm_writev of {who}")),
        _ => refused(format_args!("process_vm_writev of {who}"), returned as i64),
    }
}

fn process_memory(world: &AttackArguments) {
    move_memory(1, "process 1");
    process_memory_child(world);
    judge(
        "open /proc/1/mem",
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/proc/1/mem"),
    );
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) };
    let page = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 4096,
    };
    let returned = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd,
            &raw const page,
            1,
            libc::MADV_COLD,
            0,
        )
    };
    refused("process_madvise of process 1", returned);
    refused("process_mrelease of process 1", unsafe {
        libc::syscall(448, pidfd, 0)
    });
    refused("kcmp with process 1", unsafe {
        libc::syscall(libc::SYS_kcmp, libc::getpid(), 1, 0, 0, 0)
    });
}

fn process_memory_child(_: &AttackArguments) {
    let sibling = Sleeper::start();
    move_memory(sibling.0, "a sibling");
}

fn pidfd_getfd(_: &AttackArguments) {
    let sibling = Sleeper::start();
    for (pid, who) in [(1, "process 1"), (sibling.0, "a sibling")] {
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        for descriptor in 0..8 {
            let returned = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, descriptor, 0) };
            refused(format_args!("descriptor {descriptor} of {who}"), returned);
        }
    }
}

fn unshare_one(name: &str, flag: c_int) {
    let status = in_child(|| match unsafe { libc::syscall(libc::SYS_unshare, flag) } {
        0 => 0,
        _ => last_errno(),
    });
    match status {
        0 => breach(format_args!("unshare a {name} namespace")),
        status => held(format_args!("unshare a {name} namespace: {status:#x}")),
    }
}

fn unshare(_: &AttackArguments) {
    for (name, flag) in NAMESPACES {
        unshare_one(name, *flag);
    }
    unshare_one("user and mount", libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
}

fn unshare_user(_: &AttackArguments) {
    unshare_one("user", libc::CLONE_NEWUSER);
}

/// Forks with `clone` and these flags; the child ends at once.
fn try_clone(what: impl std::fmt::Display, flags: u64) {
    let returned = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags | libc::SIGCHLD as u64,
            0usize,
            0usize,
            0usize,
            0usize,
        )
    };
    if returned == 0 {
        unsafe { libc::_exit(0) };
    }
    refused(what, returned);
}

fn clone(_: &AttackArguments) {
    // The flag of time namespaces overlaps the exit signal, so only `clone3` can pass it.
    for (name, flag) in NAMESPACES.iter().filter(|(name, _)| *name != "time") {
        try_clone(format_args!("clone into a {name} namespace"), *flag as u64);
    }
    let all = NAMESPACES.iter().fold(0, |all, (_, flag)| all | flag) as u64;
    try_clone("clone into all namespaces", all);
    // A filter that reads only half of the argument would miss this.
    try_clone(
        "clone with high bits",
        (libc::CLONE_NEWUSER as u64) | 1 << 40,
    );
}

fn clone3(_: &AttackArguments) {
    let into_cgroup = 0x2_0000_0000u64;
    let kinds = NAMESPACES.iter().map(|(name, flag)| (*name, *flag as u64));
    for (name, flags) in kinds.chain([("no", 0), ("no namespace but a cgroup", into_cgroup)]) {
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = flags;
        arguments.exit_signal = libc::SIGCHLD as u64;
        let size = size_of::<libc::clone_args>();
        let returned = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) };
        if returned == 0 {
            unsafe { libc::_exit(0) };
        }
        refused(format_args!("clone3 into a {name} namespace"), returned);
    }
}

fn mount(_: &AttackArguments) {
    let null = std::ptr::null::<c_void>();
    fs::create_dir_all("/tmp/point").unwrap();
    unsafe {
        for (kind, source) in [
            (c"tmpfs", c"tmpfs"),
            (c"proc", c"proc"),
            (c"sysfs", c"sysfs"),
            (c"overlay", c"overlay"),
            (c"ext4", c"/dev/vda"),
            (c"fuse", c"fuse"),
        ] {
            let returned = libc::mount(
                source.as_ptr(),
                c"/tmp/point".as_ptr(),
                kind.as_ptr(),
                0,
                null,
            );
            refused(format_args!("mount {kind:?}"), returned.into());
            refused(
                format_args!("fsopen {kind:?}"),
                libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 0),
            );
        }
        for (name, flags) in [
            ("bind", libc::MS_BIND),
            ("remount read-write", libc::MS_REMOUNT | libc::MS_BIND),
            ("move", libc::MS_MOVE),
            ("make shared", libc::MS_SHARED | libc::MS_REC),
        ] {
            let returned = libc::mount(
                c"/".as_ptr(),
                c"/tmp/point".as_ptr(),
                std::ptr::null(),
                flags,
                null,
            );
            refused(name, returned.into());
        }
        let path = c"/".as_ptr();
        let clone = libc::OPEN_TREE_CLONE | libc::AT_RECURSIVE as u32;
        refused(
            "open_tree",
            libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path, clone),
        );
        refused(
            "open_tree without a copy",
            libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path, 0),
        );
        let returned = libc::syscall(
            libc::SYS_move_mount,
            libc::AT_FDCWD,
            path,
            libc::AT_FDCWD,
            c"/tmp/point".as_ptr(),
            0,
        );
        refused("move_mount", returned);
        let clear = libc::mount_attr {
            attr_set: 0,
            attr_clr: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
            propagation: 0,
            userns_fd: 0,
        };
        for target in [c"/", c"/usr", c"/workspace"] {
            let returned = libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                target.as_ptr(),
                0,
                &raw const clear,
                size_of::<libc::mount_attr>(),
            );
            refused(format_args!("mount_setattr {target:?}"), returned);
        }
        refused(
            "fspick",
            libc::syscall(libc::SYS_fspick, libc::AT_FDCWD, path, 0),
        );
        refused(
            "pivot_root",
            libc::syscall(libc::SYS_pivot_root, path, path),
        );
        refused("chroot", libc::chroot(c"/tmp".as_ptr()).into());
        for target in [c"/proc", c"/workspace", c"/dev", c"/usr", c"/"] {
            let returned = libc::umount2(target.as_ptr(), libc::MNT_DETACH);
            refused(format_args!("umount {target:?}"), returned.into());
        }
    }
}

fn setns(_: &AttackArguments) {
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"] {
        for pid in ["self", "1"] {
            let path = format!("/proc/{pid}/ns/{kind}");
            match File::open(&path) {
                Ok(open) => {
                    let returned = unsafe { libc::setns(open.as_raw_fd(), 0) };
                    refused(format_args!("setns {path}"), returned.into());
                }
                Err(error) => held(format_args!("open {path}: {error}")),
            }
        }
    }
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, 1, 0) } as c_int;
    let returned = unsafe { libc::setns(pidfd, libc::CLONE_NEWNS) };
    refused("setns by a pidfd of process 1", returned.into());
    // NS_GET_USERNS and NS_GET_PARENT lead to parent namespaces.
    if let Ok(own) = File::open("/proc/self/ns/user") {
        for (name, request) in [("owner", 0xb701u64), ("parent", 0xb702)] {
            let returned = unsafe { libc::ioctl(own.as_raw_fd(), request) };
            refused(
                format_args!("the {name} of the user namespace"),
                returned.into(),
            );
        }
    }
}

fn bpf(_: &AttackArguments) {
    let attributes = [1u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for command in 0..8 {
        let size = size_of_val(&attributes);
        let returned = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
        refused(format_args!("bpf command {command}"), returned);
    }
}

fn userfaultfd(_: &AttackArguments) {
    for flags in [0, 1, libc::O_CLOEXEC] {
        let returned = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        refused(format_args!("userfaultfd with flags {flags:#x}"), returned);
    }
    judge("open /dev/userfaultfd", File::open("/dev/userfaultfd"));
}

fn io_uring(_: &AttackArguments) {
    let parameters = [0u8; 256];
    unsafe {
        refused(
            "io_uring_setup",
            libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_ptr()),
        );
        refused(
            "io_uring_enter",
            libc::syscall(libc::SYS_io_uring_enter, 0, 0, 0, 0, 0, 0),
        );
        refused(
            "io_uring_register",
            libc::syscall(libc::SYS_io_uring_register, -1, 0, 0, 0),
        );
    }
}

fn perf(_: &AttackArguments) {
    // Software CPU clock counter; the size is that of the first version.
    let mut attributes = [0u32; 32];
    attributes[0] = 1;
    attributes[1] = 64;
    for (pid, processor) in [(0, -1), (1, -1), (-1, 0)] {
        let returned = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                pid,
                processor,
                -1,
                0,
            )
        };
        refused(format_args!("perf_event_open of {pid}"), returned);
    }
}

fn keys(_: &AttackArguments) {
    let (kind, name) = (c"user".as_ptr(), c"hostile".as_ptr());
    unsafe {
        for ring in -8..0 {
            let returned = libc::syscall(libc::SYS_add_key, kind, name, c"x".as_ptr(), 1, ring);
            refused(format_args!("add_key to {ring}"), returned);
            refused(
                format_args!("find ring {ring}"),
                libc::syscall(libc::SYS_keyctl, 0, ring, 0),
            );
        }
        refused(
            "request_key",
            libc::syscall(libc::SYS_request_key, kind, name, 0, -3),
        );
        refused("join a session", libc::syscall(libc::SYS_keyctl, 1, 0));
    }
}

/// A system call through the i386 entry. A filter may kill the caller.
#[cfg(target_arch = "x86_64")]
fn by_i386(number: i32) -> i32 {
    let returned: i32;
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("eax") number => returned,
            in("ecx") 0,
            in("edx") 0,
            in("esi") 0,
            in("edi") 0,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    returned
}

#[cfg(target_arch = "x86_64")]
fn i386(_: &AttackArguments) {
    // A kernel without i386 may interpret the number as one of its own calls (`getpid` answers as
    // itself). Then it is no separate entry, and calls that must be refused are tried by those
    // numbers.
    let is_same_way = in_child(|| {
        let is_own = by_i386(libc::SYS_getpid as i32) == std::process::id() as i32;
        i32::from(!is_own)
    }) == 0;
    let calls: &[(&str, i64)] = if is_same_way {
        &[
            ("ptrace", libc::SYS_ptrace),
            ("mount", libc::SYS_mount),
            ("unshare", libc::SYS_unshare),
            ("setns", libc::SYS_setns),
            ("chroot", libc::SYS_chroot),
            ("process_vm_readv", libc::SYS_process_vm_readv),
        ]
    } else {
        &[
            ("getpid", 20),
            ("fork", 2),
            ("ptrace", 26),
            ("mount", 21),
            ("unshare", 310),
        ]
    };
    for (name, number) in calls {
        let status = in_child(|| {
            let returned = by_i386(*number as i32);
            // A system call that returns at all, even with its own error, was not blocked.
            i32::from(returned == -libc::ENOSYS || returned == -libc::EPERM)
        });
        match status {
            0 => breach(format_args!("i386 {name}")),
            status => held(format_args!("i386 {name} ended with {status:#x}")),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn i386(_: &AttackArguments) {
    held("there is no second architecture here");
}

#[cfg(target_arch = "x86_64")]
fn x32(_: &AttackArguments) {
    const X32: i64 = 0x4000_0000;
    for (name, number) in [
        ("getpid", libc::SYS_getpid),
        ("unshare", libc::SYS_unshare),
        ("mount", libc::SYS_mount),
        ("its own ptrace", 521),
        ("its own execve", 520),
        ("its own process_vm_readv", 539),
    ] {
        // A filter may also kill the caller.
        let status = in_child(|| {
            let returned = unsafe { libc::syscall(X32 | number, 0, 0, 0, 0, 0) };
            i32::from(returned == -1)
        });
        match status {
            0 => breach(format_args!("x32 {name}")),
            status => held(format_args!("x32 {name} ended with {status:#x}")),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn x32(_: &AttackArguments) {
    held("there is no second architecture here");
}

fn device_files(_: &AttackArguments) {
    for name in [
        "kmsg",
        "kvm",
        "mem",
        "kmem",
        "port",
        "fuse",
        "loop0",
        "loop-control",
        "net/tun",
        "vda",
        "sda",
        "nvme0n1",
        "cpu_dma_latency",
        "vhost-net",
        "vhost-vsock",
        "vsock",
        "uinput",
        "userfaultfd",
        "dri/card0",
        "console",
        "tty0",
        "tty1",
        "snapshot",
        "hpet",
        "nvram",
    ] {
        let path = format!("/dev/{name}");
        judge(format_args!("read {path}"), File::open(&path));
        judge(
            format_args!("write {path}"),
            OpenOptions::new().write(true).open(&path),
        );
    }
}

fn modules(_: &AttackArguments) {
    let image = [0u8; 64];
    let itself = File::open("/proc/self/exe").unwrap();
    let program = itself.as_raw_fd();
    unsafe {
        let returned = libc::syscall(
            libc::SYS_init_module,
            image.as_ptr(),
            image.len(),
            c"".as_ptr(),
        );
        refused("init_module", returned);
        refused(
            "finit_module",
            libc::syscall(libc::SYS_finit_module, program, c"".as_ptr(), 0),
        );
        refused(
            "delete_module",
            libc::syscall(libc::SYS_delete_module, c"none".as_ptr(), 0),
        );
        refused(
            "kexec_load",
            libc::syscall(libc::SYS_kexec_load, 0, 0, 0, 0),
        );
        let returned = libc::syscall(libc::SYS_kexec_file_load, program, -1, 1, c"".as_ptr(), 8);
        refused("kexec_file_load", returned);
    }
}

/// Sets the clocks to their current values: being allowed to do that is a breach.
fn clock(_: &AttackArguments) {
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_TAI] {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
            let returned = libc::syscall(libc::SYS_clock_settime, clock, &raw const now);
            refused(format_args!("clock_settime of {clock}"), returned);
        }
        let mut day: libc::timeval = std::mem::zeroed();
        libc::gettimeofday(&raw mut day, std::ptr::null_mut());
        refused(
            "settimeofday",
            libc::syscall(libc::SYS_settimeofday, &raw const day, 0),
        );
        // Without a mode it only reads.
        let mut adjustment: libc::timex = std::mem::zeroed();
        libc::adjtimex(&raw mut adjustment);
        adjustment.modes = libc::ADJ_FREQUENCY;
        refused(
            "adjtimex",
            libc::syscall(libc::SYS_adjtimex, &raw mut adjustment),
        );
        let returned = libc::syscall(libc::SYS_clock_adjtime, 0, &raw mut adjustment);
        refused("clock_adjtime", returned);
    }
}

fn cgroup(_: &AttackArguments) {
    fs::create_dir_all("/tmp/cgroup").unwrap();
    for (kind, options) in [
        (c"cgroup", c"rdma"),
        (c"cgroup", c"memory"),
        (c"cgroup", c"none,name=hostile"),
        (c"cgroup2", c""),
    ] {
        let returned = unsafe {
            libc::mount(
                kind.as_ptr(),
                c"/tmp/cgroup".as_ptr(),
                kind.as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        refused(
            format_args!("mount {kind:?} with {options:?}"),
            returned.into(),
        );
    }
    match fs::read_dir("/sys/fs/cgroup") {
        Ok(_) if has_own_kernel() => held("list /sys/fs/cgroup: of its own kernel"),
        listed => judge("list /sys/fs/cgroup", listed),
    }
    for name in [
        "release_agent",
        "notify_on_release",
        "cgroup.procs",
        "tasks",
    ] {
        for folder in [
            "/tmp/cgroup",
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/unified",
        ] {
            let path = format!("{folder}/{name}");
            judge(
                format_args!("write {path}"),
                OpenOptions::new().write(true).open(&path),
            );
        }
    }
    // The names of the host's cgroups must not be visible.
    for line in fs::read_to_string("/proc/self/cgroup")
        .unwrap_or_default()
        .lines()
    {
        match line.rsplit(':').next() {
            Some("/") => held(line),
            _ => breach(format_args!("saw the host's group {line}")),
        }
    }
}

fn handles(_: &AttackArguments) {
    let mut handle = [0u8; 136];
    handle[0] = 128;
    let mut mount = 0;
    unsafe {
        let returned = libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c".".as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        );
        // A handle alone opens nothing; an invented one would work as well.
        held(format_args!("name_to_handle_at answered {returned}"));
        if returned < 0 {
            // Inode 2, the root of every ext4.
            handle[..16].copy_from_slice(&[8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        }
        let folder = File::open(".").unwrap();
        let returned = libc::syscall(
            libc::SYS_open_by_handle_at,
            folder.as_raw_fd(),
            handle.as_ptr(),
            libc::O_RDONLY,
        );
        refused("open_by_handle_at", returned);
    }
}

/// Calls that affect the whole machine.
fn machine(_: &AttackArguments) {
    let text = [0u8; 4096];
    unsafe {
        refused(
            "syslog",
            libc::syscall(libc::SYS_syslog, 3, text.as_ptr(), text.len()),
        );
        refused(
            "the size of the kernel log",
            libc::syscall(libc::SYS_syslog, 10, 0, 0),
        );
        // Invalid arguments: a filter refuses first, the kernel would return EINVAL.
        let returned = libc::syscall(libc::SYS_reboot, 1, 2, 3, 0);
        match (returned, last_errno()) {
            (-1, libc::EINVAL) => breach("reboot was heard"),
            _ => refused("reboot", returned),
        }
        refused(
            "swapon",
            libc::syscall(libc::SYS_swapon, c"/nowhere".as_ptr(), 0),
        );
        refused(
            "swapoff",
            libc::syscall(libc::SYS_swapoff, c"/nowhere".as_ptr()),
        );
        refused("acct", libc::syscall(libc::SYS_acct, c"/nowhere".as_ptr()));
        refused(
            "quotactl",
            libc::syscall(libc::SYS_quotactl, 0, c"/nowhere".as_ptr(), 0, 0),
        );
        refused(
            "sethostname",
            libc::syscall(libc::SYS_sethostname, c"hostile".as_ptr(), 7),
        );
        refused(
            "setdomainname",
            libc::syscall(libc::SYS_setdomainname, c"hostile".as_ptr(), 7),
        );
        refused(
            "fanotify_init",
            libc::syscall(libc::SYS_fanotify_init, 0, 0),
        );
        refused(
            "lookup_dcookie",
            libc::syscall(libc::SYS_lookup_dcookie, 0, 0, 0),
        );
        refused("vhangup", libc::syscall(libc::SYS_vhangup));
        #[cfg(target_arch = "x86_64")]
        {
            refused("iopl", libc::syscall(libc::SYS_iopl, 3));
            refused("ioperm", libc::syscall(libc::SYS_ioperm, 0x70, 2, 1));
            refused(
                "modify_ldt",
                libc::syscall(libc::SYS_modify_ldt, 0, text.as_ptr(), 16),
            );
        }
    }
    judge("real-time scheduling", real_time());
    judge(
        "a better priority",
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }.into()),
    );
    // ADDR_NO_RANDOMIZE is for debuggers; READ_IMPLIES_EXEC is never needed.
    judge(
        "read implies exec",
        check(unsafe { libc::personality(0x040_0000) }.into()),
    );
}

fn real_time() -> io::Result<i64> {
    let parameters = libc::sched_param { sched_priority: 1 };
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }.into())
}
