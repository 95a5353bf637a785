//! The state of all streams of one link: flow control and the order of outgoing frames.
//!
//! Does no I/O and never blocks: the driver passes frames in and takes frames out, stream handles
//! poll. Three rules keep one stream from blocking the others:
//!
//! - A sender may only have as many bytes in flight as the receiver granted. So the reader of the
//!   link never has to wait for a slow consumer.
//! - The writer takes one frame from each stream in turn. So a command with endless output does not
//!   delay the others.
//! - A stream counts as open until its last frame has been written. So a peer that never reads runs
//!   out of streams.
//!
//! Entry type: [`Mux`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::connection::LinkEnd;
use crate::frame::{Frame, FrameKind};
use crate::limits::{
    FRAME_OVERHEAD_BYTES, LinkLimits, LinkRole, MAX_OWN_STREAMS, MAX_QUEUED_FRAMES, Violation,
    charged_bytes,
};
use crate::slot::{StreamSlot, frame, wake};
use crate::stream::LinkItem;

/// All streams of one link.
#[derive(Debug)]
pub(crate) struct Mux {
    role: LinkRole,
    limits: LinkLimits,
    next: u32,
    peers_highest: u32,
    peers_open: usize,
    streams: HashMap<u32, StreamSlot>,
    /// Streams with frames in their outbox, each once, in the order in which they are served.
    turns: VecDeque<u32>,
    /// Streams with a control frame due, each once. Control frames are sent before data.
    control: VecDeque<u32>,
    arrivals: VecDeque<u32>,
    writer: Option<Waker>,
    acceptor: Option<Waker>,
    closed: bool,
    /// The fault of the peer that ended the link.
    fault: Option<Arc<LinkEnd>>,
    /// Woken when `fault` is set.
    watcher: Option<Waker>,
}

impl Mux {
    pub(crate) fn new(role: LinkRole, limits: LinkLimits) -> Self {
        assert!(
            limits.window.min(limits.guest_window) / 2 > FRAME_OVERHEAD_BYTES,
            "half a window must hold a frame"
        );
        Self {
            role,
            limits,
            next: if role == LinkRole::Host { 1 } else { 2 },
            peers_highest: 0,
            peers_open: 0,
            streams: HashMap::new(),
            turns: VecDeque::new(),
            control: VecDeque::new(),
            arrivals: VecDeque::new(),
            writer: None,
            acceptor: None,
            closed: false,
            fault: None,
            watcher: None,
        }
    }

    /// The same at both ends.
    pub(crate) fn max_message_len(&self, id: u32) -> usize {
        self.limits.max_message_of(id)
    }

    /// The same at both ends.
    pub(crate) fn max_payload_len(&self, id: u32) -> usize {
        self.limits.max_payload_of(id)
    }

