//! The system call filter: a list of allowed calls; everything else is refused.
//!
//! A refused call fails with `EPERM`, so that a program can report it. Calls that programs can do without
//! fail as on a kernel that was built without them. System calls of another architecture (i386) kill the
//! process; x32 calls have numbers that are not on the list.
//!
//! A call is allowed only if it uses no resource that the whole machine shares. `calls` and `values` give
//! the reason for each group. Entry points: `install`, and [`profile`] for engines that install their own
//! filter.

mod calls;
mod values;

use std::io;

use nix::errno::Errno;

use self::calls::{
    AIO_CALLS, ALLOWED_CALLS, ALLOWED_HERE, CONFINEMENT_CALLS, Call, NAMED_CALLS, NAMED_HERE, newer,
};
use self::values::{FCNTL_COMMANDS, IOCTL_REQUESTS, PRCTL_OPTIONS, SOCKET_OPTIONS};
use crate::filter::{ArgumentCondition, SeccompFilter};

/// Variations of the filter that depend on the other walls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FilterOptions {
    /// Refuse changes of the CPU affinity, because it is what limits the CPU time.
    pub(crate) refuse_affinity: bool,
    /// Refuse deadly signals to process 1. The kernel may not be Linux and may deliver them.
    pub(crate) guard_process_1: bool,
    /// The kernel is gVisor's: only this filter protects the guest's threads from commands.
    pub(crate) is_gvisor: bool,
    /// The filter is for a VMM and not for commands. A VMM uses `/dev/kvm` and installs its own filters.
    pub(crate) is_vmm: bool,
    /// No other process has the sandbox's user id, so the kernel's limits per user apply to it alone.
    pub(crate) has_own_user: bool,
}

/// The highest pid that belongs to the guest on gVisor: the guest itself, the process that wrote its user
/// mapping, and two threads, all started before any command.
const MAX_GUEST_PID: u32 = 4;

/// The filter as a list of names, for container engines. It is wider than the filter, because engines do not
/// support every kind of condition. The guest installs the stricter filter in addition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeccompProfile {
    pub allowed: Vec<&'static str>,
    /// Allowed if every mask of at least one alternative matches.
    pub conditional: Vec<(&'static str, Vec<Vec<ArgumentMask>>)>,
    /// Refused with this errno instead of `EPERM`.
    pub refused: Vec<(&'static str, i32)>,
}

/// Matches if `argument & mask == value`. No alternative has two of these for the same argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentMask {
    pub argument: u32,
    pub mask: u32,
    pub value: u32,
}

/// The calls that [`install`] allows, and those that a guest needs to confine itself.
pub fn profile() -> SeccompProfile {
    let filter = build_filter(&FilterOptions::default());
    let allowed = [ALLOWED_CALLS, ALLOWED_HERE, CONFINEMENT_CALLS]
        .into_iter()
        .flatten();
    let mut listing = SeccompProfile {
        allowed: allowed.map(Call::name).collect(),
        ..SeccompProfile::default()
    };
    let name = |number: u32| {
        let mut named = [NAMED_CALLS, NAMED_HERE, AIO_CALLS].into_iter().flatten();
        named
            .find(|call| call.number as u32 == number)
            .map(Call::name)
            .expect("every call with a condition has a name")
    };
    for one in filter.conditional() {
        let plain = one
            .alternatives
            .iter()
            .map(|all| all.iter().map(argument_mask).collect());
        match plain.collect::<Option<Vec<_>>>() {
            Some(plain) => listing.conditional.push((name(one.call), plain)),
            None => listing.allowed.push(name(one.call)),
        }
    }
    for (number, errno) in filter.refused() {
        let is_of_guest = CONFINEMENT_CALLS
            .iter()
            .any(|call| call.number as u32 == *number);
        match (is_of_guest, *errno) {
            (true, _) => {}
            // The guest's filter refuses these: not every engine can refuse a call without an error.
            (false, FAKE_SUCCESS) => listing.allowed.push(name(*number)),
            (false, errno) => listing.refused.push((name(*number), errno as i32)),
        }
    }
    listing
}

