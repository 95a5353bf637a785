//! Delivers the ends of jobs to webhooks, with retries.
//!
//! A delivery may arrive twice if the server dies in between; its number is then the same. Sends
//! only to public addresses, unless the configuration allows others; the address that was checked
//! is the one that is connected to. Follows no redirects and ignores response bodies. Owners take
//! turns, and an endpoint that does not respond delays no other: see [`lanes`].

mod lanes;
mod post;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use store::StoreError;
use store::jobs::{DueDelivery, Jobs, Tried};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::lanes::{Admission, Endpoint, Lanes, MAX_PER_OWNER};
use self::post::{Failed, Poster};
use crate::parts::chain;

/// Delay after each failure; after the last one the delivery is given up.
const WAITS: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
];

/// Due deliveries of one owner that are loaded. Deliveries in progress are still due and come
/// first.
const LOOKED_AT_PER_OWNER: u32 = 2 * MAX_PER_OWNER as u32;

/// Due deliveries that are loaded in total.
const LOOKED_AT: u32 = 4_096;

/// Maximum time between checks of the store, whatever the clock did meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Delay after a store error.
const PAUSE: Duration = Duration::from_secs(5);

/// Maximum bytes of a stored error.
const MAX_ERROR: usize = 500;

/// Delivers to webhooks until `end`. `wake` is notified when there may be a new delivery.
pub(crate) async fn run(
    jobs: Jobs,
    wake: Arc<Notify>,
    allows_private: bool,
    end: CancellationToken,
) {
    let mut deliverer = Deliverer {
        jobs,
        poster: Arc::new(Poster::new(allows_private)),
        lanes: Lanes::default(),
        under_way: JoinSet::new(),
        held: HashMap::new(),
    };
    loop {
        let sleep = match deliverer.begin().await {
            Ok(sleep) => sleep,
            Err(error) => {
                warn!(error = %chain(&error), "cannot look for due webhooks");
                PAUSE
            }
        };
        tokio::select! {
            () = end.cancelled() => break,
            () = wake.notified() => {}
            () = tokio::time::sleep(sleep) => {}
            Some(ended) = deliverer.under_way.join_next_with_id() => deliverer.end(ended),
        }
    }
    deliverer.under_way.shutdown().await;
}

/// The deliveries in progress, and their limits.
struct Deliverer {
    jobs: Jobs,
    poster: Arc<Poster>,
    lanes: Lanes,
    under_way: JoinSet<Ended>,
    /// The deliveries in progress, by task.
    held: HashMap<tokio::task::Id, (i64, Endpoint)>,
}

/// The result of a try.
struct Ended {
    failed: bool,
    took: Duration,
}

impl Deliverer {
    /// Starts due deliveries. Returns how long to sleep if nothing else happens.
    async fn begin(&mut self) -> Result<Duration, StoreError> {
        loop {
            let now = Timestamp::now();
            let due = self.jobs.due(now, LOOKED_AT_PER_OWNER, LOOKED_AT).await?;
            let mut skipped = 0;
            for delivery in due {
                if self.is_held(delivery.number) {
                    continue;
                }
                let endpoint = Endpoint::new(&delivery.owner, &delivery.url);
                match self.lanes.admit(&endpoint, Instant::now()) {
                    Admission::Wait => {}
                    Admission::Try(patience) => self.spawn(delivery, endpoint, patience),
                    Admission::Skip => {
                        let failed = Failed::for_now(
                            "not tried: the endpoint did not answer several times in a row",
                        );
                        let tried = outcome(&delivery, Err(failed));
                        self.jobs.tried(delivery.number, tried, now).await?;
                        skipped += 1;
                    }
                }
            }
            // More deliveries may be due after the skipped ones.
            if skipped == 0 {
                let next = self.jobs.next_due(now).await?;
                let until = next.map(|next| Duration::try_from(next.duration_since(now)));
                let until = until.map_or(LONGEST_SLEEP, Result::unwrap_or_default);
                return Ok(until.min(LONGEST_SLEEP));
            }
        }
    }

    fn is_held(&self, number: i64) -> bool {
        self.held.values().any(|(held, _)| *held == number)
    }

    fn spawn(&mut self, delivery: DueDelivery, endpoint: Endpoint, patience: Duration) {
        let number = delivery.number;
        let jobs = self.jobs.clone();
        let poster = Arc::clone(&self.poster);
        let task = self
            .under_way
            .spawn(deliver(jobs, poster, delivery, patience));
        self.held.insert(task.id(), (number, endpoint));
    }

    fn end(&mut self, ended: Result<(tokio::task::Id, Ended), tokio::task::JoinError>) {
        let (task, ended) = match ended {
            Ok(ended) => ended,
            // The task panicked: the delivery is still due and is tried again.
            Err(error) => {
                let ended = Ended {
                    failed: true,
                    took: Duration::ZERO,
                };
                (error.id(), ended)
            }
        };
        if let Some((_, endpoint)) = self.held.remove(&task) {
            self.lanes.ended(&endpoint, ended.failed, ended.took);
        }
    }
}

/// Tries once and stores the result.
async fn deliver(
    jobs: Jobs,
    poster: Arc<Poster>,
    delivery: DueDelivery,
    patience: Duration,
) -> Ended {
    let begun = Instant::now();
    let attempt = timeout(patience, attempt(&jobs, &poster, &delivery));
    let attempt = attempt.await.unwrap_or_else(|_| {
        let seconds = patience.as_secs();
        Err(Failed::for_now(format!("no answer within {seconds} s")))
    });
    let ended = Ended {
        failed: attempt.is_err(),
        took: begun.elapsed(),
    };
    let job = delivery.job;
    let tried = outcome(&delivery, attempt);
    // On failure the delivery is still due; the delay prevents a busy loop.
    if let Err(error) = jobs.tried(delivery.number, tried, Timestamp::now()).await {
        warn!(%job, error = %chain(&error), "cannot store the result of a webhook delivery");
        tokio::time::sleep(PAUSE).await;
    }
    ended
}

/// The stored result of a try.
fn outcome(delivery: &DueDelivery, attempt: Result<(), Failed>) -> Tried {
    let DueDelivery { job, tries, .. } = delivery;
    let Failed { reason, is_final } = match attempt {
        Ok(()) => {
            info!(%job, "webhook delivered");
            return Tried::Delivered;
        }
        Err(failed) => failed,
    };
    let wait = usize::try_from(*tries)
        .ok()
        .and_then(|tries| WAITS.get(tries))
        .filter(|_| !is_final);
    warn!(%job, tries = tries + 1, gives_up = wait.is_none(), %reason, "webhook delivery failed");
    let mut error: String = reason.chars().filter(|c| !c.is_control()).collect();
    error.truncate(error.floor_char_boundary(MAX_ERROR));
    match wait {
        Some(wait) => Tried::Again {
            at: Timestamp::now() + *wait,
            error,
        },
        None => Tried::Failed { error },
    }
}

async fn attempt(jobs: &Jobs, poster: &Poster, due: &DueDelivery) -> Result<(), Failed> {
    let failed = |error: StoreError| Failed::for_now(chain(&error));
    let job = jobs.job(due.job).await.map_err(failed)?;
    let webhook = job.and_then(|job| job.request.webhook);
    let webhook = webhook.ok_or_else(|| Failed::for_ever("the job has no webhook"))?;
    let delivery = jobs.delivery(due.number).await.map_err(failed)?;
    let delivery = delivery.ok_or_else(|| Failed::for_ever("there is nothing to tell"))?;
    poster.post(&webhook, &delivery).await
}