    /// Starts a stream; `None` when the link has ended.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.closed {
            return None;
        }
        if self.streams.len() - self.peers_open >= MAX_OWN_STREAMS {
            let unserved = Violation::Unserved(MAX_OWN_STREAMS);
            self.close(Some(LinkEnd::Violation(unserved)));
            return None;
        }
        let id = self.next;
        self.next = self.next.checked_add(2)?;
        let mut slot = StreamSlot::new(self.limits.window_of(id));
        slot.open_due = true;
        self.streams.insert(id, slot);
        // As a control frame, so that streams are opened in the order of their numbers.
        self.queue_control(id);
        Some(id)
    }

    pub(crate) fn poll_accept(&mut self, context: &Context<'_>) -> Poll<Option<u32>> {
        if let Some(id) = self.arrivals.pop_front() {
            return Poll::Ready(Some(id));
        }
        if self.closed {
            return Poll::Ready(None);
        }
        self.acceptor = Some(context.waker().clone());
        Poll::Pending
    }

    /// Queues a frame for sending once the window and the queue have room. `Err` if the peer will
    /// never read it.
    pub(crate) fn poll_send(
        &mut self,
        id: u32,
        kind: FrameKind,
        payload: &Bytes,
        context: &Context<'_>,
    ) -> Poll<Result<(), ()>> {
        let Some(slot) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(()));
        };
        if self.closed || slot.stopped || slot.ended_here {
            return Poll::Ready(Err(()));
        }
        let cost = charged_bytes(payload);
        if slot.credit < cost || slot.outbox.len() >= MAX_QUEUED_FRAMES {
            slot.sender = Some(context.waker().clone());
            return Poll::Pending;
        }
        slot.credit -= cost;
        slot.outbox.push_back(frame(id, kind, payload.clone()));
        self.queue(id);
        Poll::Ready(Ok(()))
    }

    /// Ends the sending direction: complete if `whole`, else aborted. Only the first call counts.
    pub(crate) fn end(&mut self, id: u32, whole: bool) {
        if let Some(slot) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut slot.ended_here, true)
        {
            let kind = if whole {
                FrameKind::End
            } else {
                FrameKind::Abort
            };
            slot.outbox.push_back(frame(id, kind, Bytes::new()));
            self.queue(id);
        }
    }

    /// The next item that arrived. `Ok(None)` after the peer's end, `Err` if the stream or the link
    /// broke before that.
    pub(crate) fn poll_receive(
        &mut self,
        id: u32,
        context: &Context<'_>,
    ) -> Poll<Result<Option<LinkItem>, ()>> {
        let Some(slot) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(()));
        };
        while let Some(frame) = slot.inbox.pop_front() {
            slot.consumed += charged_bytes(&frame.payload);
            let more_may_come = slot.ended_there.is_none() && !self.closed;
            if slot.consumed >= self.limits.window_of(id) / 2 && more_may_come {
                slot.credit_due = true;
                enqueue_control(id, slot, &mut self.control, &mut self.writer);
            }
            match frame.kind {
                FrameKind::Part => slot.parts.extend_from_slice(&frame.payload),
                FrameKind::Message if slot.parts.is_empty() => {
                    return Poll::Ready(Ok(Some(LinkItem::Message(frame.payload))));
                }
                FrameKind::Message => {
                    slot.parts.extend_from_slice(&frame.payload);
                    let message = std::mem::take(&mut slot.parts).freeze();
                    return Poll::Ready(Ok(Some(LinkItem::Message(message))));
                }
                FrameKind::Errors => return Poll::Ready(Ok(Some(LinkItem::Errors(frame.payload)))),
                _ => return Poll::Ready(Ok(Some(LinkItem::Data(frame.payload)))),
            }
        }
        match slot.ended_there {
            Some(true) => return Poll::Ready(Ok(None)),
            Some(false) => return Poll::Ready(Err(())),
            None if self.closed => return Poll::Ready(Err(())),
            None => {}
        }
        slot.receiver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready once the peer reads no more or the link has ended.
    pub(crate) fn poll_stopped(&mut self, id: u32, context: &Context<'_>) -> Poll<()> {
        match self.streams.get_mut(&id) {
            Some(slot) if !slot.stopped && !self.closed => {
                slot.receiver = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Handles the drop of a sending or receiving handle.
    pub(crate) fn release(&mut self, id: u32, receiving: bool) {
        let Some(slot) = self.streams.get_mut(&id) else {
            return;
        };
        slot.handles -= 1;
        if receiving {
            slot.is_read = false;
            slot.inbox = VecDeque::new();
            slot.parts.clear();
            // Further data would never be read: tell the peer to stop, so that it does not wait for credit.
            if slot.ended_there.is_none() {
                slot.stop_due = true;
                self.queue_control(id);
            }
        } else {
            self.end(id, false);
        }
        self.remove_if_finished(id);
    }

    /// The next frame for the wire: control frames first, then one from each stream in turn.
    pub(crate) fn next_outgoing(&mut self) -> Option<Frame> {
        while let Some(id) = self.control.pop_front() {
            let Some(slot) = self.streams.get_mut(&id) else {
                continue;
            };
            slot.in_control = false;
            let frame = slot.next_control(id);
            if slot.is_control_due() {
                self.queue_control(id);
            }
            self.remove_if_finished(id);
            if frame.is_some() {
                return frame;
            }
        }
        while let Some(id) = self.turns.pop_front() {
            let Some(slot) = self.streams.get_mut(&id) else {
                continue;
            };
            slot.in_turn = false;
            let frame = slot.outbox.pop_front();
            if !slot.outbox.is_empty() {
                slot.in_turn = true;
                self.turns.push_back(id);
            }
            wake(&mut slot.sender);
            self.remove_if_finished(id);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// Like [`Self::next_outgoing`], but waits for a frame. Ready with `None` when the link has ended.
    pub(crate) fn poll_outgoing(&mut self, context: &Context<'_>) -> Poll<Option<Frame>> {
        match self.next_outgoing() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if self.closed => Poll::Ready(None),
            None => {
                self.writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Handles a frame from the peer.
    pub(crate) fn incoming(&mut self, frame: Frame) -> Result<(), Violation> {
        let id = frame.stream;
        match frame.kind {
            FrameKind::Hello => Err(Violation::Greeting),
            FrameKind::Open => self.handle_open(id),
            FrameKind::Credit => self.handle_credit(id, &frame.payload),
            FrameKind::Stop => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    slot.stopped = true;
                    slot.outbox.clear();
                    slot.wake();
                    self.remove_if_finished(id);
                }
                Ok(())
            }
            FrameKind::End | FrameKind::Abort => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    if slot.ended_there.is_some() {
                        return Err(Violation::AfterEnd(id));
                    }
                    slot.ended_there = Some(frame.kind == FrameKind::End);
                    wake(&mut slot.receiver);
                }
                Ok(())
            }
            FrameKind::Part | FrameKind::Message | FrameKind::Data | FrameKind::Errors => {
                self.handle_payload(frame)
            }
        }
    }

    fn is_peer_stream(&self, id: u32) -> bool {
        id % 2 == if self.role == LinkRole::Host { 0 } else { 1 }
    }

    fn handle_open(&mut self, id: u32) -> Result<(), Violation> {
        if id == 0 || !self.is_peer_stream(id) || id <= self.peers_highest {
            return Err(Violation::Opened(id));
        }
        if self.peers_open >= self.limits.peer_streams {
            return Err(Violation::TooManyStreams(self.limits.peer_streams));
        }
        self.peers_highest = id;
        self.peers_open += 1;
        let slot = StreamSlot::new(self.limits.window_of(id));
        self.streams.insert(id, slot);
        self.arrivals.push_back(id);
        wake(&mut self.acceptor);
        Ok(())
    }

    fn handle_credit(&mut self, id: u32, payload: &Bytes) -> Result<(), Violation> {
        let amount = <[u8; 4]>::try_from(&payload[..]).map(u32::from_le_bytes);
        let amount = amount.map_err(|_| Violation::Credit(id))?;
        let window = self.limits.window_of(id);
        if let Some(slot) = self.streams.get_mut(&id) {
            slot.credit = slot
                .credit
                .checked_add(amount)
                .filter(|credit| *credit <= window)
                .ok_or(Violation::Credit(id))?;
            wake(&mut slot.sender);
        }
        Ok(())
    }

    fn handle_payload(&mut self, frame: Frame) -> Result<(), Violation> {
        let id = frame.stream;
        // This end has already removed the stream; these frames were still in flight.
        let Some(slot) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        if slot.ended_there.is_some() {
            return Err(Violation::AfterEnd(id));
        }
        slot.unreturned = slot
            .unreturned
            .saturating_add(charged_bytes(&frame.payload));
        if slot.unreturned > self.limits.window_of(id) {
            return Err(Violation::Window(id));
        }
        if matches!(frame.kind, FrameKind::Part | FrameKind::Message) {
            slot.arriving += frame.payload.len();
            if slot.arriving > self.limits.max_message_of(id) {
                return Err(Violation::Message(id));
            }
        }
        if frame.kind == FrameKind::Message {
            slot.arriving = 0;
        }
        // Frames in flight when this side stopped reading are counted against the window, then dropped.
        if slot.is_read {
            slot.inbox.push_back(frame);
            wake(&mut slot.receiver);
        }
        Ok(())
    }

    /// Ends the link and wakes all senders and receivers. Items that have arrived can still be read.
    /// Only the first call sets the fault.
    pub(crate) fn close(&mut self, fault: Option<LinkEnd>) {
        if !std::mem::replace(&mut self.closed, true) {
            self.fault = fault.map(Arc::new);
        }
        for slot in self.streams.values_mut() {
            slot.wake();
        }
        wake(&mut self.writer);
        wake(&mut self.acceptor);
        wake(&mut self.watcher);
    }

    /// Ready once the link has ended by the peer's fault: the queued frames need not be written then.
    pub(crate) fn poll_fault(&mut self, context: &Context<'_>) -> Poll<Arc<LinkEnd>> {
        match &self.fault {
            Some(fault) => Poll::Ready(Arc::clone(fault)),
            None => {
                self.watcher = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The fault of the peer that ended the link, if there was one.
    pub(crate) fn fault(&self) -> Option<Arc<LinkEnd>> {
        self.fault.clone()
    }

    fn queue_control(&mut self, id: u32) {
        if let Some(slot) = self.streams.get_mut(&id) {
            enqueue_control(id, slot, &mut self.control, &mut self.writer);
        }
    }

    fn queue(&mut self, id: u32) {
        if let Some(slot) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut slot.in_turn, true)
        {
            self.turns.push_back(id);
            wake(&mut self.writer);
        }
    }

    fn remove_if_finished(&mut self, id: u32) {
        if self.streams.get(&id).is_some_and(StreamSlot::is_finished) {
            self.streams.remove(&id);
            if self.is_peer_stream(id) {
                self.peers_open -= 1;
            }
        }
    }
}

fn enqueue_control(
    id: u32,
    slot: &mut StreamSlot,
    control: &mut VecDeque<u32>,
    writer: &mut Option<Waker>,
) {
    if !std::mem::replace(&mut slot.in_control, true) {
        control.push_back(id);
        wake(writer);
    }
}