fn argument_mask(condition: &ArgumentCondition) -> Option<ArgumentMask> {
    match *condition {
        ArgumentCondition::MaskedEqual {
            argument,
            mask,
            value,
        } => Some(ArgumentMask {
            argument,
            mask,
            value,
        }),
        ArgumentCondition::NotEqual { .. }
        | ArgumentCondition::InRanges { .. }
        | ArgumentCondition::UpperHalfZero { .. } => None,
    }
}

/// Confines this process and all its descendants.
pub(crate) fn install(options: &FilterOptions) -> io::Result<()> {
    build_filter(options).install()
}

fn build_filter(options: &FilterOptions) -> SeccompFilter {
    let mut filter = SeccompFilter::default();
    filter.allow(
        ALLOWED_CALLS
            .iter()
            .chain(ALLOWED_HERE)
            .map(|call| call.number),
    );
    forbid_namespaces(&mut filter);
    forbid_special_files(&mut filter);
    restrict_disk(&mut filter);
    restrict_memory(&mut filter);
    restrict_process_control(&mut filter, options);
    allow_common_sockets(&mut filter);
    if options.is_vmm {
        allow_vmm_requests(&mut filter)
    } else {
        allow_listed_requests(&mut filter, options);
        forbid_confinement_calls(&mut filter);
    }
    filter
}

/// Errno 0: the call reports success without doing anything.
const FAKE_SUCCESS: Errno = Errno::UnknownErrno;

/// Refuses all flags that create namespaces, including time namespaces.
fn forbid_namespaces(filter: &mut SeccompFilter) {
    const CLONE_NEWTIME: libc::c_int = 0x80;
    let namespaces = libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWUTS
        | CLONE_NEWTIME;
    // In `clone`, the lowest byte is the exit signal, so a time namespace cannot be requested.
    let none = none_of(0, namespaces as u32 & !0xff);
    filter.allow_if(libc::SYS_clone, vec![vec![none]]);
    // Without `clone3`, the C library falls back to `clone`, whose flags a filter can read.
    filter.refuse(libc::SYS_clone3, Errno::ENOSYS);
}

/// None of these bits is set.
fn none_of(argument: u32, mask: u32) -> ArgumentCondition {
    ArgumentCondition::MaskedEqual {
        argument,
        mask,
        value: 0,
    }
}

/// Refuses setuid and setgid bits: a file in the workspace belongs to a user of the host. Also refuses
/// device nodes, which a kernel other than Linux might permit.
fn forbid_special_files(filter: &mut SeccompFilter) {
    let plain = |argument| vec![none_of(argument, libc::S_ISUID | libc::S_ISGID)];
    // `O_TMPFILE` without the bit that it shares with `O_DIRECTORY`.
    let makes = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;
    let makes_nothing = |argument| vec![none_of(argument, makes)];
    for (call, mode) in [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (newer::SYS_fchmodat2, 2),
    ] {
        filter.allow_if(call, vec![plain(mode)]);
    }
    let no_device = |argument| {
        let never = libc::S_ISUID | libc::S_ISGID | libc::S_IFCHR;
        vec![none_of(argument, never)]
    };
    filter.allow_if(libc::SYS_mknodat, vec![no_device(2)]);
    filter.allow_if(libc::SYS_openat, vec![makes_nothing(2), plain(3)]);
    // The mode is behind a pointer, which a filter cannot read.
    filter.refuse(libc::SYS_openat2, Errno::ENOSYS);
    #[cfg(target_arch = "x86_64")]
    {
        for (call, mode) in [(libc::SYS_chmod, 1), (libc::SYS_creat, 1)] {
            filter.allow_if(call, vec![plain(mode)]);
        }
        filter.allow_if(libc::SYS_mknod, vec![no_device(1)]);
        filter.allow_if(libc::SYS_open, vec![makes_nothing(1), plain(2)]);
    }
}

