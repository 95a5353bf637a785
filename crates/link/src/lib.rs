//! The wire between the host and a sandbox: frames, logical streams, typed requests.
//!
//! Both ends run this crate over one byte stream (a socket pair, a serial port, a pipe).
//! It starts no process, opens no file and trusts nothing that the peer says: whatever a
//! hostile guest sends, the worst outcome is that its own session ends with a [`Violation`].
//!
//! - [`frame`]: bytes to frames and back.
//! - `mux`: the pure state of all streams: windows, fairness, limits.
//! - [`connect`]: handshake, then a [`Link`] to open streams, an [`Incoming`] to accept them,
//!   and a [`Driver`] that moves the bytes.
//! - [`request`]: everything a host can ask of a guest, on one page.

mod connection;
pub mod frame;
mod io;
mod limits;
mod mux;
mod patience;
pub mod request;
mod slot;
mod stream;

pub use connection::{ConnectError, Driver, Ended, GUEST_READ_TIMEOUT, Incoming, Link, connect};
pub use io::StreamIo;
pub use limits::{Limits, Role, Violation};
pub use patience::within;
pub use stream::{Item, Receiver, Sender, Stream, StreamError};

/// Changes whenever a frame or a request changes its meaning; both ends must agree.
pub const VERSION: u16 = 3;
