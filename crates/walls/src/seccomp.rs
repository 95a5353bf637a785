//! The system call filter: what programs need, by name; everything else is refused.
//!
//! Refused with `EPERM`, so that a program can say so, but for `clone3`, which answers `ENOSYS`,
//! so that the C library falls back to `clone`, whose flags a filter can read. System calls of
//! another architecture (i386) kill the process; those of x32 are numbers that are not on the
//! list. Entry points: `install`, and [`listing`] for engines that put up a filter of their own.

use std::io;

use libc::c_long;
use nix::errno::Errno;

use crate::filter::{Condition, Filter};

/// What depends on the other walls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Affinity is what limits the processors, so it must stay.
    pub(crate) refuse_affinity: bool,
    /// The kernel may be another than Linux, on which commands can kill process 1.
    pub(crate) guard_process_1: bool,
    /// It is: its processes have no other guard than this filter.
    pub(crate) is_own_kernel: bool,
}

/// The highest number of the guest's own on a kernel that is no Linux: itself, what mapped its user,
/// and two threads, which it starts before any command.
const LAST_OF_GUEST: u32 = 4;

/// Not yet known to the C library's crate.
#[allow(non_upper_case_globals, reason = "named as the C library would")]
mod newer {
    use libc::c_long;

    pub(super) const SYS_futex_waitv: c_long = 449;
    pub(super) const SYS_fchmodat2: c_long = 452;
    pub(super) const SYS_futex_wake: c_long = 454;
    pub(super) const SYS_futex_wait: c_long = 455;
    pub(super) const SYS_futex_requeue: c_long = 456;
}

/// A system call by its number and, as the constant has it, its name.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: c_long,
    constant: &'static str,
}

impl Call {
    fn name(&self) -> &'static str {
        let after = self.constant.rsplit_once("SYS_");
        after.map_or(self.constant, |(_, name)| name)
    }
}

macro_rules! calls {
    ($($call:path),* $(,)?) => {
        &[$(Call { number: $call, constant: stringify!($call) }),*]
    };
}

/// The filter by names, for programs that make one of their own of it. Wider than the filter where
/// a condition is of a kind that they do not have: it stands around the other, which is stricter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub allowed: Vec<&'static str>,
    /// Allowed if all bits of one of the alternatives are so.
    pub conditional: Vec<(&'static str, Vec<Vec<Bits>>)>,
    /// Refused with an error of their own.
    pub refused: Vec<(&'static str, i32)>,
}

/// Bits that an argument must have. No alternative has two of these for one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    pub argument: u32,
    pub mask: u32,
    pub value: u32,
}

/// What [`install`] lets through. What a guest needs to confine itself is among it.
pub fn listing() -> Listing {
    let filter = filter(&Options::default());
    let mut listing = Listing {
        allowed: ALLOWED.iter().chain(ALLOWED_HERE).map(Call::name).collect(),
        ..Listing::default()
    };
    let name = |number: u32| {
        let mut named = NAMED.iter().chain(NAMED_HERE);
        named
            .find(|call| call.number as u32 == number)
            .map(Call::name)
            .expect("every call with a condition has a name")
    };
    for (number, alternatives) in filter.conditional() {
        let plain = alternatives
            .iter()
            .map(|all| all.iter().map(bits).collect());
        match plain.collect::<Option<Vec<_>>>() {
            Some(plain) => listing.conditional.push((name(*number), plain)),
            None => listing.allowed.push(name(*number)),
        }
    }
    for (number, errno) in filter.refused() {
        listing.refused.push((name(*number), *errno as i32));
    }
    listing
}

fn bits(condition: &Condition) -> Option<Bits> {
    match *condition {
        Condition::Masked {
            argument,
            mask,
            value,
        } => Some(Bits {
            argument,
            mask,
            value,
        }),
        Condition::Not { .. } | Condition::Short { .. } => None,
    }
}

/// Confines this process and all its descendants.
pub(crate) fn install(options: &Options) -> io::Result<()> {
    filter(options).install()
}

