//! The orchestrator: schedules jobs, has agents do them in sandboxes, and tells of it over HTTP.
//!
//! A request becomes a record in the store and is answered; a worker takes it from there. HTTP and
//! workers meet only in the store and in [`hub`], which carries what need not last, so that a crash
//! of either loses nothing. [`job`] decides and does nothing; [`worker`] performs. Prints nothing,
//! reads no settings: [`Config`] and [`Models`] say it all. Entry point: [`Server`].

// What tests inside share with those outside knows the crate by its name.
#[cfg(test)]
extern crate self as orchestrator;

mod address_range;
mod app;
mod artifact;
mod backup;
mod breaker;
mod changes;
mod config;
mod disk;
mod dispatcher;
mod error;
mod folder;
mod http;
mod hub;
mod input;
mod job;
mod keys;
mod notice;
#[cfg(test)]
mod own_network;
mod parts;
mod ports;
mod retention;
mod server;
mod starved;
mod tree;
mod watch;
mod webhook;
mod worker;

pub use address_range::{AddressRange, AddressRangeError};
pub use backup::{Backup, BackupError, backup};
pub use config::{Config, Outages, Policy, Retention};
pub use error::ServeError;
pub use keys::{check_name, create_key};
pub use ports::{Chosen, Models};
pub use server::Server;
