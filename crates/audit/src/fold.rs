//! Folds repeated events into counts, so that repetition cannot fill a log, and bounds the number of
//! lines for different events. Pure: the time is an argument. Entry type: [`RepeatFold`].

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Limits of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldLimits {
    /// Repeats of an event within this time are only counted.
    pub window: Duration,
    /// Most different events within one window; more are only counted.
    pub keys: usize,
    /// Most lines in total; further events are only counted.
    pub lines: u64,
}

/// A line to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedLine<K> {
    /// The event; `None` for events that were only counted.
    pub what: Option<K>,
    /// Number of occurrences since the previous line about the same event.
    pub count: u64,
}

/// Tracks recently written events and their repeats.
#[derive(Debug)]
pub struct RepeatFold<K> {
    limits: FoldLimits,
    seen: HashMap<K, RepeatCount>,
    lines: u64,
    /// Number of events that were only counted, and since when.
    uncounted: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct RepeatCount {
    written: Instant,
    repeats: u64,
}

impl<K: Hash + Eq + Clone> RepeatFold<K> {
    pub fn new(limits: FoldLimits) -> RepeatFold<K> {
        RepeatFold {
            limits,
            seen: HashMap::new(),
            lines: 0,
            uncounted: None,
        }
    }

    /// Adds an event. Returns the lines to write now.
    pub fn add(&mut self, what: K, now: Instant) -> Vec<FoldedLine<K>> {
        let mut due = self.expired(now);
        if let Some(seen) = self.seen.get_mut(&what) {
            seen.repeats += 1;
        } else if self.seen.len() < self.limits.keys && self.lines < self.limits.lines {
            self.lines += 1;
            let written = now;
            self.seen.insert(
                what.clone(),
                RepeatCount {
                    written,
                    repeats: 0,
                },
            );
            due.push(FoldedLine {
                what: Some(what),
                count: 1,
            });
        } else {
            self.uncounted.get_or_insert((0, now)).0 += 1;
        }
        due
    }

    /// Whether the limit of lines is reached.
    pub fn is_capped(&self) -> bool {
        self.lines >= self.limits.lines
    }

    /// Returns all counts that have not been written. For the end of the log.
    pub fn finish(&mut self) -> Vec<FoldedLine<K>> {
        let seen = std::mem::take(&mut self.seen);
        let repeated = seen.into_iter().filter(|(_, seen)| seen.repeats > 0);
        let mut repeated: Vec<(K, RepeatCount)> = repeated.collect();
        repeated.sort_by_key(|(_, seen)| seen.written);
        let mut due: Vec<FoldedLine<K>> = repeated
            .into_iter()
            .map(|(what, seen)| FoldedLine {
                what: Some(what),
                count: seen.repeats,
            })
            .collect();
        due.extend(
            self.uncounted
                .take()
                .map(|(count, _)| FoldedLine { what: None, count }),
        );
        due
    }

    /// Removes events older than a window. A count is written as a line, or added to the events that
    /// are only counted if the limit of lines is reached.
    fn expired(&mut self, now: Instant) -> Vec<FoldedLine<K>> {
        let window = self.limits.window;
        let is_old = |since: Instant| now.saturating_duration_since(since) >= window;
        let mut due = Vec::new();
        let mut surplus = 0;
        let (lines, most) = (&mut self.lines, self.limits.lines);
        self.seen.retain(|what, seen| {
            if !is_old(seen.written) {
                return true;
            }
            if seen.repeats > 0 && *lines >= most {
                surplus += seen.repeats;
                return false;
            }
            if seen.repeats > 0 {
                *lines += 1;
                due.push(FoldedLine {
                    what: Some(what.clone()),
                    count: std::mem::take(&mut seen.repeats),
                });
                seen.written = now;
                return true;
            }
            false
        });
        if surplus > 0 {
            self.uncounted.get_or_insert((0, now)).0 += surplus;
        }
        // Above the limit the sum is written once, at the end.
        if let Some((count, since)) = self.uncounted
            && is_old(since)
            && self.lines < self.limits.lines
        {
            self.lines += 1;
            self.uncounted = None;
            due.push(FoldedLine { what: None, count });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FoldLimits = FoldLimits {
        window: Duration::from_secs(10),
        keys: 3,
        lines: 6,
    };

    fn line(what: &'static str, count: u64) -> FoldedLine<&'static str> {
        let what = Some(what);
        FoldedLine { what, count }
    }

    fn sum(count: u64) -> FoldedLine<&'static str> {
        FoldedLine { what: None, count }
    }

    #[test]
    fn repeats_are_counted_and_written_after_a_window() {
        let mut fold = RepeatFold::new(LIMITS);
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(fold.add("a", at(0)), [line("a", 1)]);
        for second in 1..10 {
            assert_eq!(fold.add("a", at(second)), []);
        }
        assert_eq!(fold.add("b", at(9)), [line("b", 1)]);
        assert_eq!(fold.add("a", at(10)), [line("a", 9)]);
        // The tenth repeat is the first of the next window.
        assert_eq!(fold.finish(), [line("a", 1)]);
    }

    #[test]
    fn a_flood_of_different_things_is_bounded() {
        let names: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
        let mut fold = RepeatFold::new(LIMITS);
        let begin = Instant::now();
        let mut written = Vec::new();
        for (second, name) in (0..).zip(&names) {
            written.extend(fold.add(name.as_str(), begin + Duration::from_secs(second / 100)));
        }
        assert!(fold.is_capped());
        assert_eq!(written.len() as u64, LIMITS.lines);
        written.extend(fold.finish());
        let total: u64 = written.iter().map(|one| one.count).sum();
        assert_eq!(total, 100_000);
        assert!(written.len() as u64 <= LIMITS.lines + LIMITS.keys as u64 + 1);
    }

    #[test]
    fn what_does_not_fit_a_window_is_summed_up() {
        let mut fold = RepeatFold::new(LIMITS);
        let begin = Instant::now();
        for name in ["a", "b", "c"] {
            assert_eq!(fold.add(name, begin), [line(name, 1)]);
        }
        assert_eq!(fold.add("d", begin), []);
        assert_eq!(fold.add("e", begin), []);
        let later = begin + LIMITS.window;
        assert_eq!(fold.add("f", later), [sum(2), line("f", 1)]);
    }
}