/// Restricts calls that affect the host's disk or page cache beyond the sandbox's own files.
fn restrict_disk(filter: &mut SeccompFilter) {
    // Preallocation could fill a disk faster than the disk limit is checked. Without this call, libraries
    // write zeros.
    filter.refuse(libc::SYS_fallocate, Errno::EOPNOTSUPP);
    for call in AIO_CALLS {
        filter.refuse(call.number, Errno::ENOSYS);
    }
    // Both write back the data of all processes on the machine. `sync` cannot fail, so it does nothing.
    // Single files can be written back with `fsync`.
    filter.refuse(libc::SYS_sync, FAKE_SUCCESS);
    filter.refuse(libc::SYS_syncfs, Errno::ENOSYS);
    // Would drop the host's programs from the page cache. It is only advice, so ignoring it is allowed.
    let keeps_cache = ArgumentCondition::NotEqual {
        argument: 3,
        value: libc::POSIX_FADV_DONTNEED as u32,
    };
    filter.allow_if_or(libc::SYS_fadvise64, vec![vec![keeps_cache]], FAKE_SUCCESS);
}

/// Refuses memory that the memory limit does not count, and memory shared with other sandboxes.
fn restrict_memory(filter: &mut SeccompFilter) {
    // Huge pages come from a machine-wide pool and do not count against a control group.
    let no_huge = none_of(3, libc::MAP_HUGETLB as u32);
    filter.allow_if_or(libc::SYS_mmap, vec![vec![no_huge]], Errno::ENOMEM);
    let no_huge = none_of(1, libc::MFD_HUGETLB);
    filter.allow_if_or(libc::SYS_memfd_create, vec![vec![no_huge]], Errno::EINVAL);
    // System V shared memory belongs to no process, so killing processes does not free it. Only segments
    // up to 4095 bytes are allowed, such as those that databases use to detect each other.
    let crumb = vec![
        none_of(1, !0xfff),
        ArgumentCondition::UpperHalfZero { argument: 1 },
        none_of(2, libc::SHM_HUGETLB as u32),
    ];
    filter.allow_if(libc::SYS_shmget, vec![crumb]);
    // The access time of merged pages reveals the content of other processes' pages.
    let unmerged = ArgumentCondition::NotEqual {
        argument: 2,
        value: libc::MADV_MERGEABLE as u32,
    };
    filter.allow_if_or(libc::SYS_madvise, vec![vec![unmerged]], Errno::EINVAL);
    // Barriers among the process's own threads. Commands 1, 2 and 4 interrupt all processors.
    const OWN_BARRIERS: &[(u32, u32)] = &[
        (0, 0),
        (8, 8),
        (16, 16),
        (32, 32),
        (64, 64),
        (128, 128),
        (256, 256),
    ];
    let own = ArgumentCondition::InRanges {
        argument: 0,
        ranges: OWN_BARRIERS,
    };
    filter.allow_if_or(libc::SYS_membarrier, vec![vec![own]], Errno::EINVAL);
}

/// Refuses changes to the limits of other processes and to the scheduling of the guest.
fn restrict_process_control(filter: &mut SeccompFilter, options: &FilterOptions) {
    filter.allow_if(
        libc::SYS_prlimit64,
        vec![vec![ArgumentCondition::equals(0, 0)]],
    );
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
        guard_guest(filter, options);
    }
    let one_process = ArgumentCondition::equals(0, libc::PRIO_PROCESS);
    let mut priority = vec![one_process, not_guest(1)];
    if options.is_gvisor {
        // Only 0 to 31: gVisor does not check privileges for negative (better) values.
        priority.push(none_of(2, !31));
        // Nor does it check access to the lists of other processes.
        let own = vec![ArgumentCondition::equals(0, 0)];
        filter.allow_if(libc::SYS_get_robust_list, vec![own]);
    }
    filter.allow_if(libc::SYS_setpriority, vec![priority]);
    const ONE_PROCESS: u32 = 1;
    let one_process = ArgumentCondition::equals(0, ONE_PROCESS);
    filter.allow_if(libc::SYS_ioprio_set, vec![vec![one_process, not_guest(1)]]);
    // Execution domains that do not affect security.
    let domains = [0, 0x0008, 0x20000, 0x20008, 0x0004_0000, 0xffff_ffff];
    let domains = domains.map(|domain| vec![ArgumentCondition::equals(0, domain)]);
    filter.allow_if(libc::SYS_personality, domains.into());
}

