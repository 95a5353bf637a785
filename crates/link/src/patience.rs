//! A time limit that a stopped process does not use up.

use std::future::Future;
use std::time::Duration;

/// The limit is counted in so many slices.
const SLICES: u32 = 12;

/// Runs `future`, but no longer than `limit`, which comes back when it has passed. The limit is
/// counted in slices, one after the other: a process that was stopped meanwhile, by a person who
/// suspended it or with its machine, loses one slice at most, and the peer has the others to answer.
pub async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, Duration> {
    let mut future = std::pin::pin!(future);
    for _ in 0..SLICES {
        if let Ok(output) = tokio::time::timeout(limit / SLICES, &mut future).await {
            return Ok(output);
        }
    }
    Err(limit)
}
