//! The clock that job ages are measured by. Follows the wall clock unless that jumps ahead.
//!
//! A machine that boots with a wrong clock would otherwise delete every job at once. A clock that
//! is more than a day ahead of the last known time is trusted only after the server has run with it
//! for a day; until then, jobs age only by the server's running time. The last known time is stored
//! in the data folder, so that this works across restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::job::Job;
use store::jobs::JobQuery;
use tokio::time::Instant;
use tracing::warn;

use super::RetentionTask;
use crate::blocking::run_blocking;

/// File in the data folder: the last known time, and the seconds that the server has run since the
/// clock jumped.
const CLOCK_FILE: &str = "retention-clock";

/// How far the clock may be ahead of the last known time. The server may have been off that long.
const MAX_CLOCK_STEP: SignedDuration = SignedDuration::from_hours(24);

/// How long the server must run with a clock that jumped until it is trusted.
const JUMP_CONFIRMATION_TIME: Duration = Duration::from_secs(86_400);

#[derive(Debug)]
pub(super) struct AgeClock {
    path: PathBuf,
    known: ClockState,
    read: Instant,
}

/// The last known time and the state of a clock jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockState {
    last: Timestamp,
    /// How long the clock has been too far ahead, in running time.
    doubted_for: Option<Duration>,
}

impl AgeClock {
    pub(super) async fn open(task: &RetentionTask) -> Self {
        let path = task.data.join(CLOCK_FILE);
        let file = path.clone();
        let known = run_blocking(move || Ok(read(&file))).await.ok().flatten();
        let known = match known {
            Some(known) => known,
            None => ClockState {
                last: last_activity(task).await.unwrap_or_else(Timestamp::now),
                doubted_for: None,
            },
        };
        Self {
            path,
            known,
            read: Instant::now(),
        }
    }

    /// The current time for computing ages.
    pub(super) async fn now(&mut self, wall: Timestamp) -> Timestamp {
        let elapsed = self.read.elapsed();
        self.read = Instant::now();
        let before = self.known;
        self.known = before.advance(wall, elapsed);
        if before.doubted_for.is_none() && self.known.doubted_for.is_some() {
            warn!(
                %wall, known = %self.known.last,
                "clock jumped ahead: ignored for a day for the ages of jobs"
            );
        }
        let (path, known) = (self.path.clone(), self.known);
        // On failure the next start uses the newest job's time.
        let _ = run_blocking(move || fs::write(path, known.line())).await;
        self.known.last
    }
}

impl ClockState {
    /// The state after `elapsed` running time, when the wall clock shows `wall`.
    fn advance(self, wall: Timestamp, elapsed: Duration) -> Self {
        let step = SignedDuration::try_from(elapsed).unwrap_or_default();
        let expected = self.last.saturating_add(step).unwrap_or(self.last);
        let doubted_for = self
            .doubted_for
            .map_or(Duration::ZERO, |time| time + elapsed);
        if wall.duration_since(expected) <= MAX_CLOCK_STEP || doubted_for >= JUMP_CONFIRMATION_TIME
        {
            return Self {
                last: wall,
                doubted_for: None,
            };
        }
        Self {
            last: expected,
            doubted_for: Some(doubted_for),
        }
    }

    fn line(self) -> String {
        match self.doubted_for {
            None => format!("{}\n", self.last),
            Some(time) => format!("{} {}\n", self.last, time.as_secs()),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace();
        let last = fields.next()?.parse().ok()?;
        let doubted_for = match fields.next() {
            None => None,
            Some(seconds) => Some(Duration::from_secs(seconds.parse().ok()?)),
        };
        Some(Self { last, doubted_for })
    }
}

fn read(path: &Path) -> Option<ClockState> {
    ClockState::parse(&fs::read_to_string(path).ok()?)
}

/// The time of the newest job's last change.
async fn last_activity(task: &RetentionTask) -> Option<Timestamp> {
    let query = JobQuery {
        limit: 1,
        ..JobQuery::default()
    };
    let newest: Job = task.jobs.list(&query).await.ok()?.into_iter().next()?;
    [Some(newest.created), newest.started, newest.ended]
        .into_iter()
        .flatten()
        .max()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn known(last: &str, doubted_for: Option<Duration>) -> ClockState {
        ClockState {
            last: at(last),
            doubted_for,
        }
    }

    #[test]
    fn a_jumped_clock_is_trusted_after_a_day() {
        let start = known("2026-01-01T00:00:00Z", None);
        // It advances, is set back, or the server was off for a while.
        for wall in [
            "2026-01-01T01:00:00Z",
            "2025-12-01T00:00:00Z",
            "2026-01-02T00:30:00Z",
        ] {
            assert_eq!(start.advance(at(wall), HOUR), known(wall, None));
        }
        // It jumps by two months.
        let jumped = start.advance(at("2026-03-01T00:00:00Z"), Duration::ZERO);
        assert_eq!(jumped, known("2026-01-01T00:00:00Z", Some(Duration::ZERO)));
        let later = jumped.advance(at("2026-03-01T23:00:00Z"), HOUR * 23);
        assert_eq!(later, known("2026-01-01T23:00:00Z", Some(HOUR * 23)));
        // The clock is corrected.
        let corrected = later.advance(at("2026-01-02T00:00:00Z"), HOUR);
        assert_eq!(corrected, known("2026-01-02T00:00:00Z", None));
        // Or the new time is confirmed.
        let confirmed = later.advance(at("2026-03-02T00:00:00Z"), HOUR);
        assert_eq!(confirmed, known("2026-03-02T00:00:00Z", None));
    }

    #[test]
    fn a_stored_clock_is_read_back() {
        for known in [
            known("2026-01-01T00:00:00Z", None),
            known("2026-01-01T00:00:00Z", Some(HOUR)),
        ] {
            assert_eq!(ClockState::parse(&known.line()), Some(known));
        }
        for bad in ["", "x", "2026-01-01T00:00:00Z x"] {
            assert_eq!(ClockState::parse(bad), None, "{bad}");
        }
    }
}
