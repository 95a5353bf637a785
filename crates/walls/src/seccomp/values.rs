//! The allowed operations of the four multiplexed calls: `ioctl` requests, `prctl` options, `fcntl` commands
//! and socket options, by number, with the reason for each group.
//!
//! These are allowlists: a request of a newer kernel is refused until it is added here. The kernel takes all
//! of these numbers as 32 bits. Each range includes both ends. Plain data.

/// Requests of `ioctl`. Any other fails with `ENOTTY`, as on a file that does not support it.
///
/// Left out on purpose: `FS_IOC_RESVSP` and related ones (`fallocate` by another name, too fast for the disk
/// limit), `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR` (they change the project ids and inheritance that
/// quotas rely on), `FICLONE`, `FICLONERANGE` and `FIDEDUPERANGE` (`copy_file_range` does the same),
/// `TIOCSTI`, `TIOCLINUX` and `TIOCCONS` (inject input into other terminals and read from them), `TIOCSETD`
/// (line disciplines are drivers), `FS_IOC_FIEMAP` (reveals positions on the host's disk), the requests of
/// namespace and process descriptors (they return namespaces).
pub(super) const IOCTL_REQUESTS: &[(u32, u32)] = &[
    // Terminals: TCGETS to TCSETSF, TCGETA to TCSETAF, TCSBRK, TCXONC, TCFLSH, TIOCEXCL, TIOCNXCL,
    // TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ. Every terminal inside belongs to the sandbox.
    (0x5401, 0x5411),
    // TIOCGWINSZ, TIOCSWINSZ.
    (0x5413, 0x5414),
    // FIONREAD: the number of readable bytes of a descriptor.
    (0x541b, 0x541b),
    // TIOCPKT, FIONBIO, TIOCNOTTY.
    (0x5420, 0x5422),
    // TIOCGETD, TCSBRKP.
    (0x5424, 0x5425),
    // TIOCGSID.
    (0x5429, 0x5429),
    // TCGETS2, TCSETS2, TCSETSW2, TCSETSF2: newer C libraries use only these.
    (0x802c_542a, 0x802c_542a),
    (0x402c_542b, 0x402c_542d),
    // TIOCGPTN, TIOCSPTLCK, TIOCGDEV, TIOCSIG, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL, TIOCGPTPEER: tmux, script
    // and ssh use them to open terminals.
    (0x8004_5430, 0x8004_5430),
    (0x4004_5431, 0x4004_5431),
    (0x8004_5432, 0x8004_5432),
    (0x4004_5436, 0x4004_5436),
    (0x8004_5438, 0x8004_5439),
    (0x8004_5440, 0x8004_5440),
    (0x5441, 0x5441),
    // FIONCLEX, FIOCLEX, FIOASYNC: flags of descriptors; node uses them instead of `fcntl`.
    (0x5450, 0x5452),
    // Sockets: FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK, SIOCGSTAMP, SIOCGSTAMPNS.
    (0x8901, 0x8907),
    // The read-only requests from SIOCGIFNAME to SIOCGIFINDEX. The network namespace belongs to the
    // sandbox, and changes to it need capabilities.
    (0x8910, 0x8910),
    (0x8912, 0x8913),
    (0x8915, 0x8915),
    (0x8917, 0x8917),
    (0x8919, 0x8919),
    (0x891b, 0x891b),
    (0x891d, 0x891d),
    (0x8921, 0x8921),
    (0x8927, 0x8927),
    (0x8933, 0x8933),
    (0x8935, 0x8935),
    // SIOCGIFTXQLEN, SIOCETHTOOL (link speed, which libraries query even for the loopback),
    // SIOCOUTQNSD, SIOCGIFMAP.
    (0x8942, 0x8942),
    (0x8946, 0x8946),
    (0x894b, 0x894b),
    (0x8970, 0x8970),
    // FIGETBSZ, FS_IOC_GETFLAGS: read the block size and the flags of a file.
    (0x2, 0x2),
    (0x8008_6601, 0x8008_6601),
    // RNDGETENTCNT: reads a value that is constant on current kernels.
    (0x8004_5200, 0x8004_5200),
];

