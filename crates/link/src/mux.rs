//! The pure state of all streams of one link: who may send how much, and what goes next.
//!
//! Does no I/O and never waits: drivers feed frames in and take frames out, stream handles
//! poll. Three rules keep a link healthy whatever its streams do. A sender may only have as many
//! bytes under way as the receiver granted, so the reader of the link never has to stop for a
//! slow consumer. The writer takes one frame from each stream in turn, so a command that
//! prints without end delays no other. And a stream counts until the last frame about it has been
//! written, so a peer that never reads runs out of streams. Entry type: [`Mux`].

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
    /// Streams with something in their outbox, each once, in the order in which they are served.
    turns: VecDeque<u32>,
    /// Streams with a control frame due, each once. They go ahead of all data.
    control: VecDeque<u32>,
    arrivals: VecDeque<u32>,
    writer: Option<Waker>,
    acceptor: Option<Waker>,
    closed: bool,
    /// What the peer did that ended the link.
    fault: Option<Arc<Ended>>,
    /// Woken by a fault.
    watcher: Option<Waker>,
}

impl Mux {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        assert!(
            limits.window.min(limits.guest_window) / 2 > FRAME_COST,
            "a window holds two frames"
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
        // Ahead of all data, so that streams open in the order of their numbers.
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

    /// Takes a frame for sending once the window and the queue have room. `Err` when nobody
    /// will ever read it.
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

    /// Says that nothing more will be sent, and whether that was all. The first word counts.
    pub(crate) fn end(&mut self, id: u32, whole: bool) {
        if let Some(slot) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut slot.ended_here, true)
        {
            let kind = if whole { Kind::End } else { Kind::Abort };
            slot.outbox.push_back(frame(id, kind, Bytes::new()));
            self.queue(id);
        }
    }

    /// The next item that arrived, `Ok(None)` after the peer's end, `Err` if the stream or
    /// the link broke off before that.
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

    /// A sending or receiving handle went away.
    pub(crate) fn release(&mut self, id: u32, receiving: bool) {
        let Some(slot) = self.streams.get_mut(&id) else {
            return;
        };
        slot.handles -= 1;
        if receiving {
            slot.is_read = false;
            slot.inbox = VecDeque::new();
            slot.parts.clear();
            // Nobody will read what still comes: let the peer know instead of letting it wait.
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

    /// Like [`Self::next_outgoing`], waiting for one. Ready with `None` when the link has ended.
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

    /// Takes in what the peer sent.
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
        // A stream that this end has already forgotten: its last frames were under way.
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
        // What was under way when this side stopped reading is counted, and not kept.
        if slot.is_read {
            slot.inbox.push_back(frame);
            wake(&mut slot.receiver);
        }
        Ok(())
    }

    /// Ends every stream: senders and receivers see it at once, items that arrived are still read.
    /// The first fault counts, and none after a close without one.
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

    /// Ready once the link has ended by the peer's fault: there is no use in writing the rest.
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

    /// What the peer did that ended the link, if that is why it ended.
    pub(crate) fn fault(&self) -> Option<Arc<Ended>> {
        self.fault.clone()
    }

    /// Lists a stream for its control frames.
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
