//! Limits that one end of a link sets for the other, and the ways in which a peer can break them.
//!
//! Bounds all memory that a peer can make this end use.

use bytes::Bytes;
use thiserror::Error;

use crate::frame::{FrameError, MAX_PAYLOAD};

/// Which end of the link this is. The host opens odd streams, the guest even ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRole {
    Host,
    Guest,
}

/// Limits that one end sets for the other.
#[derive(Debug, Clone, Copy)]
pub struct LinkLimits {
    /// Charged bytes in flight on a stream that the host opened. Both ends must use the same value.
    pub window: u32,
    /// The same for a stream that the guest opened. Smaller, because a hostile guest can fill the
    /// windows of all its streams at the same time.
    pub guest_window: u32,
    /// Most streams that the peer may have open.
    pub peer_streams: usize,
    /// Largest typed message, after its parts are joined. On a stream that the guest opened, a
    /// message must fit into one frame.
    pub message: usize,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            window: 1024 * 1024,
            guest_window: 256 * 1024,
            peer_streams: 256,
            message: 4 * 1024 * 1024,
        }
    }
}

/// Most streams that this end may have opened. Includes dropped streams whose end the peer has not
/// read yet.
pub(crate) const MAX_OWN_STREAMS: usize = 2048;

/// Charged for every frame in addition to its payload: the memory that an empty frame takes.
pub(crate) const FRAME_OVERHEAD_BYTES: u32 = 96;

/// Most frames of one stream that wait for the writer.
pub(crate) const MAX_QUEUED_FRAMES: usize = 2;

pub(crate) fn charged_bytes(payload: &Bytes) -> u32 {
    payload.len() as u32 + FRAME_OVERHEAD_BYTES
}

fn is_guest_stream(id: u32) -> bool {
    id.is_multiple_of(2)
}

impl LinkLimits {
    pub(crate) fn window_of(&self, id: u32) -> u32 {
        if is_guest_stream(id) {
            self.guest_window
        } else {
            self.window
        }
    }

    /// Largest payload of a frame on this stream. Credit is returned in half windows, so a frame must
    /// fit into half a window.
    pub(crate) fn max_payload_of(&self, id: u32) -> usize {
        MAX_PAYLOAD.min((self.window_of(id) / 2 - FRAME_OVERHEAD_BYTES) as usize)
    }

    /// Largest message on this stream.
    pub(crate) fn max_message_of(&self, id: u32) -> usize {
        if is_guest_stream(id) {
            self.max_payload_of(id)
        } else {
            self.message
        }
    }
}

/// How a peer broke the protocol. Ends the session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a second greeting")]
    Greeting,
    #[error("stream {0} cannot be opened by the peer")]
    Opened(u32),
    #[error("more than {0} streams at once")]
    TooManyStreams(usize),
    #[error("stream {0} sent more than its window")]
    Window(u32),
    #[error("stream {0} got more credit than it had used")]
    Credit(u32),
    #[error("stream {0} sent a frame after its end")]
    AfterEnd(u32),
    #[error("stream {0} sent a message that is too long")]
    Message(u32),
    #[error("the peer has not finished {0} streams that this end opened")]
    Unserved(usize),
}
