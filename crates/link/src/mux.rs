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

use crate::connection::Ended;
use crate::frame::{Frame, Kind};
use crate::limits::{
    FRAME_COST, Limits, MAX_OWN_STREAMS, MAX_QUEUED_FRAMES, Role, Violation, charge,
};
use crate::slot::{Slot, frame, wake};
use crate::stream::Item;

/// All streams of one link.
#[derive(Debug)]
pub(crate) struct Mux {
    role: Role,
    limits: Limits,
    next: u32,
    peers_highest: u32,
    peers_open: usize,
    streams: HashMap<u32, Slot>,
    /// Streams with frames in their outbox, each once, in the order in which they are served.
    turns: VecDeque<u32>,
    /// Streams with a control frame due, each once. Control frames are sent before data.
    control: VecDeque<u32>,
    arrivals: VecDeque<u32>,
    writer: Option<Waker>,
    acceptor: Option<Waker>,
    closed: bool,
    /// The fault of the peer that ended the link.
    fault: Option<Arc<Ended>>,
    /// Woken when `fault` is set.
    watcher: Option<Waker>,
}

impl Mux {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        assert!(
            limits.window.min(limits.guest_window) / 2 > FRAME_COST,
            "half a window must hold a frame"
        );
        Self {
            role,
            limits,
            next: if role == Role::Host { 1 } else { 2 },
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
    pub(crate) fn longest_message(&self, id: u32) -> usize {
        self.limits.message_of(id)
    }

    /// The same at both ends.
    pub(crate) fn longest_payload(&self, id: u32) -> usize {
        self.limits.payload_of(id)
    }

    /// Starts a stream; `None` when the link has ended.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.closed {
            return None;
        }
        if self.streams.len() - self.peers_open >= MAX_OWN_STREAMS {
            let unserved = Violation::Unserved(MAX_OWN_STREAMS);
            self.close(Some(Ended::Violation(unserved)));
            return None;
        }
        let id = self.next;
        self.next = self.next.checked_add(2)?;
        let mut slot = Slot::new(self.limits.window_of(id));
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
        kind: Kind,
        payload: &Bytes,
        context: &Context<'_>,
    ) -> Poll<Result<(), ()>> {
        let Some(slot) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(()));
        };
        if self.closed || slot.stopped || slot.ended_here {
            return Poll::Ready(Err(()));
        }
        let cost = charge(payload);
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
            let kind = if whole { Kind::End } else { Kind::Abort };
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
    ) -> Poll<Result<Option<Item>, ()>> {
        let Some(slot) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(()));
        };
        while let Some(frame) = slot.inbox.pop_front() {
            slot.consumed += charge(&frame.payload);
            let more_may_come = slot.ended_there.is_none() && !self.closed;
            if slot.consumed >= self.limits.window_of(id) / 2 && more_may_come {
                slot.credit_due = true;
                list_control(id, slot, &mut self.control, &mut self.writer);
            }
            match frame.kind {
                Kind::Part => slot.parts.extend_from_slice(&frame.payload),
                Kind::Message if slot.parts.is_empty() => {
                    return Poll::Ready(Ok(Some(Item::Message(frame.payload))));
                }
                Kind::Message => {
                    slot.parts.extend_from_slice(&frame.payload);
                    let message = std::mem::take(&mut slot.parts).freeze();
                    return Poll::Ready(Ok(Some(Item::Message(message))));
                }
                Kind::Errors => return Poll::Ready(Ok(Some(Item::Errors(frame.payload)))),
                _ => return Poll::Ready(Ok(Some(Item::Data(frame.payload)))),
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
        self.forget_if_over(id);
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
            self.forget_if_over(id);
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
            self.forget_if_over(id);
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
            Kind::Hello => Err(Violation::Greeting),
            Kind::Open => self.peer_opens(id),
            Kind::Credit => self.peer_credits(id, &frame.payload),
            Kind::Stop => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    slot.stopped = true;
                    slot.outbox.clear();
                    slot.wake();
                    self.forget_if_over(id);
                }
                Ok(())
            }
            Kind::End | Kind::Abort => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    if slot.ended_there.is_some() {
                        return Err(Violation::AfterEnd(id));
                    }
                    slot.ended_there = Some(frame.kind == Kind::End);
                    wake(&mut slot.receiver);
                }
                Ok(())
            }
            Kind::Part | Kind::Message | Kind::Data | Kind::Errors => self.peer_sends(frame),
        }
    }

    fn is_peers(&self, id: u32) -> bool {
        id % 2 == if self.role == Role::Host { 0 } else { 1 }
    }

    fn peer_opens(&mut self, id: u32) -> Result<(), Violation> {
        if id == 0 || !self.is_peers(id) || id <= self.peers_highest {
            return Err(Violation::Opened(id));
        }
        if self.peers_open >= self.limits.peer_streams {
            return Err(Violation::TooManyStreams(self.limits.peer_streams));
        }
        self.peers_highest = id;
        self.peers_open += 1;
        let slot = Slot::new(self.limits.window_of(id));
        self.streams.insert(id, slot);
        self.arrivals.push_back(id);
        wake(&mut self.acceptor);
        Ok(())
    }

    fn peer_credits(&mut self, id: u32, payload: &Bytes) -> Result<(), Violation> {
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

    fn peer_sends(&mut self, frame: Frame) -> Result<(), Violation> {
        let id = frame.stream;
        // This end has already removed the stream; these frames were still in flight.
        let Some(slot) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        if slot.ended_there.is_some() {
            return Err(Violation::AfterEnd(id));
        }
        slot.unreturned = slot.unreturned.saturating_add(charge(&frame.payload));
        if slot.unreturned > self.limits.window_of(id) {
            return Err(Violation::Window(id));
        }
        if matches!(frame.kind, Kind::Part | Kind::Message) {
            slot.arriving += frame.payload.len();
            if slot.arriving > self.limits.message_of(id) {
                return Err(Violation::Message(id));
            }
        }
        if frame.kind == Kind::Message {
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
    pub(crate) fn close(&mut self, fault: Option<Ended>) {
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
    pub(crate) fn poll_fault(&mut self, context: &Context<'_>) -> Poll<Arc<Ended>> {
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
    pub(crate) fn fault(&self) -> Option<Arc<Ended>> {
        self.fault.clone()
    }

    fn queue_control(&mut self, id: u32) {
        if let Some(slot) = self.streams.get_mut(&id) {
            list_control(id, slot, &mut self.control, &mut self.writer);
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

    fn forget_if_over(&mut self, id: u32) {
        if self.streams.get(&id).is_some_and(Slot::is_over) {
            self.streams.remove(&id);
            if self.is_peers(id) {
                self.peers_open -= 1;
            }
        }
    }
}

fn list_control(id: u32, slot: &mut Slot, control: &mut VecDeque<u32>, writer: &mut Option<Waker>) {
    if !std::mem::replace(&mut slot.in_control, true) {
        control.push_back(id);
        wake(writer);
    }
}
