//! Looks after what runs: how long each job has run, and that the store knows it.
//!
//! Time is measured by a clock that only goes forward, so that a jump of the wall clock neither
//! ends a job nor lets it run for longer. Spans in which the server itself did not run do not
//! count ([`AwakeClock`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::StoreError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::dispatcher::recover_rest;
use crate::parts::Parts;

/// How often the store is told. What a job ran since is not counted when the server dies.
const BEAT: Duration = Duration::from_secs(2);

/// How often the clock is read at least.
const TICK: Duration = Duration::from_millis(500);

/// Between two readings of the clock: after a longer gap, the server was stopped (by SIGSTOP, a
/// debugger, or the host of its virtual machine) and the gap does not count.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// Counts the time that the server runs, from the clock's start on.
///
/// A stopped server cannot hear its agents. Without this, it would take their jobs for stuck, or
/// past their deadlines, as soon as it goes on. [`beat`] keeps it ticking.
#[derive(Debug)]
pub(crate) struct AwakeClock(Mutex<Ticks>);

#[derive(Debug, Clone, Copy)]
struct Ticks {
    awake: Duration,
    last: Instant,
}

impl AwakeClock {
    pub(crate) fn start() -> Self {
        Self(Mutex::new(Ticks {
            awake: Duration::ZERO,
            last: Instant::now(),
        }))
    }

    pub(crate) fn now(&self) -> Duration {
        let mut ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gap = now.saturating_duration_since(ticks.last);
        ticks.last = now;
        if gap > LONGEST_GAP {
            info!(seconds = gap.as_secs(), "the server was stopped")
        } else {
            ticks.awake += gap
        }
        ticks.awake
    }

    pub(crate) async fn sleep_until(&self, moment: Duration) {
        loop {
            let left = moment.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// How long a job has run, over all claims. Stands still while the job waits.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Arc<AwakeClock>,
    reading: Mutex<Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    before: Duration,
    since: Option<Duration>,
}

impl Stopwatch {
    /// Runs, from a time that was measured before.
    pub(crate) fn start(clock: Arc<AwakeClock>, before: Duration) -> Self {
        let since = Some(clock.now());
        let reading = Mutex::new(Reading { before, since });
        Self { clock, reading }
    }

    pub(crate) fn pause(&self) {
        let now = self.clock.now();
        let mut reading = self.reading();
        reading.before = reading.elapsed(now);
        reading.since = None;
    }

    pub(crate) fn go_on(&self) {
        let now = self.clock.now();
        self.reading().since.get_or_insert(now);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let now = self.clock.now();
        self.reading().elapsed(now)
    }

    pub(crate) fn millis(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn elapsed(&self, now: Duration) -> Duration {
        let span = self.since.map(|since| now.saturating_sub(since));
        self.before.saturating_add(span.unwrap_or_default())
    }
}

/// Tells the store how long jobs have run, every now and then, until told to end.
pub(crate) async fn beat(parts: Arc<Parts>, end: CancellationToken) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_beat = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        parts.clock.now();
        if last_beat.elapsed() < BEAT {
            continue;
        }
        last_beat = Instant::now();
        let beats = parts.roster.beats();
        if beats.is_empty() {
            continue;
        }
        if let Err(error) = parts.jobs.beat(beats).await {
            warn!(%error, "beat lost");
        }
    }
}

/// How often the disk is looked at.
const DISK_TICK: Duration = Duration::from_secs(1);

/// Makes the disk's reserve again when there is room, and then puts back into the queue what the last
/// server had and could not be put back at the start.
pub(crate) async fn look_after_disk(parts: Arc<Parts>, end: CancellationToken) {
    let mut ticks = interval(DISK_TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        recover_rest(&parts).await;
        let own = parts.clone();
        // Making a file may take a moment.
        let refilled = tokio::task::spawn_blocking(move || own.disk.refill());
        if refilled.await.is_err() {
            warn!("the disk's reserve was not looked at");
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stopwatch_counts_only_while_it_runs() {
        let clock = Arc::new(AwakeClock::start());
        let watch = Stopwatch::start(clock, Duration::from_secs(10));
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

    #[tokio::test(start_paused = true)]
    async fn a_span_in_which_the_server_did_not_run_does_not_count() {
        let clock = Arc::new(AwakeClock::start());
        let watch = Stopwatch::start(clock.clone(), Duration::ZERO);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Duration::from_secs(2));
        // As a process sees it that was stopped for an hour.
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now(), Duration::from_secs(2));
        assert_eq!(watch.elapsed(), Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(watch.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sleeps_gets_the_whole_span_after_a_stop() {
        let clock = Arc::new(AwakeClock::start());
        let sleeper = clock.clone();
        let sleeping =
            tokio::spawn(async move { sleeper.sleep_until(Duration::from_secs(4)).await });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(!sleeping.is_finished());
        // Time goes by itself from here on, timer by timer.
        sleeping.await.unwrap();
        assert_eq!(clock.now(), Duration::from_secs(4));
    }
}
