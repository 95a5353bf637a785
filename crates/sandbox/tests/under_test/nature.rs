//! Intended differences of the backend under test from the others: each is one function here and a
//! sentence in the documentation of the backend. Nothing else may differ.

use std::time::Duration;

use sandbox::{Backend, LimitKind, Strength};

use super::backend;

/// Whether commands run on the host's kernel.
pub(crate) fn shares_kernel() -> bool {
    backend().strength() <= Strength::Namespaces
}

/// Whether a command inside is a process of the host too, with the same arguments.
pub(crate) fn host_sees_processes() -> bool {
    shares_kernel()
}

/// Whether changes to an image are kept in memory. Docker keeps them on its disk.
pub(crate) fn keeps_changes_in_memory() -> bool {
    backend() != Backend::Docker
}

/// Whether a watch inside sees changes by the host. Another kernel only notices them on access.
pub(crate) fn watches_the_host() -> bool {
    shares_kernel()
}

/// Whether the inside does not reveal the path of the workspace on the host. Linux shows each
/// process, in `/proc/self/mountinfo`, the source folder of a mount within its file system; nothing
/// can hide that.
pub(crate) fn hides_workspace_path() -> bool {
    !shares_kernel()
}

/// Whether a file has the same inode number inside and outside. gVisor numbers files itself.
pub(crate) fn keeps_inodes() -> bool {
    backend() != Backend::Gvisor
}

/// Whether `/` is a writable image under an overlay of this sandbox. A machine cannot show the
/// host's programs.
pub(crate) fn has_own_root() -> bool {
    backend().strength() == Strength::Vm
}

/// Whether a socket in the workspace connects processes across the walls: a host program with
/// commands, and two sandboxes on one folder. It does if they share a kernel; `connect` only
/// requires write permission on the socket.
pub(crate) fn shares_workspace_sockets() -> bool {
    shares_kernel()
}

/// The bound on resident memory. gVisor also counts memory that it has reserved for a process, in
/// large blocks.
pub(crate) fn resident(usual: u64) -> u64 {
    match backend() {
        Backend::Gvisor => usual * 3,
        _ => usual,
    }
}

/// Whether the end-of-file key ends the input of a command on a terminal. gVisor of 2022 delivers
/// the typed text, but no end.
pub(crate) fn terminal_ends_input() -> bool {
    backend() != Backend::Gvisor
}

/// Whether a command can open its terminal as `/dev/tty`. gVisor of 2022 has no controlling
/// terminal; the guest sends the signals of its keys.
pub(crate) fn has_controlling_terminal() -> bool {
    backend() != Backend::Gvisor
}

/// Limits that are weaker than stated even for root, as the description says.
pub(crate) fn partial_limits() -> &'static [LimitKind] {
    if counts_sockets() {
        &[]
    } else {
        &[LimitKind::Memory]
    }
}

/// Whether data that was sent but not received counts as memory of the processes. In gVisor it
/// belongs to the kernel; past the cgroup around that, the sandbox ends.
pub(crate) fn counts_sockets() -> bool {
    backend() != Backend::Gvisor
}

/// A short time limit that is longer than a start, which counts against it. Native walls start in
/// milliseconds, an engine takes a second, a machine several.
pub(crate) fn short_wall() -> Duration {
    match backend() {
        Backend::Native | Backend::None => Duration::from_secs(2),
        backend if backend.strength() == Strength::Vm => Duration::from_secs(20),
        _ => Duration::from_secs(6),
    }
}

/// Timeout for tests: emulated machines are slow.
pub(crate) fn scaled_timeout(usual: Duration) -> Duration {
    match backend().strength() {
        Strength::Vm => usual * 4,
        Strength::Kernel => usual * 2,
        _ => usual,
    }
}

/// Whether the kernel reports how many descriptors wait in a socket. If not, a sandbox with an open
/// socket is judged by the growth of the whole disk.
pub(crate) fn tells_descriptors_in_flight() -> bool {
    backend() != Backend::Gvisor
}

/// The `oom_score_adj` of a command: the kernel kills the highest first. On gVisor the guest
/// enforces the memory limit, and there is no such order.
pub(crate) fn oom_score() -> &'static str {
    match backend() {
        Backend::Gvisor => "0",
        _ => "1000",
    }
}

/// Whether a named socket is an inode on the host's disk. gVisor keeps it in its own memory.
pub(crate) fn named_sockets_are_inodes() -> bool {
    backend() != Backend::Gvisor
}

/// Whether the other processes of a group survive if one ends while another is stopped. gVisor
/// sends them SIGHUP, which Linux does only when the group loses its last parent in the session.
pub(crate) fn spares_stopped_groups() -> bool {
    backend() != Backend::Gvisor
}
