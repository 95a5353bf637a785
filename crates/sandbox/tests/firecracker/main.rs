//! The Firecracker backend, whole, on machines without KVM: `Sandbox::start` starts a stand-in for
//! `firecracker` (and, for root, for its `jailer`), which holds every request against the published
//! API. See the example `firecracker` for what it checks.
//!
//! What else is stood in for is the inside of the machine: [`machine`] answers its ports, and where
//! init would put up walls there, it starts the real guest in a mount namespace, so that commands
//! run and files are seen. The process that serves the workspace is real, and answers here.
//!
//! As root the tests are about the jailer, as an ordinary user about native walls around
//! Firecracker. `/dev/kvm` is stood in for by `/dev/null`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod crash;
mod failures;
mod machine;
mod scene;
mod snapshots;
