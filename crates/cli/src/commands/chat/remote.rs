//! A server's jobs, as this program sees them: listed, found, followed and talked to over HTTP.
//!
//! A key never goes over the network in the clear, and no redirect is followed with it. Entry type:
//! [`Server`].

mod api;
mod follow;
mod job;

pub(super) use self::api::Server;
pub(super) use self::job::RemoteJob;
