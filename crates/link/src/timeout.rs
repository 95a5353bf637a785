//! A timeout that tolerates the suspension of this process.

use std::future::Future;
use std::time::Duration;

/// Number of slices that a timeout is divided into.
const TIMEOUT_SLICES: u32 = 12;

/// Runs `future` with a timeout of `limit`, and returns `limit` as the error when it has passed. The
/// timeout runs as consecutive slices: while this process is suspended, alone or with its machine, at
/// most one slice expires, and the peer has the remaining ones to answer.
pub async fn suspend_tolerant_timeout<F: Future>(
    limit: Duration,
    future: F,
) -> Result<F::Output, Duration> {
    let mut future = std::pin::pin!(future);
    for _ in 0..TIMEOUT_SLICES {
        if let Ok(output) = tokio::time::timeout(limit / TIMEOUT_SLICES, &mut future).await {
            return Ok(output);
        }
    }
    Err(limit)
}
