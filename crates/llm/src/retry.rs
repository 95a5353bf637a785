//! Retries failed requests after a delay. [`RetryPolicy::delay`] decides, [`RetryingModel`] waits.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::sleep;
use tracing::debug;

use crate::error::ModelError;
use crate::model::{Model, ModelReply, ModelRequest, ReplyEvent};

/// How often a request is sent, and the delays in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Total number of attempts, including the first.
    pub tries: u32,
    /// Delay before the second attempt. Doubled before each further one.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    /// The longest delay that a provider may ask for. If it asks for more, the request fails at
    /// once, so that the user is not kept waiting.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 6,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            longest_asked: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// The delay after the `attempt`th failure, counted from 1; `None` to give up. `random` is from
    /// 0 to 1. A delay that the provider asks for is used exactly; any other delay is spread over
    /// its upper half, so that many clients do not retry at the same time.
    pub fn delay(&self, attempt: u32, error: &ModelError, random: f64) -> Option<Duration> {
        if !error.is_retryable() || attempt >= self.tries {
            return None;
        }
        if let Some(asked) = error.retry_after {
            return (asked <= self.longest_asked).then_some(asked);
        }
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.first_wait.saturating_mul(doubled);
        let full = full.min(self.longest_wait);
        Some(full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0))
    }

    /// The error, with the reason for giving up added where it is not obvious.
    fn final_error(&self, attempt: u32, mut error: ModelError) -> ModelError {
        let asked = error
            .retry_after
            .filter(|asked| *asked > self.longest_asked);
        if !error.is_retryable() {
            return error;
        }
        error.message = match asked {
            Some(asked) => format!(
                "{}; the provider asks to wait {} s, more than the limit of {} s",
                error.message,
                asked.as_secs_f64().ceil(),
                self.longest_asked.as_secs()
            ),
            None if attempt > 1 => format!("{}; tried {attempt} times", error.message),
            None => error.message,
        };
        error
    }
}

/// A model that retries temporary failures. An interrupted reply is discarded entirely, which is
/// safe because tools run only after a complete reply.
#[derive(Debug)]
pub struct RetryingModel<M> {
    model: M,
    patience: RetryPolicy,
}

impl<M: Model> RetryingModel<M> {
    pub fn new(model: M, patience: RetryPolicy) -> Self {
        Self { model, patience }
    }
}

