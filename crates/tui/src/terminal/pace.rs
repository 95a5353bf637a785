//! When to draw. Pure.
//!
//! What a person does is shown at once. What happens by itself is shown at most sixty times a
//! second, and never so often that drawing takes more than a quarter of the time, so that a slow
//! terminal or a large page leaves time to listen. Entry type: [`Pace`].

use std::time::Duration;

/// Between two drawings.
const SHORTEST: Duration = Duration::from_millis(16);
/// Time in which nothing is drawn, for each time that is spent on drawing.
const REST: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Whether anything changed since the last drawing.
    is_changed: bool,
    /// Whether a person did it.
    is_urgent: bool,
    /// When the next drawing may begin.
    earliest: Duration,
}

impl Pace {
    /// Something happened by itself.
    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }

    /// A person did something.
    pub(super) fn hurry(&mut self) {
        (self.is_changed, self.is_urgent) = (true, true);
    }

    /// When to draw, if there is anything to draw: a moment that may be past.
    pub(super) fn due(&self) -> Option<Duration> {
        match (self.is_changed, self.is_urgent) {
            (false, _) => None,
            (true, true) => Some(Duration::ZERO),
            (true, false) => Some(self.earliest),
        }
    }

    pub(super) fn drawn(&mut self, begun: Duration, ended: Duration) {
        let cost = ended.saturating_sub(begun);
        *self = Self {
            earliest: begun + SHORTEST.max(cost * REST),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_have_their_distance() {
        let check = |cost: u64, is_urgent: bool, expect: Option<u64>| {
            let milliseconds = Duration::from_millis;
            let mut pace = Pace::default();
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
                pace.hurry();
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
