//! The system calls that are allowed with any arguments, in groups, with the reason why untrusted programs
//! may use each group. Plain data.

use libc::c_long;

/// Calls that the `libc` crate does not define yet.
#[allow(non_upper_case_globals, reason = "named as the C library would")]
pub(super) mod newer {
    use libc::c_long;

    pub(in crate::seccomp) const SYS_futex_waitv: c_long = 449;
    pub(in crate::seccomp) const SYS_fchmodat2: c_long = 452;
    pub(in crate::seccomp) const SYS_futex_wake: c_long = 454;
    pub(in crate::seccomp) const SYS_futex_wait: c_long = 455;
    pub(in crate::seccomp) const SYS_futex_requeue: c_long = 456;
}

/// A system call: its number, and the constant that contains its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) number: c_long,
    constant: &'static str,
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        let after = self.constant.rsplit_once("SYS_");
        after.map_or(self.constant, |(_, name)| name)
    }
}

macro_rules! calls {
    ($($call:path),* $(,)?) => {
        &[$(Call { number: $call, constant: stringify!($call) }),*]
    };
}

/// Calls that every architecture has.
#[rustfmt::skip]
pub(super) const ALLOWED_CALLS: &[Call] = calls![
    // I/O on open files. Access was checked at open: by the mounts, which expose little of the host and
    // only read-only, and by Landlock. The limits on memory and open files bound the content of pipes.
    libc::SYS_close, libc::SYS_close_range,
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev,
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev,
    libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_lseek, libc::SYS_sendfile,
    libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice, libc::SYS_copy_file_range,
    libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2,
    // Names and metadata of files: the mounts and Landlock check access. The disk limit counts new files.
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getdents64,
    libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_linkat,
    libc::SYS_symlinkat, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_utimensat, libc::SYS_truncate, libc::SYS_ftruncate,
    libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_getcwd, libc::SYS_umask,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr,
    libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr,
    libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    // Writing back one file. `sync` and `syncfs` would write back the files of all processes.
    libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range, libc::SYS_readahead,
    // Locks and watches. Files of the host are under a separate overlay, so they have no effect on the
    // host and show nothing of it. The user namespace limits the number of watches.
    libc::SYS_flock,
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch,
    // Waiting for descriptors of the own process. Control groups count the kernel memory for it.
    libc::SYS_pselect6, libc::SYS_ppoll, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_signalfd4,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    // Memory of the own process. `mmap`, `memfd_create` and `madvise` have conditions.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_mincore, libc::SYS_msync, libc::SYS_mlock, libc::SYS_mlock2,
    libc::SYS_mlockall, libc::SYS_munlock, libc::SYS_munlockall,
    libc::SYS_remap_file_pages, libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy, libc::SYS_mbind, libc::SYS_pkey_alloc, libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect, libc::SYS_process_madvise,
    // Processes and threads: the pid namespace hides all others, the process limit counts them, and
    // without capabilities no call can change the user.
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group,
    libc::SYS_wait4, libc::SYS_waitid, libc::SYS_set_tid_address, libc::SYS_gettid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpgid, libc::SYS_setpgid,
    libc::SYS_getsid, libc::SYS_setsid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups,
    libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid,
    libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups, libc::SYS_setfsuid,
    libc::SYS_setfsgid, libc::SYS_capget, libc::SYS_capset,
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
    // Signals to processes of the pid namespace. The number of pending signals is limited.
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    // Time: reading clocks, and timers of the own process, which count against the limit on pending
    // signals. Alarm clocks, which wake a suspended machine, need a capability.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_getitimer, libc::SYS_setitimer,
    libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_gettime,
    libc::SYS_timer_settime, libc::SYS_timer_getoverrun,
    // Sockets: the conditions on `socket` restrict the type, and the network namespace has only a loopback.
    libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_connect, libc::SYS_shutdown, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_getsockopt, libc::SYS_sendto, libc::SYS_recvfrom,
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg,
    // Communication between processes, with objects of the sandbox's own ipc namespace.
    libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl,
    libc::SYS_mq_open, libc::SYS_mq_unlink, libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify, libc::SYS_mq_getsetattr,
    // Kernel version, memory and load of the machine, by which programs size themselves.
    libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrandom,
];

/// Older variants of these calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_HERE: &[Call] = calls![
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
pub(super) const ALLOWED_HERE: &[Call] = &[];

/// Calls with which the guest confines itself behind the walls of an engine. Its own filter then refuses
/// them.
#[rustfmt::skip]
pub(super) const CONFINEMENT_CALLS: &[Call] = calls![
    libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Linux native asynchronous I/O. It consumes a machine-wide limit (`fs.aio-max-nr`). Programs work without
/// it.
#[rustfmt::skip]
pub(super) const AIO_CALLS: &[Call] = calls![
    libc::SYS_io_setup, libc::SYS_io_destroy, libc::SYS_io_submit, libc::SYS_io_cancel,
    libc::SYS_io_getevents,
];

/// Calls of the filter that are in none of the other lists, to look up their names.
#[rustfmt::skip]
pub(super) const NAMED_CALLS: &[Call] = calls![
    libc::SYS_clone, libc::SYS_clone3, libc::SYS_fchmod, libc::SYS_fchmodat, newer::SYS_fchmodat2,
    libc::SYS_mknodat, libc::SYS_openat, libc::SYS_openat2, libc::SYS_fallocate, libc::SYS_shmget,
    libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler, libc::SYS_sched_setattr, libc::SYS_setpriority,
    libc::SYS_ioprio_set, libc::SYS_socket, libc::SYS_socketpair, libc::SYS_ioctl,
    libc::SYS_personality, libc::SYS_prctl, libc::SYS_fcntl, libc::SYS_setsockopt, libc::SYS_mmap,
    libc::SYS_madvise, libc::SYS_memfd_create, libc::SYS_membarrier, libc::SYS_sync,
    libc::SYS_syncfs, libc::SYS_fadvise64,
];
#[cfg(target_arch = "x86_64")]
pub(super) const NAMED_HERE: &[Call] = calls![
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_mknod,
    libc::SYS_open
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NAMED_HERE: &[Call] = &[];
