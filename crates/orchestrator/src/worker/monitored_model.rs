//! A model that reports the result of each request to the provider's breaker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use llm::{Model, ModelError, ModelReply, ModelRequest, ReplyEvent};
use protocol::job::JobId;

use crate::parts::ServerParts;

/// The wait that the provider requested at its last failure.
pub(super) type SharedRetryAfter = Arc<Mutex<Option<Duration>>>;

#[derive(Debug)]
pub(super) struct MonitoredModel {
    pub(super) model: Arc<dyn Model>,
    pub(super) parts: Arc<ServerParts>,
    pub(super) provider: String,
    pub(super) job: JobId,
    pub(super) requested_wait: SharedRetryAfter,
}

impl MonitoredModel {
    fn record_reply(&self, reply: &Result<ModelReply, ModelError>) {
        let breakers = &self.parts.breakers;
        let failure = reply.as_ref().err().filter(|error| error.is_retryable());
        let asked = failure.and_then(|error| error.retry_after);
        *self
            .requested_wait
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = asked;
        if failure.is_some() {
            breakers.failed(&self.provider, self.job);
        } else if breakers.answered(&self.provider) {
            self.parts.loads.wake_deferred();
        }
    }
}

impl Model for MonitoredModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_event: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let reply = self.model.reply(request, on_event).await;
            self.record_reply(&reply);
            reply
        })
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.model.count(request)
    }
}
