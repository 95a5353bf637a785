//! The whole Firecracker backend, on machines without KVM: `Sandbox::start` starts a stand-in for
//! `firecracker` (and, for root, for its `jailer`), which checks every request against the
//! published API. See the example `firecracker` for its checks.
//!
//! The inside of the machine is simulated too: [`machine`] serves its ports, and starts the real
//! guest in a mount namespace where init would set up walls, so that commands run and see files.
//! The process that serves the workspace is real, and is queried here.
//!
//! As root the tests cover the jailer, as an ordinary user the native walls around Firecracker.
//! `/dev/null` replaces `/dev/kvm`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod crash;
#[path = "../../src/error_chain.rs"]
mod error_chain;
mod failures;
mod machine;
mod scene;
mod snapshots;
