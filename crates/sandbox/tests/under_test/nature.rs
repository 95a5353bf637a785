//! How the backend under test differs from the others, where it rightly does: each difference is one
//! function here and a sentence in the documentation of the backend. Nothing else may differ.

use std::time::Duration;

use sandbox::{Backend, LimitKind, Strength};

use super::backend;

/// Whether the kernel that commands run on is the host's own.
pub(crate) fn shares_kernel() -> bool {
    backend().strength() <= Strength::Namespaces
}

/// Whether a command inside is a process of the host too, with the same arguments.
pub(crate) fn host_sees_processes() -> bool {
    shares_kernel()
}

/// Whether what a sandbox changes in an image is kept in memory. Docker keeps it on its disk.
pub(crate) fn keeps_changes_in_memory() -> bool {
    backend() != Backend::Docker
}

/// Whether a watch inside sees what the host changes. Another kernel hears of it only when
/// somebody looks.
pub(crate) fn watches_the_host() -> bool {
    shares_kernel()
}

/// Whether nothing inside tells where the workspace is on the host. Linux shows to each process, in
/// `/proc/self/mountinfo`, from which folder of its file system a mount is; nothing can cover that.
pub(crate) fn hides_workspace_path() -> bool {
    !shares_kernel()
}

/// Whether a file has the same inode number inside and outside. gVisor numbers files itself.
pub(crate) fn keeps_inodes() -> bool {
    backend() != Backend::Gvisor
}

/// Whether `/` is an image under an overlay of the sandbox's own, which may be written to. A machine
/// cannot show the host's programs.
pub(crate) fn has_own_root() -> bool {
    backend().strength() == Strength::Vm
}

/// Whether a socket in the workspace connects processes across the walls: a host program's with
/// commands, and those of two sandboxes on one folder. It does where they share a kernel; `connect`
/// asks for nothing but the right to write to the socket.
pub(crate) fn shares_workspace_sockets() -> bool {
    shares_kernel()
}

/// How much of what processes are said to have in memory a bound allows. gVisor counts memory that
/// it has set aside for a process, in large blocks.
pub(crate) fn resident(usual: u64) -> u64 {
    match backend() {
        Backend::Gvisor => usual * 3,
        _ => usual,
    }
}

/// Whether the key for it ends the input of a command on a terminal. gVisor of 2022 hands over what
/// was typed, and no end.
pub(crate) fn terminal_ends_input() -> bool {
    backend() != Backend::Gvisor
}

/// Whether a command can open the terminal that it was started on as `/dev/tty`. gVisor of 2022 has
/// no such terminal; the guest sends the signals of its keys.
pub(crate) fn has_controlling_terminal() -> bool {
    backend() != Backend::Gvisor
}

/// Limits that hold less than they say even for root, and the sandbox says so.
pub(crate) fn partial_limits() -> &'static [LimitKind] {
    if counts_sockets() {
        &[]
    } else {
        &[LimitKind::Memory]
    }
}

/// Whether what processes have sent and nobody received counts as memory of theirs. gVisor's kernel
/// has it among its own; past the group around that, the sandbox ends.
pub(crate) fn counts_sockets() -> bool {
    backend() != Backend::Gvisor
}

/// A short time limit that a start, which counts against it, does not use up. Native walls stand in
/// milliseconds, an engine takes a second, a machine some.
pub(crate) fn short_wall() -> Duration {
    match backend() {
        Backend::Native | Backend::None => Duration::from_secs(2),
        backend if backend.strength() == Strength::Vm => Duration::from_secs(20),
        _ => Duration::from_secs(6),
    }
}

/// How long to wait before something hangs: emulated machines take their time.
pub(crate) fn patience(usual: Duration) -> Duration {
    match backend().strength() {
        Strength::Vm => usual * 4,
        Strength::Kernel => usual * 2,
        _ => usual,
    }
}

/// Whether the kernel says how many descriptors wait in a socket to be received. Where it does not, a
/// sandbox with a socket open is judged by the growth of the whole disk.
pub(crate) fn tells_descriptors_in_flight() -> bool {
    backend() != Backend::Gvisor
}

/// What a command finds as its own `oom_score_adj`: the kernel kills the highest first. gVisor keeps the
/// memory limit by the guest, and has no such order.
pub(crate) fn oom_score() -> &'static str {
    match backend() {
        Backend::Gvisor => "0",
        _ => "1000",
    }
}

/// Whether a socket with a name is an inode on the host's disk. gVisor keeps it in its own memory.
pub(crate) fn named_sockets_are_inodes() -> bool {
    backend() != Backend::Gvisor
}

/// Whether the other processes of a group live on if one ends while another is stopped. gVisor sends them
/// SIGHUP, as Linux does only when the group loses its last parent in the session.
pub(crate) fn spares_stopped_groups() -> bool {
    backend() != Backend::Gvisor
}
