//! The deltas since the last persistent event, for followers that join late. Pure.
//!
//! Consecutive deltas of the same item are merged. The total size is limited: the oldest deltas are
//! dropped. The text of each event is written when the first follower needs it, and written again
//! only after the event has changed.

use std::collections::VecDeque;

use protocol::{Event, EventKind};

use super::update::JobUpdate;

/// Maximum size of the tail in bytes.
const MAX_TAIL_BYTES: usize = 256 << 10;
/// Bytes that an event counts for in addition to its text.
const EVENT_OVERHEAD_BYTES: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct DeltaTail {
    events: VecDeque<TailEvent>,
    weight: usize,
}

#[derive(Debug)]
struct TailEvent {
    event: Event,
    /// The event as followers receive it; `None` until it is needed, and after a change.
    update: Option<JobUpdate>,
}

impl DeltaTail {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All events, for a new follower.
    pub(crate) fn updates(&mut self) -> Vec<JobUpdate> {
        let updates = self.events.iter_mut().filter_map(|tail_event| {
            if tail_event.update.is_none() {
                tail_event.update = JobUpdate::of_event(&tail_event.event);
            }
            tail_event.update.clone()
        });
        updates.collect()
    }

    pub(crate) fn push(&mut self, event: &Event) {
        let joined = self.events.back_mut().is_some_and(|last| {
            let is_joined = join(&mut last.event.kind, &event.kind);
            if is_joined {
                last.update = None;
            }
            is_joined
        });
        self.weight += text_of(&event.kind).map_or(EVENT_OVERHEAD_BYTES, str::len);
        if !joined {
            self.weight += EVENT_OVERHEAD_BYTES;
            self.events.push_back(TailEvent {
                event: event.clone(),
                update: None,
            });
        }
        while self.weight > MAX_TAIL_BYTES {
            self.shorten();
        }
    }

    /// Drops the oldest event, or the first half of the only one.
    fn shorten(&mut self) {
        let is_only = self.events.len() == 1;
        let Some(oldest) = self.events.front_mut() else {
            self.weight = 0;
            return;
        };
        match text_of_mut(&mut oldest.event.kind).filter(|text| is_only && text.len() > 1) {
            Some(text) => {
                oldest.update = None;
                let cut = text.ceil_char_boundary(text.len() / 2);
                text.drain(..cut);
                self.weight -= cut;
            }
            None => {
                let gone = text_of(&oldest.event.kind).map_or(EVENT_OVERHEAD_BYTES, str::len)
                    + EVENT_OVERHEAD_BYTES;
                self.weight = self.weight.saturating_sub(gone);
                self.events.pop_front();
            }
        }
    }
}

