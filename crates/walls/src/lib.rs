//! Native Linux walls: namespaces, a separate root, cgroups, rlimits, Landlock, seccomp.
//!
//! The host decides ([`WallsPlan`], plain data) and a small supervisor executes. The supervisor is a
//! separate process outside the sandbox. It sets up the walls, starts the guest as process 1
//! behind them, and then only waits: when the guest or the host ends, or the deadline passes, it
//! cleans up. It reads no input from inside the sandbox.
//!
//! ```text
//! host ──control socket──▶ supervisor ──clone──▶ process 1: walls, then the guest
//!   └──────────link socket─────────────────────────────────────────────▶ guest
//! ```
//!
//! - [`plan`]: the description of the walls, and the supervisor's reports.
//! - [`cgroups`]: detects usable cgroup controllers; creates and removes groups.
//! - [`supervise`]: the supervisor, from plan to clean-up. [`start_walls`] is its first half.
//! - `enter`: the setup steps of process 1, in order.
//! - [`confine()`]: the unprivileged steps alone, for a guest behind another program's walls.
//! - `masking`: overlays over the host's programs, and masks over parts of `/proc`.
//! - `gvisor`: extra steps on gVisor's kernel.
//! - [`with_oom_victim_score`]: makes commands the first candidates of the OOM killer.
//! - [`staging`]: mounts for a container engine, which sets up its own walls.
//! - [`fence`]: limits on a container that its engine has no options for.
//! - [`seccomp`]: the system call filter, also as a profile for container engines.
//! - [`ProcessHandle`]: a process that is not a child, tracked by pidfd.
//! - [`quota`]: project quotas, the file system's own limit on the size of a folder.
//! - [`machine`]: messages for virtual machines and for the process next to the VMM.

pub mod cgroups;
mod confine;
mod enter;
pub mod fence;
mod filter;
mod gvisor;
mod handover;
mod landlock_rules;
pub mod machine;
mod masking;
mod oom_score;
pub mod plan;
mod privileges;
mod process_handle;
pub mod quota;
mod root;
pub mod seccomp;
pub mod staging;
mod supervisor;
mod sys;

pub use confine::confine;
pub use oom_score::with_oom_victim_score;
pub use plan::{Confinement, SupervisorReport, WallsPlan};
pub use process_handle::ProcessHandle;
pub use supervisor::{
    Process1Entry, StartedWalls, SupervisedWalls, start_walls, supervise, supervise_plan,
};
