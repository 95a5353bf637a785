//! Native Linux walls: namespaces, a root of its own, cgroups, rlimits, Landlock, seccomp.
//!
//! The host decides ([`Plan`], plain data), a small supervisor performs. The supervisor is a
//! process of its own, outside the sandbox: it puts up the walls, starts the guest as process 1
//! behind them, and stays only to take everything down when the guest, the host or the
//! deadline ends. It reads nothing that comes from inside.
//!
//! ```text
//! host ──control socket──▶ supervisor ──clone──▶ process 1: walls, then the guest
//!   └──────────link socket─────────────────────────────────────────────▶ guest
//! ```
//!
//! - [`plan`]: what to put up, and what the supervisor reports.
//! - [`cgroups`]: which limits cgroups can enforce here, and the groups themselves.
//! - [`supervise`]: the supervisor's whole life. - [`raise`]: its first half.
//! - `enter`: the steps of process 1, in order.
//! - [`confine()`]: the last of these steps, for a guest behind somebody else's walls.
//! - `apart`: overlays over the host's programs, and covers over what `/proc` tells.
//! - `own_kernel`: what comes first on a kernel that is no Linux.
//! - [`going_first`]: whom the kernel kills when memory runs out.
//! - [`staging`]: mounts for a program of somebody else's that puts up walls.
//! - [`fence`]: bounds around a container that its engine has no words for.
//! - [`seccomp`]: the system call filter, also as a list for such a program.
//! - [`Watched`]: a process of theirs, followed by descriptor.
//! - [`quota`]: the kernel's limit on the space that a folder takes, where a file system has one.
//! - [`machine`]: what a virtual machine is told, and the process beside its program.

mod apart;
pub mod cgroups;
mod confine;
mod enter;
pub mod fence;
mod filter;
mod landlock_rules;
pub mod machine;
mod own_kernel;
pub mod plan;
mod privileges;
pub mod quota;
mod root;
pub mod seccomp;
pub mod staging;
mod supervisor;
mod supplies;
mod sys;
mod victims;
mod watched;

pub use confine::confine;
pub use plan::{Confinement, Plan, Report};
pub use supervisor::{Inside, Raised, Walls, raise, supervise, supervise_plan};
pub use victims::going_first;
pub use watched::Watched;