/// Appends a delta to the previous one, if both belong to the same item.
fn join(last: &mut EventKind, next: &EventKind) -> bool {
    let is_same = match (&*last, next) {
        (EventKind::TextDelta { .. }, EventKind::TextDelta { .. })
        | (EventKind::ThinkingDelta { .. }, EventKind::ThinkingDelta { .. }) => true,
        (EventKind::InputDelta { call, .. }, EventKind::InputDelta { call: next, .. }) => {
            call == next
        }
        (
            EventKind::ToolOutput { call, is_error, .. },
            EventKind::ToolOutput {
                call: next,
                is_error: next_is_error,
                ..
            },
        ) => call == next && is_error == next_is_error,
        _ => false,
    };
    match (is_same, text_of_mut(last), text_of(next)) {
        (true, Some(text), Some(more)) => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}

/// The text of a delta.
fn text_of(kind: &EventKind) -> Option<&str> {
    match kind {
        EventKind::TextDelta { text }
        | EventKind::ThinkingDelta { text }
        | EventKind::ToolOutput { text, .. }
        | EventKind::InputDelta { json: text, .. } => Some(text),
        _ => None,
    }
}

fn text_of_mut(kind: &mut EventKind) -> Option<&mut String> {
    match kind {
        EventKind::TextDelta { text }
        | EventKind::ThinkingDelta { text }
        | EventKind::ToolOutput { text, .. }
        | EventKind::InputDelta { json: text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use jiff::Timestamp;
    use protocol::EVENT_VERSION;

    use super::*;

    fn event(kind: EventKind) -> Event {
        Event {
            v: EVENT_VERSION,
            session: "20260131-174502-k3fd".parse().unwrap(),
            seq: None,
            time: Timestamp::UNIX_EPOCH,
            kind,
        }
    }

    fn text(text: &str) -> EventKind {
        EventKind::TextDelta {
            text: text.to_owned(),
        }
    }

    fn output(call: &str, text: &str) -> EventKind {
        EventKind::ToolOutput {
            call: call.into(),
            text: text.to_owned(),
            is_error: false,
        }
    }

    fn kinds(tail: &DeltaTail) -> impl Iterator<Item = &EventKind> {
        tail.events.iter().map(|tail_event| &tail_event.event.kind)
    }

    fn texts(tail: &mut DeltaTail) -> Vec<Arc<str>> {
        let texts = tail.updates().into_iter().map(|update| match update {
            JobUpdate::Event { json, .. } => json,
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    #[test]
    fn followers_share_the_text_of_an_event_until_it_changes() {
        let mut tail = DeltaTail::default();
        tail.push(&event(output("1", "a")));
        tail.push(&event(text("b ")));
        let first = texts(&mut tail);
        let second = texts(&mut tail);
        assert!(Arc::ptr_eq(&first[0], &second[0]) && Arc::ptr_eq(&first[1], &second[1]));
        tail.push(&event(text("c")));
        let third = texts(&mut tail);
        assert!(Arc::ptr_eq(&first[0], &third[0]));
        let expect = serde_json::to_string(&event(text("b c"))).unwrap();
        assert_eq!(*third[1], *expect);

        // The only event of a long tail loses its beginning.
        let mut tail = DeltaTail::default();
        tail.push(&event(text(
            &"x".repeat(MAX_TAIL_BYTES - EVENT_OVERHEAD_BYTES),
        )));
        let before = texts(&mut tail);
        tail.push(&event(text("y")));
        let after = texts(&mut tail);
        assert!(after[0].len() < before[0].len() && after[0].contains("xy\""));
    }

    #[test]
    fn deltas_of_one_item_are_merged() {
        let check = |pieces: &[EventKind], expect: &[EventKind]| {
            let mut tail = DeltaTail::default();
            for piece in pieces {
                tail.push(&event(piece.clone()));
            }
            let found: Vec<_> = kinds(&tail).cloned().collect();
            assert_eq!(found, expect);
        };
        check(&[], &[]);
        check(&[text("a "), text("b "), text("c")], &[text("a b c")]);
        check(
            &[output("1", "a"), output("2", "b"), output("2", "c")],
            &[output("1", "a"), output("2", "bc")],
        );
        let request = EventKind::RequestStarted {
            turn: 1,
            request: 1,
        };
        check(
            &[request.clone(), text("a"), request.clone(), text("b")],
            &[request.clone(), text("a"), request, text("b")],
        );
    }

    #[test]
    fn a_tail_has_bounds_and_keeps_the_end() {
        let mut tail = DeltaTail::default();
        let line = "é".repeat(1000);
        for _ in 0..1000 {
            tail.push(&event(output("1", &line)));
        }
        tail.push(&event(output("1", "the end")));
        let total: usize = kinds(&tail).map(|kind| text_of(kind).unwrap().len()).sum();
        assert!(
            (MAX_TAIL_BYTES / 4..=MAX_TAIL_BYTES).contains(&total),
            "{total}"
        );
        let last = kinds(&tail).last().unwrap();
        assert!(text_of(last).unwrap().ends_with("the end"));

        for number in 0..10_000 {
            tail.push(&event(output(&number.to_string(), "x")));
        }
        assert!(tail.events.len() <= MAX_TAIL_BYTES / EVENT_OVERHEAD_BYTES);
        assert!(tail.events.len() > 1000);
    }
}
