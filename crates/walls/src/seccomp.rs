//! The system call filter: what programs need, by name; everything else is refused.
//!
//! Refused with `EPERM`, so that a program can say so, but for calls that programs do without:
//! those answer as a kernel that was built without them. System calls of another architecture
//! (i386) kill the process; those of x32 are numbers that are not on the list.
//!
//! A call is allowed only if nothing that it takes belongs to the whole machine; `calls` and
//! `values` say why for each group. Entry points: `install`, and [`listing`] for engines that put
//! up a filter of their own.

mod calls;
mod values;

use std::io;

use nix::errno::Errno;

use self::calls::{ALLOWED, ALLOWED_HERE, ASYNCHRONOUS, CONFINING, Call, NAMED, NAMED_HERE, newer};
use self::values::{FCNTL_COMMANDS, IOCTL_REQUESTS, PRCTL_OPTIONS, SOCKET_OPTIONS};
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
    /// A virtual machine's program runs behind it and no command: it talks to `/dev/kvm`, and has
    /// filters of its own.
    pub(crate) is_machine: bool,
    /// The kernel knows the sandbox's user as one that no other process has, so what it counts for each
    /// user is the sandbox's alone.
    pub(crate) has_own_user: bool,
}

/// The highest number of the guest's own on a kernel that is no Linux: itself, what mapped its user,
/// and two threads, which it starts before any command.
const LAST_OF_GUEST: u32 = 4;

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

/// What [`install`] lets through, and what a guest needs to confine itself.
pub fn listing() -> Listing {
    let filter = filter(&Options::default());
    let allowed = [ALLOWED, ALLOWED_HERE, CONFINING].into_iter().flatten();
    let mut listing = Listing {
        allowed: allowed.map(Call::name).collect(),
        ..Listing::default()
    };
    let name = |number: u32| {
        let mut named = [NAMED, NAMED_HERE, ASYNCHRONOUS].into_iter().flatten();
        named
            .find(|call| call.number as u32 == number)
            .map(Call::name)
            .expect("every call with a condition has a name")
    };
    for one in filter.conditional() {
        let plain = one
            .alternatives
            .iter()
            .map(|all| all.iter().map(bits).collect());
        match plain.collect::<Option<Vec<_>>>() {
            Some(plain) => listing.conditional.push((name(one.call), plain)),
            None => listing.allowed.push(name(one.call)),
        }
    }
    for (number, errno) in filter.refused() {
        let is_of_guest = CONFINING.iter().any(|call| call.number as u32 == *number);
        match (is_of_guest, *errno) {
            (true, _) => {}
            // The guest's filter sees to these: not every engine knows a refusal without an error.
            (false, NOTHING_DONE) => listing.allowed.push(name(*number)),
            (false, errno) => listing.refused.push((name(*number), errno as i32)),
        }
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
        Condition::Not { .. } | Condition::Among { .. } | Condition::Short { .. } => None,
    }
}

/// Confines this process and all its descendants.
pub(crate) fn install(options: &Options) -> io::Result<()> {
    filter(options).install()
}

fn filter(options: &Options) -> Filter {
    let mut filter = Filter::default();
    filter.allow(ALLOWED.iter().chain(ALLOWED_HERE).map(|call| call.number));
    no_namespaces(&mut filter);
    plain_files(&mut filter);
    nobody_elses_disk(&mut filter);
    counted_memory(&mut filter);
    own_processes(&mut filter, options);
    usual_sockets(&mut filter);
    if options.is_machine {
        requests_of_a_machine(&mut filter)
    } else {
        named_requests(&mut filter, options);
        no_further_confinement(&mut filter);
    }
    filter
}

/// Stands for success: a call that answers so has done nothing.
const NOTHING_DONE: Errno = Errno::UnknownErrno;

/// No new namespaces, whatever else the flags say; the time namespace is among them.
fn no_namespaces(filter: &mut Filter) {
    const CLONE_NEWTIME: libc::c_int = 0x80;
    let namespaces = libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWUTS
        | CLONE_NEWTIME;
    // In `clone` the lowest byte is the exit signal, so the time namespace cannot be asked for.
    let none = none_of(0, namespaces as u32 & !0xff);
    filter.allow_if(libc::SYS_clone, vec![vec![none]]);
    // The C library falls back to `clone`, whose flags a filter can read.
    filter.refuse(libc::SYS_clone3, Errno::ENOSYS);
}

/// None of these bits is set.
fn none_of(argument: u32, mask: u32) -> Condition {
    Condition::Masked {
        argument,
        mask,
        value: 0,
    }
}

