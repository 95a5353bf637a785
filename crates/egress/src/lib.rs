//! The only way out of a sandbox: an HTTP proxy that is handed byte streams and decides, for every
//! connection, whether it may leave.
//!
//! [`serve`] answers one stream; [`Egress`] holds what it decides by: a [`Gate`] with its rules, a
//! [`Resolver`], and a callback that hears of every attempt, allowed or not, exactly once.
//!
//! A name is resolved once, here, and the connection goes to an address that was checked, so a
//! second answer from the DNS never matters. Inside a tunnel the first bytes are looked at: the
//! server name of TLS and the `Host` of plain HTTP must be the host that was asked for.
//!
//! What the proxy never does: listen on a socket, open TLS, or follow what an allowed host does
//! with its bytes. A host that is itself a relay (another proxy, a CDN that routes by an encrypted
//! name) can pass them on, so a rule means trust in that host.

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
