//! One file a command.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod pages;

use crate::complaint::{Complaint, FAILED};

/// The runtime of a command: one thread, and others only for what blocks.
fn runtime() -> Result<tokio::runtime::Runtime, Complaint> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::new(FAILED, format!("cannot start the runtime: {error}")))
}