/// No setuid and setgid bits: on the host, a file in the workspace belongs to its owner. No devices
/// either, whatever another kernel than Linux thinks of that.
fn plain_files(filter: &mut Filter) {
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
}

/// What reaches the host's disk and its cache beyond the own files.
fn nobody_elses_disk(filter: &mut Filter) {
    // Space without content could fill a disk faster than anybody looks; without this call
    // libraries write.
    filter.refuse(libc::SYS_fallocate, Errno::EOPNOTSUPP);
    for call in ASYNCHRONOUS {
        filter.refuse(call.number, Errno::ENOSYS);
    }
    // Both write back what everybody has written. The first cannot fail, so it does nothing; files
    // are written back one by one, by `fsync`.
    filter.refuse(libc::SYS_sync, NOTHING_DONE);
    filter.refuse(libc::SYS_syncfs, Errno::ENOSYS);
    // Would drop the host's programs from the cache for everybody. It is advice: it may be ignored.
    let keeps_cache = Condition::Not {
        argument: 3,
        value: libc::POSIX_FADV_DONTNEED as u32,
    };
    filter.allow_if_or(libc::SYS_fadvise64, vec![vec![keeps_cache]], NOTHING_DONE);
}

/// No memory that the limit does not count, and none that is shared with others.
fn counted_memory(filter: &mut Filter) {
    // Huge pages are a stock of the machine and no memory of a control group.
    let no_huge = none_of(3, libc::MAP_HUGETLB as u32);
    filter.allow_if_or(libc::SYS_mmap, vec![vec![no_huge]], Errno::ENOMEM);
    let no_huge = none_of(1, libc::MFD_HUGETLB);
    filter.allow_if_or(libc::SYS_memfd_create, vec![vec![no_huge]], Errno::EINVAL);
    // What System V calls keep belongs to no process, so no kill frees it: only crumbs, such as
    // those by which databases see each other.
    let crumb = vec![
        none_of(1, !0xfff),
        Condition::Short { argument: 1 },
        none_of(2, libc::SHM_HUGETLB as u32),
    ];
    filter.allow_if(libc::SYS_shmget, vec![crumb]);
    // Pages that are one with those of others tell by their speed what these hold.
    let unmerged = Condition::Not {
        argument: 2,
        value: libc::MADV_MERGEABLE as u32,
    };
    filter.allow_if_or(libc::SYS_madvise, vec![vec![unmerged]], Errno::EINVAL);
    // Barriers among the own threads; 1, 2 and 4 interrupt all processors.
    const OWN_BARRIERS: &[(u32, u32)] = &[
        (0, 0),
        (8, 8),
        (16, 16),
        (32, 32),
        (64, 64),
        (128, 128),
        (256, 256),
    ];
    let own = Condition::Among {
        argument: 0,
        ranges: OWN_BARRIERS,
    };
    filter.allow_if_or(libc::SYS_membarrier, vec![vec![own]], Errno::EINVAL);
}

/// The limits of others and the guest's share of the processor are not a command's to change.
fn own_processes(filter: &mut Filter, options: &Options) {
    filter.allow_if(libc::SYS_prlimit64, vec![vec![Condition::equals(0, 0)]]);
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
    let one_process = Condition::equals(0, libc::PRIO_PROCESS);
    let mut priority = vec![one_process, not_guest(1)];
    if options.is_own_kernel {
        // From 0 to 31: nobody asks it for rights to the better ones.
        priority.push(none_of(2, !31));
        // Nor to those of others.
        let own = vec![Condition::equals(0, 0)];
        filter.allow_if(libc::SYS_get_robust_list, vec![own]);
    }
    filter.allow_if(libc::SYS_setpriority, vec![priority]);
    const ONE_PROCESS: u32 = 1;
    let one_process = Condition::equals(0, ONE_PROCESS);
    filter.allow_if(libc::SYS_ioprio_set, vec![vec![one_process, not_guest(1)]]);
    // The execution domains that change nothing of security.
    let domains = [0, 0x0008, 0x20000, 0x20008, 0x0004_0000, 0xffff_ffff];
    let domains = domains.map(|domain| vec![Condition::equals(0, domain)]);
    filter.allow_if(libc::SYS_personality, domains.into());
}

const GUEST: u32 = 1;

fn not_guest(argument: u32) -> Condition {
    Condition::Not {
        argument,
        value: GUEST,
    }
}