fn filter(options: &Options) -> Filter {
    let mut filter = Filter::default();
    filter.allow(ALLOWED.iter().chain(ALLOWED_HERE).map(|call| call.number));
    filter.refuse(libc::SYS_clone3, Errno::ENOSYS);

    // No new namespaces, whatever else the flags say; the time namespace is among them.
    const CLONE_NEWTIME: libc::c_int = 0x80;
    let namespaces = libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWUTS
        | CLONE_NEWTIME;
    let none = |mask: u32| Condition::Masked {
        argument: 0,
        mask,
        value: 0,
    };
    // In `clone` the lowest byte is the exit signal, so the time namespace cannot be asked for.
    let namespaces = namespaces as u32 & !0xff;
    filter.allow_if(libc::SYS_clone, vec![vec![none(namespaces)]]);

    // No setuid and setgid bits: on the host, a file in the workspace belongs to its owner.
    let plain = |argument| {
        vec![Condition::Masked {
            argument,
            mask: libc::S_ISUID | libc::S_ISGID,
            value: 0,
        }]
    };
    let makes_nothing = |argument| {
        vec![Condition::Masked {
            argument,
            // `O_TMPFILE` without the bit that it shares with `O_DIRECTORY`.
            mask: (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32,
            value: 0,
        }]
    };
    for (call, mode) in [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (newer::SYS_fchmodat2, 2),
    ] {
        filter.allow_if(call, vec![plain(mode)]);
    }
    // No devices either, whatever another kernel than Linux thinks of that.
    let no_device = |argument| {
        vec![Condition::Masked {
            argument,
            mask: libc::S_ISUID | libc::S_ISGID | libc::S_IFCHR,
            value: 0,
        }]
    };
    filter.allow_if(libc::SYS_mknodat, vec![no_device(2)]);
    filter.allow_if(libc::SYS_openat, vec![makes_nothing(2), plain(3)]);
    // Its mode is behind a pointer, where no filter can look.
    filter.refuse(libc::SYS_openat2, Errno::ENOSYS);
    #[cfg(target_arch = "x86_64")]
    {
        for (call, mode) in [(libc::SYS_chmod, 1), (libc::SYS_creat, 1)] {
            filter.allow_if(call, vec![plain(mode)]);
        }
        filter.allow_if(libc::SYS_mknod, vec![no_device(1)]);
        filter.allow_if(libc::SYS_open, vec![makes_nothing(1), plain(2)]);
    }

    // Space without content could fill a disk faster than anybody looks; without this call
    // libraries write.
    filter.refuse(libc::SYS_fallocate, Errno::EOPNOTSUPP);

    // What System V calls keep belongs to no process, so no kill frees it: only crumbs, such as
    // those by which databases see each other.
    let crumb = Condition::Masked {
        argument: 1,
        mask: !0xfff,
        value: 0,
    };
    filter.allow_if(
        libc::SYS_shmget,
        vec![vec![crumb, Condition::Short { argument: 1 }]],
    );

    // The limits of others and the guest's share of the processor are not a command's to change.
    filter.allow_if(libc::SYS_prlimit64, vec![vec![Condition::equals(0, 0)]]);
    const GUEST: u32 = 1;
    let not_guest = |argument| Condition::Not {
        argument,
        value: GUEST,
    };
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
    ] {
        if call != libc::SYS_sched_setaffinity || !options.refuse_affinity {
            filter.allow_if(call, vec![vec![not_guest(0)]]);
        }
    }
    if options.guard_process_1 {
        let mild = |argument| {
            [libc::SIGKILL, libc::SIGSTOP]
                .map(|signal| Condition::Not {
                    argument,
                    value: signal as u32,
                })
                .to_vec()
        };
        // A signal to one of its threads is one to all of it.
        let last = match options.is_own_kernel {
            true => LAST_OF_GUEST,
            false => GUEST,
        };
        let nobody_of_guest = |argument| -> Vec<_> {
            let numbers = GUEST..=last;
            numbers
                .map(|value| Condition::Not { argument, value })
                .collect()
        };
        for (call, signal) in [
            (libc::SYS_kill, 1),
            (libc::SYS_rt_sigqueueinfo, 1),
            (libc::SYS_tgkill, 2),
            (libc::SYS_rt_tgsigqueueinfo, 2),
        ] {
            filter.allow_if(call, vec![nobody_of_guest(0), mild(signal)]);
        }
        // It names a thread, which can be any of the guest's.
        filter.allow_if(libc::SYS_tkill, vec![mild(1)]);
    }
    const ONE_PROCESS: u32 = 1;
    let one_process = Condition::equals(0, libc::PRIO_PROCESS);
    let mut priority = vec![one_process, not_guest(1)];
    if options.is_own_kernel {
        // From 0 to 31: nobody asks it for rights to the better ones.
        priority.push(Condition::Masked {
            argument: 2,
            mask: !31,
            value: 0,
        });
        // Nor to those of others.
        let own = vec![Condition::equals(0, 0)];
        filter.allow_if(libc::SYS_get_robust_list, vec![own]);
    }
    filter.allow_if(libc::SYS_setpriority, vec![priority]);
    let one_process = Condition::equals(0, ONE_PROCESS);
    filter.allow_if(libc::SYS_ioprio_set, vec![vec![one_process, not_guest(1)]]);

    // Sockets: local ones, internet ones, and the routing questions that libraries ask.
    let kind = |kind: libc::c_int| Condition::Masked {
        argument: 1,
        mask: 0xf,
        value: kind as u32,
    };
    let mut sockets = Vec::new();
    for one in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        sockets.push(vec![Condition::equals(0, libc::AF_UNIX as u32), kind(one)]);
    }
    for (one, protocols) in [
        (
            libc::SOCK_STREAM,
            &[0, libc::IPPROTO_TCP, libc::IPPROTO_MPTCP][..],
        ),
        (
            libc::SOCK_DGRAM,
            &[
                0,
                libc::IPPROTO_UDP,
                libc::IPPROTO_ICMP,
                libc::IPPROTO_ICMPV6,
            ],
        ),
    ] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in protocols {
                let family = Condition::equals(0, family as u32);
                let protocol = Condition::equals(2, *protocol as u32);
                sockets.push(vec![family, kind(one), protocol]);
            }
        }
    }
    sockets.push(vec![
        Condition::equals(0, libc::AF_NETLINK as u32),
        Condition::equals(2, libc::NETLINK_ROUTE as u32),
    ]);
    filter.allow_if(libc::SYS_socket, sockets);
    let local = vec![Condition::equals(0, libc::AF_UNIX as u32)];
    filter.allow_if(libc::SYS_socketpair, vec![local]);

    // No typing into a terminal on somebody's behalf (TIOCSTI, TIOCLINUX), no line disciplines.
    let not = |value| Condition::Not { argument: 1, value };
    let terminal = vec![not(libc::TIOCSTI as u32), not(0x541c), not(0x5423)];
    filter.allow_if(libc::SYS_ioctl, vec![terminal]);

    // The execution domains that change nothing of security.
    let domains = [0, 0x0008, 0x20000, 0x20008, 0x0004_0000, 0xffff_ffff];
    let domains = domains.map(|domain| vec![Condition::equals(0, domain)]);
    filter.allow_if(libc::SYS_personality, domains.into());

    filter
}

