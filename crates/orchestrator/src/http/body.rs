//! The body of a request on its way in: never more than it may be, never slower.
//!
//! A body is bounded before anybody reads it, whoever that is. Keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

/// How long a body may send nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a body that is too large which are still taken, so that its sender gets the answer.
const POURED_AWAY: usize = 16 << 20;

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the body stopped coming")]
    TooSlow,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Incoming {
    body: BodyDataStream,
    limit: u64,
    left: u64,
    end: End,
}

/// Whether a body was read to its end. A connection with an unread rest cannot be used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct End(Arc<AtomicBool>);

impl End {
    pub(crate) fn of(body: &Body) -> Self {
        Self(Arc::new(AtomicBool::new(body.is_end_stream())))
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The same body, which fails when it is too large or too slow, and notes its end.
pub(crate) fn bound(body: Body, limit: u64, end: End) -> Body {
    let incoming = Incoming {
        body: body.into_data_stream(),
        limit,
        left: limit,
        end,
    };
    let pieces = stream::try_unfold(incoming, |mut incoming| async move {
        let piece = incoming.next().await?;
        Ok::<_, BoxError>(piece.map(|piece| (piece, incoming)))
    });
    Body::from_stream(pieces)
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let Ok(piece) = timeout(PATIENCE, self.body.next()).await else {
            return Err(Box::new(BodyError::TooSlow));
        };
        let Some(piece) = piece.transpose()? else {
            self.end.0.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        match self.left.checked_sub(piece.len() as u64) {
            Some(left) => self.left = left,
            None => {
                self.pour_away().await;
                return Err(Box::new(BodyError::TooLarge { limit: self.limit }));
            }
        }
        Ok(Some(piece))
    }

    /// Takes some more of a body that is refused. Whoever still sends when the connection closes
    /// learns only that it broke, not why.
    async fn pour_away(&mut self) {
        let mut room = POURED_AWAY;
        while let Ok(Some(Ok(piece))) = timeout(PATIENCE, self.body.next()).await {
            match room.checked_sub(piece.len()) {
                Some(left) => room = left,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;
    use crate::http::problem::{Kind, Problem};

    async fn read(body: Body, limit: u64) -> Result<usize, Kind> {
        let end = End::of(&body);
        let read = match to_bytes(bound(body, limit, end.clone()), usize::MAX).await {
            Ok(bytes) => Ok(bytes.len()),
            Err(error) => Err(Problem::of_body(&error).kind),
        };
        assert_eq!(end.is_reached(), read.is_ok());
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_bounds() {
        assert_eq!(read(Body::from("12345"), 5).await, Ok(5));
        assert_eq!(read(Body::from("123456"), 5).await, Err(Kind::TooLarge));
        assert_eq!(read(Body::empty(), 0).await, Ok(0));
        let silent = stream::once(async { Ok::<_, BoxError>(Bytes::from_static(b"1")) })
            .chain(stream::pending());
        assert_eq!(read(Body::from_stream(silent), 5).await, Err(Kind::Timeout));
    }
}
