//! The only way out of a sandbox: an HTTP proxy on byte streams that decides for every connection
//! whether it is allowed.
//!
//! [`serve`] serves one stream. [`Egress`] holds the basis of the decisions: a [`EgressGate`] with its rules,
//! a [`Resolver`], and a callback that is called exactly once for every attempt, allowed or not.
//!
//! A name is resolved once, here, and the connection goes to an address that was checked, so later DNS
//! answers have no effect. The first bytes inside a tunnel are inspected: the server name of TLS and
//! the `Host` of plain HTTP must be the requested host.
//!
//! The proxy never listens on a socket, never decrypts TLS, and does not control what an allowed host
//! does with the traffic. A host that is itself a relay (another proxy, or a CDN that routes by an
//! encrypted name) can pass it on, so a rule implies trust in that host.

pub mod address;
mod attempt;
mod connection;
mod egress;
mod forward;
mod gate;
mod headers;
mod host;
mod host_addresses;
mod pending;
mod policy;
mod prefixed_stream;
mod proxy;
mod public;
mod resolve;
mod response;
mod rules;
mod shared_policy;
mod sniff;
pub mod tls;
mod tunnel;

pub use connection::{ConnectionRecord, ConnectionVerdict, DenialReason};
pub use egress::Egress;
pub use gate::{EgressGate, HostApproval, HostApprovalFuture, HostApprover};
pub use host::{ConnectTarget, Host, HostError};
pub use host_addresses::classify_on_host;
pub use policy::{EgressAction, EgressPolicy};
pub use proxy::serve;
pub use public::public_addresses;
pub use resolve::{ResolveFuture, Resolver, SystemResolver};
pub use rules::{AllowList, EgressRule, RuleError};
pub use shared_policy::SharedPolicy;