/// On every architecture.
#[rustfmt::skip]
const ALLOWED: &[Call] = calls![
    // Files.
    libc::SYS_close, libc::SYS_close_range,
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev,
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev,
    libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_lseek, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice, libc::SYS_copy_file_range,
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getdents64,
    libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_linkat,
    libc::SYS_symlinkat, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_utimensat, libc::SYS_truncate, libc::SYS_ftruncate,
    libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync, libc::SYS_syncfs,
    libc::SYS_sync_file_range, libc::SYS_fadvise64, libc::SYS_readahead,
    libc::SYS_flock, libc::SYS_fcntl, libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2,
    libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_getcwd, libc::SYS_umask,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr,
    libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr,
    libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch,
    libc::SYS_io_setup, libc::SYS_io_destroy, libc::SYS_io_submit, libc::SYS_io_cancel,
    libc::SYS_io_getevents,
    // Waiting.
    libc::SYS_pselect6, libc::SYS_ppoll, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_signalfd4,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    // Memory.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_madvise, libc::SYS_mincore, libc::SYS_msync, libc::SYS_mlock, libc::SYS_mlock2,
    libc::SYS_mlockall, libc::SYS_munlock, libc::SYS_munlockall, libc::SYS_memfd_create,
    libc::SYS_remap_file_pages, libc::SYS_membarrier, libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy, libc::SYS_mbind, libc::SYS_pkey_alloc, libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect, libc::SYS_process_madvise,
    // Processes and threads.
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group,
    libc::SYS_wait4, libc::SYS_waitid, libc::SYS_set_tid_address, libc::SYS_gettid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpgid, libc::SYS_setpgid,
    libc::SYS_getsid, libc::SYS_setsid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups,
    libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid,
    libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups, libc::SYS_setfsuid,
    libc::SYS_setfsgid, libc::SYS_capget, libc::SYS_capset, libc::SYS_prctl,
    libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_getrusage,
    libc::SYS_times, libc::SYS_getpriority, libc::SYS_ioprio_get,
    libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_getattr,
    libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval, libc::SYS_getcpu, libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal, libc::SYS_rseq, libc::SYS_set_robust_list,
    libc::SYS_get_robust_list, libc::SYS_futex, newer::SYS_futex_waitv,
    newer::SYS_futex_wake,
    newer::SYS_futex_wait, newer::SYS_futex_requeue, libc::SYS_restart_syscall,
    libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    // Signals.
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    // Time.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_getitimer, libc::SYS_setitimer,
    libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_gettime,
    libc::SYS_timer_settime, libc::SYS_timer_getoverrun,
    // Sockets; `socket` itself has conditions.
    libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_connect, libc::SYS_shutdown, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_sendto, libc::SYS_recvfrom,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg,
    // Communication between processes.
    libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl,
    libc::SYS_mq_open, libc::SYS_mq_unlink, libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify, libc::SYS_mq_getsetattr,
    // The machine.
    libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrandom,
];

