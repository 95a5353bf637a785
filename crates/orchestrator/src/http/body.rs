//! Request bodies, limited in size and in time.
//!
//! The limits apply before a handler reads the body. Buffers nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout};

/// How long the server waits for each [`MIN_PROGRESS_BYTES`] bytes of a body, or for its end.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// With [`BODY_TIMEOUT`], a minimum rate of 3.2 KiB per second.
const MIN_PROGRESS_BYTES: u64 = 64 << 10;

/// Bytes of a too large body that are still read, so that the client receives the response.
const MAX_DISCARDED_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the head of a form's field is too large")]
    FieldHead,
    #[error("the body came too slowly")]
    TooSlow,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct LimitedBody {
    body: BodyDataStream,
    limit: u64,
    left: u64,
    pace: PaceLimit,
    end: BodyEnd,
}

/// Enforces a minimum rate. Counts only the time that the server waits for the body, not the time
/// that handlers take.
struct PaceLimit {
    /// Time waited for the current stretch.
    waited: Duration,
    missing: u64,
}

impl PaceLimit {
    fn new() -> Self {
        Self {
            waited: Duration::ZERO,
            missing: MIN_PROGRESS_BYTES,
        }
    }

    /// Waits for the next chunk of a body; an error if it comes too slowly.
    async fn next(
        &mut self,
        body: &mut BodyDataStream,
    ) -> Result<Option<Result<Bytes, axum::Error>>, BodyError> {
        let begun = Instant::now();
        let left = BODY_TIMEOUT.saturating_sub(self.waited);
        let piece = timeout(left, body.next()).await;
        let piece = piece.map_err(|_| BodyError::TooSlow)?;
        let bytes = match &piece {
            Some(Ok(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        match self.missing.checked_sub(bytes) {
            Some(missing) if missing > 0 => {
                self.missing = missing;
                self.waited += begun.elapsed();
            }
            _ => *self = Self::new(),
        }
        Ok(piece)
    }
}

/// Whether a body was read to its end. A connection with unread data cannot be reused.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyEnd(Arc<AtomicBool>);

impl BodyEnd {
    pub(crate) fn of(body: &Body) -> Self {
        Self(Arc::new(AtomicBool::new(body.is_end_stream())))
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Limits the size and time of a body, and records its end.
pub(crate) fn limit_body(body: Body, limit: u64, end: BodyEnd) -> Body {
    let incoming = LimitedBody {
        body: body.into_data_stream(),
        limit,
        left: limit,
        pace: PaceLimit::new(),
        end,
    };
    let pieces = stream::try_unfold(incoming, |mut incoming| async move {
        let piece = incoming.next().await?;
        Ok::<_, BoxError>(piece.map(|piece| (piece, incoming)))
    });
    Body::from_stream(pieces)
}

impl LimitedBody {
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let piece = self.pace.next(&mut self.body).await?;
        let Some(piece) = piece.transpose()? else {
            self.end.0.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        match self.left.checked_sub(piece.len() as u64) {
            Some(left) => self.left = left,
            None => {
                self.discard().await;
                return Err(Box::new(BodyError::TooLarge { limit: self.limit }));
            }
        }
        Ok(Some(piece))
    }

    /// Reads more of a refused body. A client that is still sending when the connection closes sees
    /// a broken connection instead of the response.
    async fn discard(&mut self) {
        let mut room = MAX_DISCARDED_BYTES;
        let read = async {
            while let Some(Ok(piece)) = self.body.next().await {
                match room.checked_sub(piece.len()) {
                    Some(left) => room = left,
                    None => return,
                }
            }
        };
        // A slower client gets no response.
        let _ = timeout(BODY_TIMEOUT, read).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;
    use crate::http::problem::{HttpProblem, ProblemKind};

    async fn read(body: Body, limit: u64) -> Result<usize, ProblemKind> {
        let end = BodyEnd::of(&body);
        let read = match to_bytes(limit_body(body, limit, end.clone()), usize::MAX).await {
            Ok(bytes) => Ok(bytes.len()),
            Err(error) => Err(HttpProblem::from_body_error(&error).kind),
        };
        assert_eq!(end.is_reached(), read.is_ok());
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_bounds() {
        assert_eq!(read(Body::from("12345"), 5).await, Ok(5));
        assert_eq!(
            read(Body::from("123456"), 5).await,
            Err(ProblemKind::TooLarge)
        );
        assert_eq!(read(Body::empty(), 0).await, Ok(0));
        let silent = stream::once(async { Ok::<_, BoxError>(Bytes::from_static(b"1")) })
            .chain(stream::pending());
        assert_eq!(
            read(Body::from_stream(silent), 5).await,
            Err(ProblemKind::Timeout)
        );
    }

    /// A body of `pieces` chunks of `bytes` each, with a pause before each.
    fn dripping(pieces: u32, bytes: usize, pause: Duration) -> Body {
        Body::from_stream(stream::iter(0..pieces).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, BoxError>(Bytes::from(vec![0; bytes]))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_cut_off_and_a_steady_one_is_not() {
        let (second, limit) = (Duration::from_secs(1), 1 << 30);
        let begun = Instant::now();
        let slow = read(dripping(1_000, 1, second), limit).await;
        assert_eq!(slow, Err(ProblemKind::Timeout));
        assert_eq!(begun.elapsed(), BODY_TIMEOUT);
        // 4 KiB per second, for much longer than the timeout.
        let steady = read(dripping(1_000, 4 << 10, second), limit).await;
        assert_eq!(steady, Ok(4_096_000));
        // A fast start earns no extra time for the rest.
        let fast = Body::from(vec![0; 8 << 20]).into_data_stream();
        let rest = dripping(1_000, 1, second).into_data_stream();
        let begun = Instant::now();
        let body = Body::from_stream(fast.chain(rest));
        assert_eq!(read(body, limit).await, Err(ProblemKind::Timeout));
        assert_eq!(begun.elapsed(), BODY_TIMEOUT);
        // A too large body does not hold its connection either.
        let begun = Instant::now();
        let large = read(dripping(1_000, 10, second), 5).await;
        assert_eq!(large, Err(ProblemKind::TooLarge));
        assert!(begun.elapsed() <= BODY_TIMEOUT + second);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_handler_takes_is_not_counted() {
        let body = dripping(100, 1 << 10, Duration::from_millis(100));
        let end = BodyEnd::of(&body);
        let mut pieces = limit_body(body, 1 << 20, end).into_data_stream();
        let mut count = 0;
        while let Some(piece) = pieces.next().await {
            count += piece.unwrap().len();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        assert_eq!(count, 100 << 10);
    }
}