/// Options of `prctl`. Any other fails with `EINVAL`, as on an older kernel.
///
/// Left out on purpose: `PR_SET_SECCOMP` (filters use machine-wide memory), `PR_SCHED_CORE` (changes the
/// scheduling mode of the whole machine), `PR_SET_MEMORY_MERGE` (merged pages reveal the content of other
/// processes), `PR_SET_VMA` (allocates names that no limit counts), `PR_SET_PTRACER` (adds to a machine-wide
/// list), `PR_SET_MM`, `PR_SET_IO_FLUSHER`, `PR_SET_SYSCALL_USER_DISPATCH`.
pub(super) const PRCTL_OPTIONS: &[(u32, u32)] = &[
    // PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE.
    (1, 4),
    // PR_GET_KEEPCAPS, PR_SET_KEEPCAPS.
    (7, 8),
    // PR_SET_NAME, PR_GET_NAME.
    (15, 16),
    // PR_GET_SECCOMP: programs that install filters check whether there is one already.
    (21, 21),
    // PR_CAPBSET_READ and DROP, PR_GET_TSC and SET, PR_GET_SECUREBITS and SET, PR_SET_TIMERSLACK
    // and GET: harmless, because there are no capabilities to drop or keep.
    (23, 30),
    // PR_SET_CHILD_SUBREAPER and GET, PR_SET_NO_NEW_PRIVS and GET, PR_GET_TID_ADDRESS,
    // PR_SET_THP_DISABLE and GET.
    (36, 42),
    // PR_CAP_AMBIENT: can read and clear; raising needs capabilities.
    (47, 47),
    // PR_SVE_SET_VL and GET, PR_GET_SPECULATION_CTRL and SET, PR_PAC_RESET_KEYS,
    // PR_SET_TAGGED_ADDR_CTRL and GET: processor settings of the calling thread.
    (50, 56),
    // PR_PAC_SET_ENABLED_KEYS and GET.
    (60, 61),
    // PR_SME_SET_VL and GET, PR_SET_MDWE and GET.
    (63, 66),
];

/// Commands of `fcntl`, except `F_SETPIPE_SZ`, which has a condition. Any other fails with `EINVAL`.
///
/// Left out on purpose: `F_SETLEASE` (delays processes of the host that open the file), `F_NOTIFY` (reports
/// what other processes do in a folder).
pub(super) const FCNTL_COMMANDS: &[(u32, u32)] = &[
    // F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN,
    // F_SETSIG, F_GETSIG.
    (0, 11),
    // F_SETOWN_EX, F_GETOWN_EX, F_GETOWNER_UIDS.
    (15, 17),
    // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW.
    (36, 38),
    // F_GETLEASE.
    (1025, 1025),
    // F_DUPFD_QUERY, F_CREATED_QUERY.
    (1027, 1028),
    // F_DUPFD_CLOEXEC.
    (1030, 1030),
    // F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT, F_SET_RW_HINT, F_GET_FILE_RW_HINT,
    // F_SET_FILE_RW_HINT.
    (1032, 1038),
];

/// Options of sockets, by level. Any other fails with `ENOPROTOOPT`, as on a kernel without it.
///
/// Left out on purpose: `SO_ATTACH_FILTER`, `SO_ATTACH_BPF`, `SO_ATTACH_REUSEPORT_CBPF` and
/// `SO_ATTACH_REUSEPORT_EBPF` (BPF programs use machine-wide memory), `TCP_ULP` (loads drivers), `UDP_ENCAP`
/// (enables a code path for packets of the whole machine), and all options that need `CAP_NET_ADMIN`.
pub(super) const SOCKET_OPTIONS: &[(u32, &[(u32, u32)])] = &[
    (
        libc::SOL_SOCKET as u32,
        &[
            // SO_DEBUG to SO_BINDTODEVICE.
            (1, 25),
            // SO_DETACH_FILTER (there is never a filter), SO_PEERNAME, SO_TIMESTAMP.
            (27, 29),
            // SO_PASSSEC, SO_TIMESTAMPNS.
            (34, 35),
            // SO_TIMESTAMPING.
            (37, 37),
            // SO_RXQ_OVFL, SO_WIFI_STATUS, SO_PEEK_OFF.
            (40, 42),
            // SO_INCOMING_CPU.
            (49, 49),
            // SO_ZEROCOPY.
            (60, 60),
            // SO_BINDTOIFINDEX, and the options with 64-bit times.
            (62, 67),
            // SO_RCVMARK to SO_PASSPIDFD.
            (75, 76),
        ],
    ),
    // The network namespace belongs to the sandbox. Options from 64 on are packet filter tables.
    (libc::IPPROTO_IP as u32, &[(1, 63)]),
    // Without IPV6_FLOWLABEL_MGR, which allocates entries of a machine-wide table.
    (libc::IPPROTO_IPV6 as u32, &[(1, 31), (33, 63), (66, 80)]),
    (
        libc::IPPROTO_TCP as u32,
        &[
            // TCP_NODELAY to TCP_CONGESTION.
            (1, 13),
            // TCP_USER_TIMEOUT.
            (18, 18),
            // TCP_FASTOPEN, TCP_TIMESTAMP, TCP_NOTSENT_LOWAT.
            (23, 25),
            // TCP_FASTOPEN_CONNECT.
            (30, 30),
            // TCP_INQ, TCP_TX_DELAY.
            (36, 37),
        ],
    ),
    // UDP_CORK; UDP_SEGMENT, UDP_GRO, which QUIC uses.
    (libc::IPPROTO_UDP as u32, &[(1, 1), (103, 104)]),
    // ICMP6_FILTER: a mask of types, not a program. NETLINK_*: affects only the sandbox's network namespace.
    (libc::IPPROTO_ICMPV6 as u32, &[(1, 1)]),
    (libc::SOL_NETLINK as u32, &[(1, 12)]),
];