const GUEST_PID: u32 = 1;

fn not_guest(argument: u32) -> ArgumentCondition {
    ArgumentCondition::NotEqual {
        argument,
        value: GUEST_PID,
    }
}

/// Refuses SIGKILL and SIGSTOP to the guest, on kernels that would deliver them.
fn guard_guest(filter: &mut SeccompFilter, options: &FilterOptions) {
    let mild = |argument| {
        [libc::SIGKILL, libc::SIGSTOP]
            .map(|signal| ArgumentCondition::NotEqual {
                argument,
                value: signal as u32,
            })
            .to_vec()
    };
    // A deadly signal to one thread ends the whole guest.
    let last = if options.is_gvisor {
        MAX_GUEST_PID
    } else {
        GUEST_PID
    };
    let nobody_of_guest = |argument| -> Vec<_> {
        let numbers = GUEST_PID..=last;
        numbers
            .map(|value| ArgumentCondition::NotEqual { argument, value })
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
    // `tkill` takes a thread id, which can be that of any guest thread.
    filter.allow_if(libc::SYS_tkill, vec![mild(1)]);
}

/// Allows Unix sockets, internet sockets, and netlink route queries, which libraries use.
fn allow_common_sockets(filter: &mut SeccompFilter) {
    let kind = |kind: libc::c_int| ArgumentCondition::MaskedEqual {
        argument: 1,
        mask: 0xf,
        value: kind as u32,
    };
    const LOCAL_KINDS: &[libc::c_int] =
        &[libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET];
    const TCP: &[libc::c_int] = &[0, libc::IPPROTO_TCP];
    const UDP: &[libc::c_int] = &[
        0,
        libc::IPPROTO_UDP,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_ICMPV6,
    ];
    let mut sockets = Vec::new();
    for one in LOCAL_KINDS {
        sockets.push(vec![
            ArgumentCondition::equals(0, libc::AF_UNIX as u32),
            kind(*one),
        ]);
    }
    for (one, protocols) in [(libc::SOCK_STREAM, TCP), (libc::SOCK_DGRAM, UDP)] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in protocols {
                let family = ArgumentCondition::equals(0, family as u32);
                let protocol = ArgumentCondition::equals(2, *protocol as u32);
                sockets.push(vec![family, kind(one), protocol]);
            }
        }
    }
    sockets.push(vec![
        ArgumentCondition::equals(0, libc::AF_NETLINK as u32),
        ArgumentCondition::equals(2, libc::NETLINK_ROUTE as u32),
    ]);
    filter.allow_if(libc::SYS_socket, sockets);
    let local = vec![ArgumentCondition::equals(0, libc::AF_UNIX as u32)];
    filter.allow_if(libc::SYS_socketpair, vec![local]);
    let options = SOCKET_OPTIONS.iter().map(|(level, ranges)| {
        let ranges = ArgumentCondition::InRanges {
            argument: 2,
            ranges,
        };
        vec![ArgumentCondition::equals(1, *level), ranges]
    });
    filter.allow_if_or(libc::SYS_setsockopt, options.collect(), Errno::ENOPROTOOPT);
}

/// Allows `ioctl`, `prctl` and `fcntl` with the operations that `values` lists.
fn allow_listed_requests(filter: &mut SeccompFilter, options: &FilterOptions) {
    let among = |argument, ranges| vec![ArgumentCondition::InRanges { argument, ranges }];
    let requests = among(1, IOCTL_REQUESTS);
    filter.allow_if_or(libc::SYS_ioctl, vec![requests], Errno::ENOTTY);
    let prctl_options = among(0, PRCTL_OPTIONS);
    filter.allow_if_or(libc::SYS_prctl, vec![prctl_options], Errno::EINVAL);
    filter.allow_if_or(
        libc::SYS_fcntl,
        vec![among(1, FCNTL_COMMANDS), pipe_size_conditions(options)],
        Errno::EINVAL,
    );
}

