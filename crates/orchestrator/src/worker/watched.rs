//! A model that reports the result of each request to the provider's breaker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use llm::{Model, ModelError, Piece, Reply, Request};
use protocol::job::JobId;

use crate::parts::Parts;

/// The wait that the provider requested at its last failure.
pub(super) type AskedWait = Arc<Mutex<Option<Duration>>>;

#[derive(Debug)]
pub(super) struct Watched {
    pub(super) model: Arc<dyn Model>,
    pub(super) parts: Arc<Parts>,
    pub(super) provider: String,
    pub(super) job: JobId,
    pub(super) asked_wait: AskedWait,
}

impl Watched {
    fn note(&self, reply: &Result<Reply, ModelError>) {
        let breakers = &self.parts.breakers;
        let failure = reply.as_ref().err().filter(|error| error.is_retryable());
        let asked = failure.and_then(|error| error.retry_after);
        *self
            .asked_wait
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = asked;
        if failure.is_some() {
            breakers.failed(&self.provider, self.job);
        } else if breakers.answered(&self.provider) {
            self.parts.loads.wake_deferred();
        }
    }
}

impl Model for Watched {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply<'a>(
        &'a self,
        request: Request<'a>,
        hear: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let reply = self.model.reply(request, hear).await;
            self.note(&reply);
            reply
        })
    }

    fn count<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.model.count(request)
    }
}