/// Older forms of the same, which only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_HERE: &[Call] = calls![
    libc::SYS_stat, libc::SYS_lstat, libc::SYS_access,
    libc::SYS_readlink, libc::SYS_getdents, libc::SYS_mkdir, libc::SYS_rmdir,
    libc::SYS_unlink, libc::SYS_link, libc::SYS_symlink, libc::SYS_rename,
    libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat,
    libc::SYS_dup2, libc::SYS_pipe, libc::SYS_select, libc::SYS_poll, libc::SYS_epoll_create,
    libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_signalfd, libc::SYS_inotify_init,
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_getpgrp, libc::SYS_arch_prctl, libc::SYS_time,
    libc::SYS_alarm, libc::SYS_pause,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[Call] = &[];

/// The calls of the filter that are not in these lists, for their names.
#[rustfmt::skip]
const NAMED: &[Call] = calls![
    libc::SYS_clone, libc::SYS_clone3, libc::SYS_fchmod, libc::SYS_fchmodat, newer::SYS_fchmodat2,
    libc::SYS_mknodat, libc::SYS_openat, libc::SYS_openat2, libc::SYS_fallocate, libc::SYS_shmget,
    libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler, libc::SYS_sched_setattr, libc::SYS_setpriority,
    libc::SYS_ioprio_set, libc::SYS_socket, libc::SYS_socketpair, libc::SYS_ioctl,
    libc::SYS_personality,
];
#[cfg(target_arch = "x86_64")]
const NAMED_HERE: &[Call] = calls![
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_mknod,
    libc::SYS_open
];
#[cfg(not(target_arch = "x86_64"))]
const NAMED_HERE: &[Call] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_short() {
        let program = filter(&Options::default()).assemble();
        assert!(program.len() < 700, "{} instructions", program.len());
    }

    #[test]
    fn what_the_walls_stand_on_is_never_allowed() {
        for call in [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_fsopen,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            libc::SYS_bpf,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_clock_settime,
            libc::SYS_settimeofday,
            libc::SYS_open_by_handle_at,
            libc::SYS_syslog,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_acct,
            libc::SYS_fanotify_init,
            libc::SYS_kcmp,
            libc::SYS_sethostname,
            libc::SYS_quotactl,
        ] {
            let listed = ALLOWED
                .iter()
                .chain(ALLOWED_HERE)
                .any(|allowed| allowed.number == call);
            assert!(!listed, "system call {call}");
        }
    }

    #[test]
    fn the_list_for_others_names_every_call_and_is_never_narrower() {
        let (filter, listing) = (filter(&Options::default()), listing());
        let named = listing.allowed.len() + listing.conditional.len();
        let calls = ALLOWED.len() + ALLOWED_HERE.len() + filter.conditional().len();
        assert_eq!(named, calls);
        for name in ["read", "futex_waitv", "landlock_restrict_self", "ioctl"] {
            assert!(listing.allowed.contains(&name), "{name}");
        }
        assert!(listing.refused.contains(&("clone3", libc::ENOSYS)));
        let clone = listing
            .conditional
            .iter()
            .find(|(name, _)| *name == "clone");
        assert!(clone.is_some());
        // One condition for an argument: engines take two for a choice.
        for (name, alternatives) in &listing.conditional {
            for all in alternatives {
                let mut arguments: Vec<_> = all.iter().map(|bits| bits.argument).collect();
                arguments.dedup();
                assert_eq!(arguments.len(), all.len(), "{name}");
            }
        }
    }
}
