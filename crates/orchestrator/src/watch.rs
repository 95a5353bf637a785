//! Looks after what runs: how long each job has run, and that the store knows it.
//!
//! Time is measured by a clock that only goes forward, so that a jump of the wall clock neither
//! ends a job nor lets it run for longer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::StoreError;
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

/// How often the time that jobs are parked is written down. The part that passed since is not counted
/// when the server dies, and neither is the time in which no server ran.
const PARKED_TICK: Duration = Duration::from_secs(60);

/// Counts how long jobs are parked, until told to end. Measured here, because the time of day may
/// jump while a job is parked.
pub(crate) async fn count_parked_time(parts: Arc<Parts>, end: CancellationToken) {
    let longest = parts.config.outages.longest_parked;
    let tick = PARKED_TICK.min(longest / 4).max(Duration::from_millis(50));
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counted = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        let now = Instant::now();
        match count_parked(&parts, now - counted).await {
            Ok(()) => counted = now,
            Err(error) => warn!(%error, "cannot count how long jobs are parked"),
        }
    }
}

async fn count_parked(parts: &Parts, passed: Duration) -> Result<(), StoreError> {
    if parts.jobs.parked().await? == 0 {
        return Ok(());
    }
    parts.jobs.add_parked_time(passed).await?;
    // One of them may have its last try now.
    parts.loads.wake_deferred();
    Ok(())
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
