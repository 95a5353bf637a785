//! Looks after what runs: how long each job has run, and that the store knows it.
//!
//! Time is measured by a clock that only goes forward, so that a jump of the wall clock neither
//! ends a job nor lets it run for longer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::parts::Parts;

/// How often the store is told. What a job ran since is not counted when the server dies.
const BEAT: Duration = Duration::from_secs(2);

/// How long a job has run, over all claims. Stands still while the job waits.
#[derive(Debug)]
pub(crate) struct Stopwatch(Mutex<Reading>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    before: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// Runs, from a time that was measured before.
    pub(crate) fn start(before: Duration) -> Self {
        let since = Some(Instant::now());
        Self(Mutex::new(Reading { before, since }))
    }

    pub(crate) fn pause(&self) {
        let mut reading = self.reading();
        reading.before = reading.elapsed();
        reading.since = None;
    }

    pub(crate) fn go_on(&self) {
        self.reading().since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.reading().elapsed()
    }

    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn elapsed(&self) -> Duration {
        let now = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.before.saturating_add(now)
    }
}

/// Tells the store how long jobs have run, every now and then, until told to end.
pub(crate) async fn beat(parts: Arc<Parts>, end: CancellationToken) {
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        let beats = parts.roster.beats();
        if beats.is_empty() {
            continue;
        }
        if let Err(error) = parts.jobs.beat(beats).await {
            warn!(%error, "beat lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stopwatch_counts_only_while_it_runs() {
        let watch = Stopwatch::start(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(5)).await;
        watch.pause();
        watch.pause();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(watch.elapsed(), Duration::from_secs(15));
        watch.go_on();
        tokio::time::advance(Duration::from_secs(1)).await;
        watch.go_on();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(watch.millis(), 17_000);
    }
}
