//! The pure state of all streams of one link: who may send how much, and what goes next.
//!
//! Does no I/O and never waits: drivers feed frames in and take frames out, stream handles
//! poll. Two rules keep a link healthy whatever its streams do. A sender may only have as many
//! bytes under way as the receiver granted, so the reader of the link never has to stop for a
//! slow consumer. And the writer takes one frame from each stream in turn, so a command that
//! prints without end delays no other. Entry type: [`Mux`].

use std::collections::{HashMap, VecDeque};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::frame::{Frame, FrameError, Kind, MAX_PAYLOAD};
use crate::stream::Item;

/// Which end of the link this is. The host opens odd streams, the guest even ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Host,
    Guest,
}

/// What one end grants the other.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Charged bytes that a stream's sender may have under way. The same at both ends.
    pub window: u32,
    /// Streams that the peer may have open at once.
    pub peer_streams: usize,
    /// Largest typed message, after its parts are put together.
    pub message: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 1024 * 1024,
            peer_streams: 256,
            message: 4 * 1024 * 1024,
        }
    }
}

/// Every charged frame costs this much beyond its payload, so that a flood of empty frames
/// is bounded too.
const FRAME_COST: u32 = 32;

/// Frames of one stream that may wait for the writer.
const QUEUE: usize = 2;

fn charge(payload: &Bytes) -> u32 {
    payload.len() as u32 + FRAME_COST
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
}

#[derive(Debug, Default)]
struct Slot {
    // Sending.
    outbox: VecDeque<Frame>,
    credit: u32,
    in_turn: bool,
    /// Ended or aborted by this side.
    ended_here: bool,
    /// The peer reads no more.
    stopped: bool,
    sender: Option<Waker>,
    // Receiving.
    inbox: VecDeque<Frame>,
    parts: BytesMut,
    unreturned: u32,
    consumed: u32,
    /// How the peer's direction ended: whole or not.
    ended_there: Option<bool>,
    receiver: Option<Waker>,
    /// Handles of this side that are alive.
    handles: u8,
}

impl Slot {
    fn wake(&mut self) {
        for waker in [self.sender.take(), self.receiver.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }

    fn is_over(&self) -> bool {
        self.handles == 0 && self.ended_here && self.outbox.is_empty()
    }
}

/// All streams of one link.
#[derive(Debug)]
pub(crate) struct Mux {
    role: Role,
    limits: Limits,
    next: u32,
    peers_highest: u32,
    peers_open: usize,
    streams: HashMap<u32, Slot>,
    /// Streams with something in their outbox, in the order in which they are served.
    turns: VecDeque<u32>,
    /// Opens, credits and stops: small, bounded by the protocol, and ahead of all data.
    urgent: VecDeque<Frame>,
    arrivals: VecDeque<u32>,
    writer: Option<Waker>,
    acceptor: Option<Waker>,
    closed: bool,
}

impl Mux {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        // Credit goes back by half windows: what a sender then has must be enough for a frame.
        assert!(
            limits.window / 2 >= MAX_PAYLOAD as u32 + FRAME_COST,
            "the window holds two frames"
        );
        Self {
            role,
            limits,
            next: if role == Role::Host { 1 } else { 2 },
            peers_highest: 0,
            peers_open: 0,
            streams: HashMap::new(),
            turns: VecDeque::new(),
            urgent: VecDeque::new(),
            arrivals: VecDeque::new(),
            writer: None,
            acceptor: None,
            closed: false,
        }
    }

    /// The same at both ends.
    pub(crate) fn longest_message(&self) -> usize {
        self.limits.message
    }

    /// Starts a stream; `None` when the link has ended.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.closed {
            return None;
        }
        let id = self.next;
        self.next = self.next.checked_add(2)?;
        self.streams.insert(id, self.new_slot());
        // Ahead of all data, so that streams open in the order of their numbers.
        self.urgent.push_back(frame(id, Kind::Open, Bytes::new()));
        wake(&mut self.writer);
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
        if slot.credit < cost || slot.outbox.len() >= QUEUE {
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
            let cost = charge(&frame.payload);
            slot.consumed += cost;
            let more_may_come = slot.ended_there.is_none() && !self.closed;
            if slot.consumed >= self.limits.window / 2 && more_may_come {
                let mut amount = BytesMut::with_capacity(4);
                amount.put_u32_le(slot.consumed);
                slot.unreturned -= slot.consumed;
                slot.consumed = 0;
                let credit = self::frame(id, Kind::Credit, amount.freeze());
                self.urgent.push_back(credit);
                wake(&mut self.writer);
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
            if slot.parts.len() > self.limits.message {
                return Poll::Ready(Err(()));
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
            slot.inbox.clear();
            // Nobody will read what still comes: let the peer know instead of letting it wait.
            if slot.ended_there.is_none() {
                self.urgent.push_back(frame(id, Kind::Stop, Bytes::new()));
                wake(&mut self.writer);
            }
        } else {
            self.end(id, false);
        }
        self.forget_if_over(id);
    }

    /// The next frame for the wire: urgent ones first, then one from each stream in turn.
    pub(crate) fn next_outgoing(&mut self) -> Option<Frame> {
        if let Some(frame) = self.urgent.pop_front() {
            return Some(frame);
        }
        while let Some(id) = self.turns.pop_front() {
            let Some(slot) = self.streams.get_mut(&id) else {
                continue;
            };
            slot.in_turn = false;
            let Some(frame) = slot.outbox.pop_front() else {
                continue;
            };
            if !slot.outbox.is_empty() {
                slot.in_turn = true;
                self.turns.push_back(id);
            }
            wake(&mut slot.sender);
            self.forget_if_over(id);
            return Some(frame);
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

    fn new_slot(&self) -> Slot {
        Slot {
            credit: self.limits.window,
            handles: 2,
            ..Slot::default()
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
        self.streams.insert(id, self.new_slot());
        self.arrivals.push_back(id);
        wake(&mut self.acceptor);
        Ok(())
    }

    fn peer_credits(&mut self, id: u32, payload: &Bytes) -> Result<(), Violation> {
        let amount = <[u8; 4]>::try_from(&payload[..]).map(u32::from_le_bytes);
        let amount = amount.map_err(|_| Violation::Credit(id))?;
        if let Some(slot) = self.streams.get_mut(&id) {
            slot.credit = slot
                .credit
                .checked_add(amount)
                .filter(|credit| *credit <= self.limits.window)
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
        if slot.unreturned > self.limits.window {
            return Err(Violation::Window(id));
        }
        if slot.parts.len() > self.limits.message {
            return Err(Violation::Message(id));
        }
        slot.inbox.push_back(frame);
        wake(&mut slot.receiver);
        Ok(())
    }

    /// Ends every stream: senders and receivers see it at once, items that arrived are still read.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for slot in self.streams.values_mut() {
            slot.wake();
        }
        wake(&mut self.writer);
        wake(&mut self.acceptor);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
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

fn frame(stream: u32, kind: Kind, payload: Bytes) -> Frame {
    Frame {
        stream,
        kind,
        payload,
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
