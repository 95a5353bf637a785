//! Tells webhooks of the ends of jobs, again and again until they hear.
//!
//! A webhook may hear of the same end twice, if the server dies in between: the delivery's number
//! is the same. Goes only to public addresses, unless the server's owner allows others; the address
//! that was looked at is the one that is connected to. Follows no redirect and reads no answer.
//! Owners take turns, and an endpoint that does not answer holds up nobody else: see [`lanes`].

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

/// How long to wait after each failure; after the last one it is given up.
const WAITS: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
];

/// Deliveries of one owner that are looked at: those under way are still due, and come first.
const LOOKED_AT_PER_OWNER: u32 = 2 * MAX_PER_OWNER as u32;

/// Deliveries that are looked at.
const LOOKED_AT: u32 = 4_096;

/// The store is looked at again after this time at the latest, whatever the clock did meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// After a failure of the store.
const PAUSE: Duration = Duration::from_secs(5);

/// Bytes of a reason that are kept.
const MAX_ERROR: usize = 500;

/// Tells webhooks until the end. `wake` says that there may be something new to tell.
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
                warn!(error = %chain(&error), "cannot look for webhooks");
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

/// What is under way, and what may be.
struct Deliverer {
    jobs: Jobs,
    poster: Arc<Poster>,
    lanes: Lanes,
    under_way: JoinSet<Ended>,
    /// The deliveries under way, by their tasks.
    held: HashMap<tokio::task::Id, (i64, Endpoint)>,
}

/// How a try ended.
struct Ended {
    failed: bool,
    took: Duration,
}

impl Deliverer {
    /// Begins what is due, and says when to look again if nothing happens.
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
            // Behind those that were skipped there may be others.
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
            // It broke: it is still due, and comes again.
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

/// Tries once, and writes down what became of it.
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
    // If that fails it is simply due again; a pause keeps it from being told without end.
    if let Err(error) = jobs.tried(delivery.number, tried, Timestamp::now()).await {
        warn!(%job, error = %chain(&error), "cannot write down that a webhook was tried");
        tokio::time::sleep(PAUSE).await;
    }
    ended
}

/// What is kept of a try.
fn outcome(delivery: &DueDelivery, attempt: Result<(), Failed>) -> Tried {
    let DueDelivery { job, tries, .. } = delivery;
    let Failed { reason, is_final } = match attempt {
        Ok(()) => {
            info!(%job, "webhook told");
            return Tried::Delivered;
        }
        Err(failed) => failed,
    };
    let wait = usize::try_from(*tries)
        .ok()
        .and_then(|tries| WAITS.get(tries))
        .filter(|_| !is_final);
    warn!(%job, tries = tries + 1, gives_up = wait.is_none(), %reason, "webhook not told");
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
