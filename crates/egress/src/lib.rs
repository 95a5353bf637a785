//! The only way out of a sandbox: an HTTP proxy on byte streams that decides for every connection
//! whether it is allowed.
//!
//! [`serve`] serves one stream. [`Egress`] holds the basis of the decisions: a [`Gate`] with its rules,
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
mod answer;
mod attempt;
mod connection;
mod egress;
mod forward;
mod gate;
mod headers;
mod host;
mod hosts;
mod own;
mod policy;
mod proxy;
mod public;
mod resolve;
mod rewind;
mod rules;
mod sniff;
pub mod tls;
mod tunnel;
mod waiting;

pub use connection::{Connection, Reason, Verdict};
pub use egress::Egress;
pub use gate::{Answer, Asked, Asker, Gate};
pub use host::{Host, HostError, Target};
pub use hosts::Hosts;
pub use own::class_on_host;
pub use policy::{Policy, Stance};
pub use proxy::serve;
pub use public::public_addresses;
pub use resolve::{Answers, Resolver, SystemResolver};
pub use rules::{Allow, Rule, RuleError};
