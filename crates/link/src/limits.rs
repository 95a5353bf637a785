//! What one end of a link grants the other, and what a peer can do that breaks the rules.
//!
//! Everything that a peer can make this end hold in memory has its bound here.

use bytes::Bytes;
use thiserror::Error;

use crate::frame::{FrameError, MAX_PAYLOAD};

/// Which end of the link this is. The host opens odd streams, the guest even ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Host,
    Guest,
}

/// What one end grants the other.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Charged bytes that the sender may have under way on a stream that the host opened. The same
    /// at both ends.
    pub window: u32,
    /// The same for a stream that the guest opened. Smaller: a hostile guest can fill the windows of
    /// all its streams at once.
    pub guest_window: u32,
    /// Streams that the peer may have open at once.
    pub peer_streams: usize,
    /// Largest typed message, after its parts are put together. A stream that the guest opened
    /// carries messages of one frame only.
    pub message: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 1024 * 1024,
            guest_window: 256 * 1024,
            peer_streams: 256,
            message: 4 * 1024 * 1024,
        }
    }
}

/// Streams of this end's own that may exist at once, those included that were given up and whose
/// end the peer has not yet taken in.
pub(crate) const MAX_OWN_STREAMS: usize = 2048;

/// Every charged frame costs this much beyond its payload: what an empty one takes in memory.
pub(crate) const FRAME_COST: u32 = 96;

/// Frames of one stream that may wait for the writer.
pub(crate) const MAX_QUEUED_FRAMES: usize = 2;

pub(crate) fn charge(payload: &Bytes) -> u32 {
    payload.len() as u32 + FRAME_COST
}

fn is_guests(id: u32) -> bool {
    id.is_multiple_of(2)
}

impl Limits {
    pub(crate) fn window_of(&self, id: u32) -> u32 {
        if is_guests(id) {
            self.guest_window
        } else {
            self.window
        }
    }

    /// Largest payload of a frame on this stream. Credit goes back by half windows, so that a frame
    /// has to fit into one half.
    pub(crate) fn payload_of(&self, id: u32) -> usize {
        MAX_PAYLOAD.min((self.window_of(id) / 2 - FRAME_COST) as usize)
    }

    /// Largest message on this stream.
    pub(crate) fn message_of(&self, id: u32) -> usize {
        if is_guests(id) {
            self.payload_of(id)
        } else {
            self.message
        }
    }
}

/// What a peer did that no honest peer does. Ends the session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a second greeting")]
    Greeting,
    #[error("stream {0} is not the peer's to open")]
    Opened(u32),
    #[error("more than {0} streams at once")]
    TooManyStreams(usize),
    #[error("stream {0} sent more than its window")]
    Window(u32),
    #[error("stream {0} was granted more than it used")]
    Credit(u32),
    #[error("stream {0} went on after its end")]
    AfterEnd(u32),
    #[error("stream {0} sent a message that is too long")]
    Message(u32),
    #[error("{0} streams opened by this end were not taken in")]
    Unserved(usize),
}
