//! Jobs of a server: listed, found, followed and talked to over HTTP.
//!
//! A key is never sent unencrypted over the network, and no redirect is followed with it. Entry type:
//! [`ServerClient`].

mod api;
mod follow;
mod job;

pub(super) use self::api::ServerClient;
pub(super) use self::job::RemoteJob;
