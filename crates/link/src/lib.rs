//! The wire between the host and a sandbox: frames, logical streams, typed requests.
//!
//! Both ends run this crate over one byte stream (a socket pair, a serial port, a pipe).
//! It starts no process, opens no file and never trusts the peer: the worst that a hostile
//! guest can cause is that its own session ends with a [`Violation`].
//!
//! - [`frame`]: bytes to frames and back.
//! - `mux`: the state of all streams, without I/O: windows, fairness, limits.
//! - [`connect`]: handshake. Returns a [`Link`] to open streams, an [`IncomingStreams`] to accept them,
//!   and a [`LinkDriver`] that moves the bytes.
//! - [`request`]: all requests that a host can send to a guest.

mod connection;
pub mod frame;
mod io;
mod limits;
mod mux;
pub mod request;
mod slot;
mod stream;
mod timeout;

pub use connection::{
    ConnectError, GUEST_READ_TIMEOUT, IncomingStreams, Link, LinkDriver, LinkEnd, connect,
};
pub use io::StreamIo;
pub use limits::{LinkLimits, LinkRole, Violation};
pub use stream::{LinkItem, Receiver, Sender, Stream, StreamError};
pub use timeout::suspend_tolerant_timeout;

/// Protocol version. Incremented when a frame or a request changes; both ends must have the same.
pub const VERSION: u16 = 3;
