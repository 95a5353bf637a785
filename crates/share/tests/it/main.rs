//! Real mounts of a real kernel, each in a mount namespace and a process of its own, with the server
//! in a second process. As root or as an ordinary user, who needs access to `/dev/fuse`.

#![allow(clippy::unwrap_used)]

mod coherence;
mod ending;
mod hostile;
mod many;
mod model;
mod operations;
mod peer;
mod world;
