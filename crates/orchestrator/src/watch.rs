//! Measures how long jobs run and are parked, and keeps the store up to date.
//!
//! Time is measured with a monotonic clock, so that a jump of the wall clock neither ends a job nor
//! extends its run time. Periods in which the server itself was stopped do not count
//! ([`AwakeClock`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::StoreError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::parts::ServerParts;
use crate::recovery::retry_recovery;

/// How often run times are stored. Time since the last update is lost when the server dies.
const RUN_TIME_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum interval between readings of the clock.
const CLOCK_READ_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum gap between two readings. After a longer gap, the server was stopped (by SIGSTOP, a
/// debugger, or the host of its virtual machine) and the gap does not count.
const MAX_CLOCK_GAP: Duration = Duration::from_secs(5);

/// Measures the time that the server runs.
///
/// A stopped server does not receive events of its agents. Without this clock, it would treat their
/// jobs as stuck, or past their deadlines, as soon as it continues. [`store_run_times`] reads the clock
/// regularly.
#[derive(Debug)]
pub(crate) struct AwakeClock(Mutex<AwakeTime>);

#[derive(Debug, Clone, Copy)]
struct AwakeTime {
    awake: Duration,
    last: Instant,
}

impl AwakeClock {
    pub(crate) fn start() -> Self {
        Self(Mutex::new(AwakeTime {
            awake: Duration::ZERO,
            last: Instant::now(),
        }))
    }

    pub(crate) fn now(&self) -> Duration {
        let mut ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gap = now.saturating_duration_since(ticks.last);
        ticks.last = now;
        if gap > MAX_CLOCK_GAP {
            info!(seconds = gap.as_secs(), "server was stopped")
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

/// How long a job has run, over all claims. Paused while the job waits.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Arc<AwakeClock>,
    reading: Mutex<StopwatchState>,
}

#[derive(Debug, Clone, Copy)]
struct StopwatchState {
    before: Duration,
    since: Option<Duration>,
}

impl Stopwatch {
    /// Starts running, with the time that was measured before.
    pub(crate) fn start(clock: Arc<AwakeClock>, before: Duration) -> Self {
        let since = Some(clock.now());
        let reading = Mutex::new(StopwatchState { before, since });
        Self { clock, reading }
    }

    pub(crate) fn pause(&self) {
        let now = self.clock.now();
        let mut reading = self.reading();
        reading.before = reading.elapsed(now);
        reading.since = None;
    }

    pub(crate) fn resume(&self) {
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

    fn reading(&self) -> MutexGuard<'_, StopwatchState> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopwatchState {
    fn elapsed(&self, now: Duration) -> Duration {
        let span = self.since.map(|since| now.saturating_sub(since));
        self.before.saturating_add(span.unwrap_or_default())
    }
}

/// Stores the run times of jobs regularly until `end`.
pub(crate) async fn store_run_times(parts: Arc<ServerParts>, end: CancellationToken) {
    let mut ticks = interval(CLOCK_READ_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_stored = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        parts.clock.now();
        if last_stored.elapsed() < RUN_TIME_INTERVAL {
            continue;
        }
        last_stored = Instant::now();
        let heartbeats = parts.running_jobs.heartbeats();
        if heartbeats.is_empty() {
            continue;
        }
        if let Err(error) = parts.jobs.beat(heartbeats).await {
            warn!(%error, "cannot store the run times of jobs");
        }
    }
}

/// How often the disk is checked.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Retries requeueing the last server's jobs that [`recover`](crate::recovery::recover) could not
/// requeue, and creates the disk reserve again when there is enough space.
pub(crate) async fn maintain_disk_reserve(parts: Arc<ServerParts>, end: CancellationToken) {
    let mut ticks = interval(DISK_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        retry_recovery(&parts).await;
        let own = parts.clone();
        // Creating the file may block.
        let refilled = tokio::task::spawn_blocking(move || own.disk.refill());
        if refilled.await.is_err() {
            warn!("cannot check the disk reserve");
        }
    }
}

/// How often the parked time of jobs is stored. Time since the last update is lost when the server
/// dies; time in which no server runs does not count.
const PARKED_TIME_INTERVAL: Duration = Duration::from_secs(60);

/// Adds up how long jobs are parked, until `end`. Measured with a monotonic clock, because the wall
/// clock may jump.
pub(crate) async fn store_parked_time(parts: Arc<ServerParts>, end: CancellationToken) {
    let longest = parts.config.outages.longest_parked;
    let tick = PARKED_TIME_INTERVAL
        .min(longest / 4)
        .max(Duration::from_millis(50));
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counted = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = end.cancelled() => return,
        }
        let now = Instant::now();
        match add_parked_time(&parts, now - counted).await {
            Ok(()) => counted = now,
            Err(error) => warn!(%error, "cannot store the parked time of jobs"),
        }
    }
}

async fn add_parked_time(parts: &ServerParts, passed: Duration) -> Result<(), StoreError> {
    if parts.jobs.parked().await? == 0 {
        return Ok(());
    }
    parts.jobs.add_parked_time(passed).await?;
    // A job may have reached its limit, and gets its last try now.
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
        watch.resume();
        tokio::time::advance(Duration::from_secs(1)).await;
        watch.resume();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(watch.millis(), 17_000);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_was_stopped_does_not_count() {
        let clock = Arc::new(AwakeClock::start());
        let watch = Stopwatch::start(clock.clone(), Duration::ZERO);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Duration::from_secs(2));
        // As seen by a process that was stopped for an hour.
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now(), Duration::from_secs(2));
        assert_eq!(watch.elapsed(), Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(watch.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_is_extended_by_a_stop_of_the_server() {
        let clock = Arc::new(AwakeClock::start());
        let sleeper = clock.clone();
        let sleeping =
            tokio::spawn(async move { sleeper.sleep_until(Duration::from_secs(4)).await });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::task::yield_now().await;
        assert!(!sleeping.is_finished());
        // From here on, paused time advances automatically to the next timer.
        sleeping.await.unwrap();
        assert_eq!(clock.now(), Duration::from_secs(4));
    }
}
