//! Delivers the ends of jobs to webhooks, with retries.
//!
//! A delivery may arrive twice if the server dies in between; its number is then the same. Sends
//! only to public addresses, unless the configuration allows others; the address that was checked
//! is the one that is connected to. Follows no redirects and ignores response bodies. Owners take
//! turns, and an endpoint that does not respond delays no other: see [`limiter`].

mod limiter;
mod post;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use store::StoreError;
use store::jobs::{DeliveryAttempt, DueDelivery, JobStore};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::limiter::{DeliveryDecision, DeliveryLimiter, Endpoint, MAX_PER_OWNER};
use self::post::{DeliveryFailure, WebhookClient};
use crate::parts::chain;

/// Delay after each failure; after the last one the delivery is given up.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
];

/// Due deliveries of one owner that are loaded. Deliveries in progress are still due and come
/// first.
const MAX_DUE_PER_OWNER: u32 = 2 * MAX_PER_OWNER as u32;

/// Due deliveries that are loaded in total.
const MAX_DUE: u32 = 4_096;

/// Maximum time between checks of the store, whatever the clock did meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(600);

/// Delay after a store error.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Maximum bytes of a stored error.
const MAX_ERROR_BYTES: usize = 500;

/// Delivers to webhooks until `end`. `wake` is notified when there may be a new delivery.
pub(crate) async fn run(
    jobs: JobStore,
    wake: Arc<Notify>,
    allows_private: bool,
    end: CancellationToken,
) {
    let mut deliverer = Deliverer {
        jobs,
        poster: Arc::new(WebhookClient::new(allows_private)),
        limiter: DeliveryLimiter::default(),
        under_way: JoinSet::new(),
        held: HashMap::new(),
    };
    loop {
        let sleep = match deliverer.begin().await {
            Ok(sleep) => sleep,
            Err(error) => {
                warn!(error = %chain(&error), "cannot look for due webhooks");
                STORE_RETRY_DELAY
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
    jobs: JobStore,
    poster: Arc<WebhookClient>,
    limiter: DeliveryLimiter,
    under_way: JoinSet<AttemptResult>,
    /// The deliveries in progress, by task.
    held: HashMap<tokio::task::Id, (i64, Endpoint)>,
}

/// The result of a try.
struct AttemptResult {
    failed: bool,
    took: Duration,
}

impl Deliverer {
    /// Starts due deliveries. Returns how long to sleep if nothing else happens.
    async fn begin(&mut self) -> Result<Duration, StoreError> {
        loop {
            let now = Timestamp::now();
            let due = self.jobs.due(now, MAX_DUE_PER_OWNER, MAX_DUE).await?;
            let mut skipped = 0;
            for delivery in due {
                if self.is_in_flight(delivery.number) {
                    continue;
                }
                let endpoint = Endpoint::new(&delivery.owner, &delivery.url);
                match self.limiter.admit(&endpoint, Instant::now()) {
                    DeliveryDecision::Wait => {}
                    DeliveryDecision::Try(time_limit) => self.spawn(delivery, endpoint, time_limit),
                    DeliveryDecision::Skip => {
                        let failed = DeliveryFailure::for_now(
                            "not tried: the endpoint did not answer several times in a row",
                        );
                        let tried = stored_result(&delivery, Err(failed));
                        self.jobs.tried(delivery.number, tried, now).await?;
                        skipped += 1;
                    }
                }
            }
            // More deliveries may be due after the skipped ones.
            if skipped == 0 {
                let next = self.jobs.next_delivery_due(now).await?;
                let until = next.map(|next| Duration::try_from(next.duration_since(now)));
                let until = until.map_or(MAX_SLEEP, Result::unwrap_or_default);
                return Ok(until.min(MAX_SLEEP));
            }
        }
    }

    fn is_in_flight(&self, number: i64) -> bool {
        self.held.values().any(|(held, _)| *held == number)
    }

    fn spawn(&mut self, delivery: DueDelivery, endpoint: Endpoint, time_limit: Duration) {
        let number = delivery.number;
        let jobs = self.jobs.clone();
        let poster = Arc::clone(&self.poster);
        let task = self
            .under_way
            .spawn(deliver(jobs, poster, delivery, time_limit));
        self.held.insert(task.id(), (number, endpoint));
    }

    fn end(&mut self, ended: Result<(tokio::task::Id, AttemptResult), tokio::task::JoinError>) {
        let (task, ended) = match ended {
            Ok(ended) => ended,
            // The task panicked: the delivery is still due and is tried again.
            Err(error) => {
                let ended = AttemptResult {
                    failed: true,
                    took: Duration::ZERO,
                };
                (error.id(), ended)
            }
        };
        if let Some((_, endpoint)) = self.held.remove(&task) {
            self.limiter.ended(&endpoint, ended.failed, ended.took);
        }
    }
}

/// Tries once and stores the result.
async fn deliver(
    jobs: JobStore,
    poster: Arc<WebhookClient>,
    delivery: DueDelivery,
    time_limit: Duration,
) -> AttemptResult {
    let begun = Instant::now();
    let attempt = timeout(time_limit, attempt(&jobs, &poster, &delivery));
    let attempt = attempt.await.unwrap_or_else(|_| {
        let seconds = time_limit.as_secs();
        Err(DeliveryFailure::for_now(format!(
            "no answer within {seconds} s"
        )))
    });
    let ended = AttemptResult {
        failed: attempt.is_err(),
        took: begun.elapsed(),
    };
    let job = delivery.job;
    let tried = stored_result(&delivery, attempt);
    // On failure the delivery is still due; the delay prevents a busy loop.
    if let Err(error) = jobs.tried(delivery.number, tried, Timestamp::now()).await {
        warn!(%job, error = %chain(&error), "cannot store the result of a webhook delivery");
        tokio::time::sleep(STORE_RETRY_DELAY).await;
    }
    ended
}

/// The stored result of a try.
fn stored_result(delivery: &DueDelivery, attempt: Result<(), DeliveryFailure>) -> DeliveryAttempt {
    let DueDelivery { job, tries, .. } = delivery;
    let DeliveryFailure { reason, is_final } = match attempt {
        Ok(()) => {
            info!(%job, "webhook delivered");
            return DeliveryAttempt::Delivered;
        }
        Err(failed) => failed,
    };
    let wait = usize::try_from(*tries)
        .ok()
        .and_then(|tries| RETRY_DELAYS.get(tries))
        .filter(|_| !is_final);
    warn!(%job, tries = tries + 1, gives_up = wait.is_none(), %reason, "webhook delivery failed");
    let mut error: String = reason.chars().filter(|c| !c.is_control()).collect();
    error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
    match wait {
        Some(wait) => DeliveryAttempt::Again {
            at: Timestamp::now() + *wait,
            error,
        },
        None => DeliveryAttempt::Failed { error },
    }
}

async fn attempt(
    jobs: &JobStore,
    poster: &WebhookClient,
    due: &DueDelivery,
) -> Result<(), DeliveryFailure> {
    let failed = |error: StoreError| DeliveryFailure::for_now(chain(&error));
    let job = jobs.job(due.job).await.map_err(failed)?;
    let webhook = job.and_then(|job| job.request.webhook);
    let webhook = webhook.ok_or_else(|| DeliveryFailure::permanent("the job has no webhook"))?;
    let delivery = jobs.delivery(due.number).await.map_err(failed)?;
    let delivery =
        delivery.ok_or_else(|| DeliveryFailure::permanent("there is nothing to tell"))?;
    poster.post(&webhook, &delivery).await
}
