//! The state of one stream: frames to send, frames that have arrived, and control frames that are
//! due.
//!
//! Control frames are flags, not a queue, so that they cannot accumulate when the peer never reads.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::{Frame, FrameKind};

#[derive(Debug, Default)]
pub(crate) struct StreamSlot {
    // Sending.
    pub(crate) outbox: VecDeque<Frame>,
    pub(crate) credit: u32,
    /// Whether the stream is in `Mux::turns`.
    pub(crate) in_turn: bool,
    /// Ended or aborted by this side.
    pub(crate) ended_here: bool,
    /// The peer reads no more.
    pub(crate) stopped: bool,
    pub(crate) sender: Option<Waker>,
    // Control frames.
    /// Whether the stream is in `Mux::control`.
    pub(crate) in_control: bool,
    pub(crate) open_due: bool,
    pub(crate) credit_due: bool,
    pub(crate) stop_due: bool,
    // Receiving.
    pub(crate) inbox: VecDeque<Frame>,
    /// Joined parts of an incomplete message, removed from the inbox.
    pub(crate) parts: BytesMut,
    /// Bytes that have arrived of an incomplete message.
    pub(crate) arriving: usize,
    /// Charged bytes for which no credit has been returned to the peer.
    pub(crate) unreturned: u32,
    /// The part of `unreturned` that this side has consumed.
    pub(crate) consumed: u32,
    /// Whether the peer's direction has ended, and if so whether it was complete.
    pub(crate) ended_there: Option<bool>,
    pub(crate) receiver: Option<Waker>,
    /// Whether this side still reads.
    pub(crate) is_read: bool,
    /// Live handles of this side: sender and receiver.
    pub(crate) handles: u8,
}

impl StreamSlot {
    pub(crate) fn new(window: u32) -> Self {
        Self {
            credit: window,
            handles: 2,
            is_read: true,
            ..Self::default()
        }
    }

    pub(crate) fn wake(&mut self) {
        wake(&mut self.sender);
        wake(&mut self.receiver);
    }

    /// Whether no handle exists and no frame waits to be sent. Until then the stream counts against the
    /// limit: a peer that does not read cannot open another in its place.
    pub(crate) fn is_finished(&self) -> bool {
        self.handles == 0
            && self.ended_here
            && self.outbox.is_empty()
            && !self.in_turn
            && !self.in_control
    }

    pub(crate) fn is_control_due(&self) -> bool {
        self.open_due || self.credit_due || self.stop_due
    }

    /// The next control frame that is due.
    pub(crate) fn next_control(&mut self, id: u32) -> Option<Frame> {
        if std::mem::take(&mut self.open_due) {
            return Some(frame(id, FrameKind::Open, Bytes::new()));
        }
        // A peer that has ended its direction needs neither credit nor a stop.
        let may_send = self.ended_there.is_none();
        if std::mem::take(&mut self.credit_due) && may_send {
            let mut amount = BytesMut::with_capacity(4);
            amount.put_u32_le(self.consumed);
            self.unreturned -= self.consumed;
            self.consumed = 0;
            return Some(frame(id, FrameKind::Credit, amount.freeze()));
        }
        let stops = std::mem::take(&mut self.stop_due) && may_send;
        stops.then(|| frame(id, FrameKind::Stop, Bytes::new()))
    }
}

pub(crate) fn frame(stream: u32, kind: FrameKind, payload: Bytes) -> Frame {
    Frame {
        stream,
        kind,
        payload,
    }
}

pub(crate) fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
