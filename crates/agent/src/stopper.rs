//! Stops a turn once; the first cause given is kept.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopCause {
    Interrupted,
    OutOfTime,
}

#[derive(Debug, Default)]
pub(crate) struct TurnStopper {
    token: CancellationToken,
    cause: OnceLock<StopCause>,
}

impl TurnStopper {
    pub(crate) fn stop(&self, cause: StopCause) {
        // The first cause is the real one.
        let _ = self.cause.set(cause);
        self.token.cancel();
    }

    /// Why the turn is to stop, if it is.
    pub(crate) fn cause(&self) -> Option<StopCause> {
        self.cause.get().copied()
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}