/// Allows a VMM all requests except injecting input into a terminal (TIOCSTI, TIOCLINUX) and setting line
/// disciplines.
fn allow_vmm_requests(filter: &mut SeccompFilter) {
    let not = |value| ArgumentCondition::NotEqual { argument: 1, value };
    let terminal = vec![not(libc::TIOCSTI as u32), not(0x541c), not(0x5423)];
    filter.allow_if_or(libc::SYS_ioctl, vec![terminal], Errno::ENOTTY);
    filter.allow([libc::SYS_prctl, libc::SYS_fcntl, libc::SYS_seccomp]);
}

/// Pipes up to the default size. The kernel limits the total pipe size per user, and all sandboxes of an
/// ordinary user share that limit. A sandbox with its own user may have the largest size that the kernel
/// gives to any user; its memory limit counts the pages.
fn pipe_size_conditions(options: &FilterOptions) -> Vec<ArgumentCondition> {
    const SHARED_SIZES: &[(u32, u32)] = &[(0, 64 << 10)];
    const OWN_SIZES: &[(u32, u32)] = &[(0, 1 << 20)];
    vec![
        ArgumentCondition::equals(1, libc::F_SETPIPE_SZ as u32),
        ArgumentCondition::InRanges {
            argument: 2,
            ranges: if options.has_own_user {
                OWN_SIZES
            } else {
                SHARED_SIZES
            },
        },
        ArgumentCondition::UpperHalfZero { argument: 2 },
    ]
}

/// Refuses more filters and Landlock rules. They take kernel memory that no limit counts, and the memory
/// for filters is so small that one sandbox could keep all others from starting. The errors are those of a
/// kernel without these features: `EINVAL` for filters, which man, file and apt accept, and `ENOSYS` for
/// Landlock.
fn forbid_confinement_calls(filter: &mut SeccompFilter) {
    for call in CONFINEMENT_CALLS {
        let errno = match call.number {
            libc::SYS_seccomp => Errno::EINVAL,
            _ => Errno::ENOSYS,
        };
        filter.refuse(call.number, errno);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_short() {
        let program = build_filter(&FilterOptions::default()).assemble();
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
            libc::SYS_seccomp,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
            libc::SYS_io_setup,
            libc::SYS_sync,
            libc::SYS_syncfs,
        ] {
            let listed = ALLOWED_CALLS
                .iter()
                .chain(ALLOWED_HERE)
                .any(|allowed| allowed.number == call);
            assert!(!listed, "system call {call}");
        }
    }

    #[test]
    fn the_list_for_others_names_every_call_and_is_never_narrower() {
        let (filter, listing) = (build_filter(&FilterOptions::default()), profile());
        let named = listing.allowed.len() + listing.conditional.len();
        let calls = ALLOWED_CALLS.len() + ALLOWED_HERE.len() + CONFINEMENT_CALLS.len();
        let silent = filter.refused().iter();
        let silent = silent.filter(|(_, errno)| *errno == FAKE_SUCCESS).count();
        let calls = calls + filter.conditional().len() + silent;
        assert_eq!(named, calls);
        for name in ["read", "futex_waitv", "landlock_restrict_self", "ioctl"] {
            assert!(listing.allowed.contains(&name), "{name}");
        }
        for refused in [("clone3", libc::ENOSYS), ("io_setup", libc::ENOSYS)] {
            assert!(listing.refused.contains(&refused), "{refused:?}");
        }
        // The guest installs its own, stricter filter in addition.
        for (name, _) in &listing.refused {
            assert!(!listing.allowed.contains(name), "{name}");
        }
        let clone = listing
            .conditional
            .iter()
            .find(|(name, _)| *name == "clone");
        assert!(clone.is_some());
        // At most one condition per argument: engines treat two as alternatives.
        for (name, alternatives) in &listing.conditional {
            for all in alternatives {
                let mut arguments: Vec<_> = all.iter().map(|bits| bits.argument).collect();
                arguments.dedup();
                assert_eq!(arguments.len(), all.len(), "{name}");
            }
        }
    }
}
