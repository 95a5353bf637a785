//! The orchestrator: schedules jobs, runs agents in sandboxes to do them, and serves their state
//! over HTTP.
//!
//! A request is answered as soon as its record is in the store; a worker takes the job from there.
//! HTTP and workers share only the store and [`hub`], which carries transient updates, so that a
//! crash of either loses nothing. [`job`] only decides; [`worker`] performs. This crate prints
//! nothing and reads no settings: [`ServerConfig`] and [`ServerModels`] are its only inputs. Entry point:
//! [`Server`].

// Test helpers shared with the integration tests refer to this crate by its name.
#[cfg(test)]
extern crate self as orchestrator;

mod address_range;
mod app;
mod artifact;
mod backup;
mod blocking;
mod breaker;
mod changes;
mod config;
mod disk;
mod dispatcher;
mod error;
mod exhaustion;
mod folder;
mod http;
mod hub;
mod input;
mod job;
mod keys;
mod loads;
#[cfg(test)]
mod own_network;
mod parts;
mod plan;
mod ports;
mod recovery;
mod retention;
mod running_jobs;
mod server;
mod tree;
mod watch;
mod webhook;
mod webhook_body;
mod worker;

pub use address_range::{AddressRange, AddressRangeError};
pub use backup::{Backup, BackupError, backup};
pub use config::{JobPolicy, OutagePolicy, Retention, ServerConfig};
pub use error::ServeError;
pub use keys::{check_name, create_key};
pub use ports::{ChosenModel, ServerModels};
pub use server::Server;