/// No deadly signals to the guest, where the kernel would deliver them.
fn guard_guest(filter: &mut Filter, options: &Options) {
    let mild = |argument| {
        [libc::SIGKILL, libc::SIGSTOP]
            .map(|signal| Condition::Not {
                argument,
                value: signal as u32,
            })
            .to_vec()
    };
    // A signal to one of its threads is one to all of it.
    let last = if options.is_own_kernel {
        LAST_OF_GUEST
    } else {
        GUEST
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

/// Sockets: local ones, internet ones, and the routing questions that libraries ask.
fn usual_sockets(filter: &mut Filter) {
    let kind = |kind: libc::c_int| Condition::Masked {
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
        sockets.push(vec![Condition::equals(0, libc::AF_UNIX as u32), kind(*one)]);
    }
    for (one, protocols) in [(libc::SOCK_STREAM, TCP), (libc::SOCK_DGRAM, UDP)] {
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
    let options = SOCKET_OPTIONS.iter().map(|(level, ranges)| {
        let ranges = Condition::Among {
            argument: 2,
            ranges,
        };
        vec![Condition::equals(1, *level), ranges]
    });
    filter.allow_if_or(libc::SYS_setsockopt, options.collect(), Errno::ENOPROTOOPT);
}

/// The calls that do many things, as far as `values` names these.
fn named_requests(filter: &mut Filter, options: &Options) {
    let among = |argument, ranges| vec![Condition::Among { argument, ranges }];
    let requests = among(1, IOCTL_REQUESTS);
    filter.allow_if_or(libc::SYS_ioctl, vec![requests], Errno::ENOTTY);
    let prctl_options = among(0, PRCTL_OPTIONS);
    filter.allow_if_or(libc::SYS_prctl, vec![prctl_options], Errno::EINVAL);
    filter.allow_if_or(
        libc::SYS_fcntl,
        vec![among(1, FCNTL_COMMANDS), pipe_size(options)],
        Errno::EINVAL,
    );
}

/// What a virtual machine's program asks for is not for this filter to know, but for typing into a
/// terminal on somebody's behalf (TIOCSTI, TIOCLINUX) and line disciplines.
fn requests_of_a_machine(filter: &mut Filter) {
    let not = |value| Condition::Not { argument: 1, value };
    let terminal = vec![not(libc::TIOCSTI as u32), not(0x541c), not(0x5423)];
    filter.allow_if_or(libc::SYS_ioctl, vec![terminal], Errno::ENOTTY);
    filter.allow([libc::SYS_prctl, libc::SYS_fcntl, libc::SYS_seccomp]);
}

/// Up to the usual size of a pipe: the kernel bounds what the pipes of one user hold, and all sandboxes
/// of an ordinary user share that. A sandbox with a user of its own may have what the kernel gives to
/// anybody; its memory limit counts it.
fn pipe_size(options: &Options) -> Vec<Condition> {
    const SHARED_SIZES: &[(u32, u32)] = &[(0, 64 << 10)];
    const OWN_SIZES: &[(u32, u32)] = &[(0, 1 << 20)];
    vec![
        Condition::equals(1, libc::F_SETPIPE_SZ as u32),
        Condition::Among {
            argument: 2,
            ranges: if options.has_own_user {
                OWN_SIZES
            } else {
                SHARED_SIZES
            },
        },
        Condition::Short { argument: 2 },
    ]
}

/// Filters and rules take memory of the machine that no limit counts: of filters it has so little
/// that one sandbox could keep all others from starting. A kernel without filters says `EINVAL`,
/// which man, file and apt take for an answer, one without Landlock `ENOSYS`.
fn no_further_confinement(filter: &mut Filter) {
    for call in CONFINING {
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
            libc::SYS_seccomp,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
            libc::SYS_io_setup,
            libc::SYS_sync,
            libc::SYS_syncfs,
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
        let calls = ALLOWED.len() + ALLOWED_HERE.len() + CONFINING.len();
        let silent = filter.refused().iter();
        let silent = silent.filter(|(_, errno)| *errno == NOTHING_DONE).count();
        let calls = calls + filter.conditional().len() + silent;
        assert_eq!(named, calls);
        for name in ["read", "futex_waitv", "landlock_restrict_self", "ioctl"] {
            assert!(listing.allowed.contains(&name), "{name}");
        }
        for refused in [("clone3", libc::ENOSYS), ("io_setup", libc::ENOSYS)] {
            assert!(listing.refused.contains(&refused), "{refused:?}");
        }
        // The guest behind it installs its own.
        for (name, _) in &listing.refused {
            assert!(!listing.allowed.contains(name), "{name}");
        }
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
