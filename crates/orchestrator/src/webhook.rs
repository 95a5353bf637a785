//! Tells webhooks of the ends of jobs, again and again until they hear.
//!
//! A webhook may hear of the same end twice, if the server dies in between: the delivery's number
//! is the same. Goes only to public addresses, unless the server's owner allows others; the address
//! that was looked at is the one that is connected to. Follows no redirect and reads no answer.

mod post;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use store::StoreError;
use store::jobs::{Delivery, Jobs};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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

/// Webhooks that are told at the same time.
const AT_ONCE: usize = 16;

/// The store is looked at again after this time at the latest, whatever the clock did meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// After a failure of the store.
const PAUSE: Duration = Duration::from_secs(5);

/// Tells webhooks until the end. `wake` says that there may be something new to tell.
pub(crate) async fn run(
    jobs: Jobs,
    wake: Arc<Notify>,
    allows_private: bool,
    end: CancellationToken,
) {
    let poster = Arc::new(Poster::new(allows_private));
    let mut under_way = JoinSet::new();
    let mut held = HashSet::new();
    loop {
        let sleep = match begin(&jobs, &poster, &mut under_way, &mut held).await {
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
            Some(ended) = under_way.join_next() => {
                match ended {
                    Ok(number) => { held.remove(&number); }
                    // Nothing is known of which one it was; those that are due come again.
                    Err(_) => held.clear(),
                }
            }
        }
    }
    under_way.shutdown().await;
}

/// Begins what is due, and says when to look again if nothing happens.
async fn begin(
    jobs: &Jobs,
    poster: &Arc<Poster>,
    under_way: &mut JoinSet<i64>,
    held: &mut HashSet<i64>,
) -> Result<Duration, StoreError> {
    let now = Timestamp::now();
    // Those under way are still due, and come first.
    let limit = u32::try_from(held.len() + AT_ONCE).unwrap_or(u32::MAX);
    for delivery in jobs.due(now, limit).await? {
        if under_way.len() >= AT_ONCE {
            return Ok(LONGEST_SLEEP);
        }
        if held.insert(delivery.number) {
            under_way.spawn(deliver(jobs.clone(), Arc::clone(poster), delivery));
        }
    }
    let next = jobs.next_due(now).await?;
    let until = next.map(|next| Duration::try_from(next.duration_since(now)));
    let until = until.map_or(LONGEST_SLEEP, Result::unwrap_or_default);
    Ok(until.min(LONGEST_SLEEP))
}

/// Tries once, and writes down what became of it.
async fn deliver(jobs: Jobs, poster: Arc<Poster>, delivery: Delivery) -> i64 {
    let number = delivery.number;
    let (job, tries) = (delivery.job, delivery.tries);
    let again = match attempt(&jobs, &poster, delivery).await {
        Ok(()) => {
            info!(%job, "webhook told");
            None
        }
        Err(Failed { reason, is_final }) => {
            let wait = usize::try_from(tries)
                .ok()
                .and_then(|tries| WAITS.get(tries))
                .filter(|_| !is_final);
            warn!(%job, tries = tries + 1, gives_up = wait.is_none(), %reason, "webhook not told");
            wait.map(|wait| Timestamp::now() + *wait)
        }
    };
    // If that fails it is simply due again; a pause keeps it from being told without end.
    if let Err(error) = jobs.tried(number, again).await {
        warn!(%job, error = %chain(&error), "cannot write down that a webhook was tried");
        tokio::time::sleep(PAUSE).await;
    }
    number
}

async fn attempt(jobs: &Jobs, poster: &Poster, delivery: Delivery) -> Result<(), Failed> {
    let job = match jobs.job(delivery.job).await {
        Ok(job) => job,
        Err(error) => return Err(Failed::for_now(chain(&error))),
    };
    let webhook = job.and_then(|job| job.request.webhook);
    let webhook = webhook.ok_or_else(|| Failed::for_ever("the job has no webhook"))?;
    poster.post(&webhook, &delivery).await
}
