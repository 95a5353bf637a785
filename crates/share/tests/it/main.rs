//! Tests with real FUSE mounts, each in its own process and mount namespace, with the server in a
//! second process. Run as root or as an ordinary user with access to `/dev/fuse`.

#![allow(clippy::unwrap_used)]

mod coherence;
mod ending;
mod fixture;
mod hostile;
mod many;
mod model;
mod operations;
mod peer;
