//! Decides when to draw. Pure.
//!
//! The effect of a user's input is drawn at once. Other changes are drawn at most sixty times a
//! second, and drawing never takes more than a quarter of the time, so that a slow terminal or a
//! large page leaves time to read input. Entry type: [`FramePacer`].

use std::time::Duration;

/// Minimum time between the starts of two frames.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(16);
/// The next frame starts at the earliest after this multiple of the time that the last one took.
const DRAW_TIME_FACTOR: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct FramePacer {
    /// Whether anything changed since the last frame.
    is_changed: bool,
    /// Whether the user caused the change.
    is_urgent: bool,
    /// When the next frame may start.
    earliest: Duration,
}

impl FramePacer {
    /// Something changed without input.
    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }

    /// The user did something.
    pub(super) fn mark_urgent(&mut self) {
        (self.is_changed, self.is_urgent) = (true, true);
    }

    /// When to draw, if anything changed. The time may be past.
    pub(super) fn due(&self) -> Option<Duration> {
        match (self.is_changed, self.is_urgent) {
            (false, _) => None,
            (true, true) => Some(Duration::ZERO),
            (true, false) => Some(self.earliest),
        }
    }

    pub(super) fn drawn(&mut self, started_at: Duration, ended: Duration) {
        let cost = ended.saturating_sub(started_at);
        *self = Self {
            earliest: started_at + MIN_FRAME_INTERVAL.max(cost * DRAW_TIME_FACTOR),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_paced() {
        let check = |cost: u64, is_urgent: bool, expect: Option<u64>| {
            let milliseconds = Duration::from_millis;
            let mut pace = FramePacer::default();
            pace.change();
            assert_eq!(
                pace.due(),
                Some(Duration::ZERO),
                "the first one is due at once"
            );
            pace.drawn(milliseconds(100), milliseconds(100 + cost));
            assert_eq!(pace.due(), None, "nothing happened since");
            pace.change();
            if is_urgent {
                pace.mark_urgent();
            }
            assert_eq!(
                pace.due(),
                expect.map(milliseconds),
                "{cost} ms, {is_urgent}"
            );
        };
        check(0, false, Some(116));
        check(4, false, Some(116));
        check(5, false, Some(120));
        check(100, false, Some(500));
        check(100, true, Some(0));
    }
}
