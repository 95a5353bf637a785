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
//! - [`supervise`]: the supervisor's whole life.
//! - `enter`: the steps of process 1, in order.

pub mod cgroups;
mod enter;
mod filter;
mod landlock_rules;
pub mod plan;
mod privileges;
mod root;
mod seccomp;
mod supervisor;
mod supplies;
mod sys;

pub use plan::{Plan, Report};
pub use supervisor::supervise;