impl<M: Model> Model for RetryingModel<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let mut attempt = 1;
            loop {
                let error = match self.model.reply(request, hear).await {
                    Ok(reply) => return Ok(reply),
                    Err(error) => error,
                };
                let Some(wait) = self.patience.delay(attempt, &error, fastrand::f64()) else {
                    return Err(self.patience.final_error(attempt, error));
                };
                debug!(attempt, ?wait, kind = ?error.kind, "request failed");
                hear(ReplyEvent::Retrying {
                    attempt,
                    wait,
                    reason: &error,
                });
                sleep(wait).await;
                attempt += 1;
            }
        }
        .boxed()
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.model.count(request)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;
    use crate::error::ModelErrorKind;
    use crate::script::{Script, ScriptedReply};
    use crate::scripted::ScriptedModel;

    const REQUEST: ModelRequest<'_> = ModelRequest {
        system: &[],
        tools: &[],
        messages: &[],
        max_tokens: 10,
    };

    fn failure(status: u16, headers: &[(&str, &str)]) -> ScriptedReply {
        let mut reply = ScriptedReply::error(status, "some_error", "sorry");
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        reply.error.as_mut().unwrap().headers = headers.collect();
        reply
    }

    fn retrying_model(replies: Vec<ScriptedReply>) -> RetryingModel<Arc<dyn Model>> {
        let script = Script {
            title: String::new(),
            replies,
        };
        RetryingModel::new(Arc::new(ScriptedModel::new(script)), RetryPolicy::default())
    }

    /// The pieces that were emitted, and the result.
    async fn ask(model: &dyn Model) -> (Vec<String>, Result<ModelReply, ModelError>) {
        let mut heard = Vec::new();
        let mut hear = |piece: ReplyEvent<'_>| match piece {
            ReplyEvent::Text(text) => heard.push(text.to_owned()),
            ReplyEvent::Used(_) => {}
            ReplyEvent::Retrying {
                attempt, reason, ..
            } => heard.push(format!("retrying {attempt}: {:?}", reason.kind)),
            other => panic!("{other:?}"),
        };
        let reply = model.reply(REQUEST, &mut hear).await;
        (heard, reply)
    }

    #[test]
    fn waits_double_up_to_a_limit_and_end() {
        let patience = RetryPolicy {
            tries: 10,
            ..RetryPolicy::default()
        };
        let error = ModelError::new(ModelErrorKind::Overloaded, "busy");
        let waits = |random: f64| {
            let delay = |attempt| patience.delay(attempt, &error, random);
            (1..=10)
                .map(|attempt| delay(attempt).map(|wait| wait.as_millis()))
                .collect::<Vec<_>>()
        };
        let expected = [
            500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
        ];
        let mut most: Vec<Option<u128>> = expected.map(Some).to_vec();
        most.push(None);
        assert_eq!(waits(1.0), most);
        let least: Vec<Option<u128>> = most.iter().map(|wait| wait.map(|wait| wait / 2)).collect();
        assert_eq!(waits(0.0), least);
        assert_eq!(
            RetryPolicy::default().delay(u32::MAX - 1, &error, 1.0),
            None,
            "no overflow either"
        );
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        fn check(kind: ModelErrorKind, said: Option<bool>, expect: bool) {
            let error = ModelError {
                should_retry: said,
                ..ModelError::new(kind, "no")
            };
            let delay = RetryPolicy::default().delay(1, &error, 0.5);
            assert_eq!(delay.is_some(), expect, "{kind:?} {said:?}");
        }
        for kind in [
            ModelErrorKind::RateLimit,
            ModelErrorKind::Overloaded,
            ModelErrorKind::Server,
            ModelErrorKind::Network,
            ModelErrorKind::Stream,
        ] {
            check(kind, None, true);
            check(kind, Some(false), false);
        }
        for kind in [
            ModelErrorKind::Key,
            ModelErrorKind::NotFound,
            ModelErrorKind::Request,
            ModelErrorKind::TooLong,
        ] {
            check(kind, None, false);
            check(kind, Some(true), true);
        }
    }

    #[test]
    fn what_a_provider_asks_for_is_kept_exactly() {
        fn check(asked: u64, expect: Option<u64>) {
            let error = ModelError {
                retry_after: Some(Duration::from_secs(asked)),
                ..ModelError::new(ModelErrorKind::RateLimit, "slow down")
            };
            for random in [0.0, 0.3, 1.0] {
                let delay = RetryPolicy::default().delay(3, &error, random);
                assert_eq!(delay, expect.map(Duration::from_secs));
            }
        }
        check(0, Some(0));
        check(1, Some(1));
        check(77, Some(77));
        check(120, Some(120));
        check(121, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_comes_after_failures() {
        let cut = ScriptedReply {
            cut_after: Some(4),
            ..ScriptedReply::text("one two three")
        };
        let model = retrying_model(vec![
            failure(529, &[]),
            cut,
            failure(429, &[("retry-after", "7")]),
            ScriptedReply::text("done"),
        ]);
        let begun = Instant::now();
        let (heard, reply) = ask(&model).await;
        assert_eq!(
            heard,
            [
                "retrying 1: Overloaded",
                "one ",
                "two ",
                "retrying 2: Stream",
                "retrying 3: RateLimit",
                "done"
            ]
        );
        assert_eq!(reply.unwrap().content[0].as_text(), Some("done"));
        let waited = begun.elapsed().as_millis();
        assert!((7_750..=8_500).contains(&waited), "{waited}");
        assert_eq!(model.name(), "scripted");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_limited() {
        let model = retrying_model(vec![failure(500, &[]); 9]);
        let (heard, reply) = ask(&model).await;
        assert_eq!(heard.len(), 5, "six tries: {heard:?}");
        let error = reply.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Server);
        assert!(error.message.ends_with("; tried 6 times"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_not_pass_is_said_at_once() {
        for (reply, words) in [
            (failure(400, &[]), "sorry"),
            (failure(429, &[("x-should-retry", "false")]), "sorry"),
            (
                failure(429, &[("retry-after", "300")]),
                "asks to wait 300 s",
            ),
        ] {
            let begun = Instant::now();
            let (heard, reply) = ask(&retrying_model(vec![reply])).await;
            assert!(heard.is_empty());
            let error = reply.unwrap_err();
            assert!(error.message.contains(words), "{error}");
            assert!(!error.message.contains("tried"), "{error}");
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
    }
}
