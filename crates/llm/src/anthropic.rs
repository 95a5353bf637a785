//! Anthropic's Messages API, and servers that speak it.
//!
//! Sends requests and reads replies. [`body`] serialises a request, [`stream`] assembles a reply. A
//! failed request is retried by [`crate::RetryingModel`], not here, with one exception: a request whose
//! thinking mode is refused is sent again with the other mode. Entry type: [`Anthropic`].

mod body;
mod event;
pub(crate) mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::Deserialize;
use tokio::time::timeout;
use tracing::debug;

use crate::anthropic::body::{BodyPurpose, MessagesBody, ThinkingMode};
use crate::anthropic::stream::MessageStream;
use crate::calls::CallIds;
use crate::error::{ModelError, ModelErrorKind};
use crate::estimate::{Calibration, estimate};
use crate::events::{EventReader, read_body, unexpected_body_error};
use crate::http::{HttpClient, KeyHeader, ProviderRoute, endpoint};
use crate::message_cache::MessageCache;
use crate::model::{Model, ModelReply, ModelRequest, ReplyEvent};

/// Time limit for the service's token count. After it, the count is estimated.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct AnthropicConfig {
    /// The model's name in Hotcell.
    pub name: String,
    /// The model's name at the service.
    pub model: String,
    /// With or without `/v1` and a trailing slash.
    pub base_url: String,
    pub api_key: SecretString,
    /// Tokens that the model may use for thinking before it answers; `None` for no thinking.
    /// Ignored by models that set their own budget.
    pub thinking_budget: Option<u32>,
    /// Names for the `anthropic-beta` header.
    pub betas: Vec<String>,
    /// Proxy URL. May contain a password.
    pub proxy: Option<SecretString>,
    pub connect_limit: Duration,
    /// Maximum time without receiving anything, not even a ping.
    pub silence_limit: Duration,
}

impl AnthropicConfig {
    /// Settings for Anthropic's own service, without thinking.
    pub fn new(model: impl Into<String>, api_key: SecretString) -> Self {
        let model = model.into();
        Self {
            name: model.clone(),
            model,
            base_url: "https://api.anthropic.com".to_owned(),
            api_key,
            thinking_budget: None,
            betas: Vec::new(),
            proxy: None,
            connect_limit: Duration::from_secs(10),
            silence_limit: Duration::from_secs(90),
        }
    }
}

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    name: String,
    model: String,
    messages: Url,
    count_tokens: Url,
    http: HttpClient,
    thinking_budget: Option<u32>,
    /// The service reported that this model sets its own thinking budget.
    is_adaptive: AtomicBool,
    /// The server reported that it cannot count tokens.
    cannot_count: AtomicBool,
    calibration: Calibration,
    written: MessageCache,
}

impl Anthropic {
    pub fn new(config: AnthropicConfig) -> Result<Self, ModelError> {
        let route = ProviderRoute {
            base_url: &config.base_url,
            proxy: config.proxy.as_ref(),
            connect_limit: config.connect_limit,
            silence_limit: config.silence_limit,
        };
        let key_header = KeyHeader {
            name: HeaderName::from_static("x-api-key"),
            prefix: "",
        };
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if !config.betas.is_empty() {
            let betas = config.betas.join(",");
            let value = HeaderValue::try_from(betas).map_err(|_| {
                let message =
                    "cannot use the beta feature names: they are not a valid header value";
                ModelError::new(ModelErrorKind::Request, message)
            })?;
            headers.insert("anthropic-beta", value);
        }
        let http = HttpClient::new(&route, Some(&config.api_key), key_header, headers)?;
        if !http.has_key() {
            return Err(ModelError::new(
                ModelErrorKind::Key,
                "cannot use the key: it is empty",
            ));
        }
        let messages = endpoint(&config.base_url, "/messages")?;
        let mut count_tokens = messages.clone();
        count_tokens.set_path(&format!("{}/count_tokens", messages.path()));
        Ok(Self {
            name: config.name,
            model: config.model,
            messages,
            count_tokens,
            http,
            thinking_budget: config.thinking_budget,
            is_adaptive: AtomicBool::new(false),
            cannot_count: AtomicBool::new(false),
            calibration: Calibration::default(),
            written: MessageCache::default(),
        })
    }

    fn body(&self, request: ModelRequest<'_>, purpose: BodyPurpose) -> Result<Vec<u8>, ModelError> {
        let thinking = self.thinking_budget.map(|budget| {
            if self.is_adaptive.load(Ordering::Relaxed) {
                ThinkingMode::Adaptive
            } else {
                ThinkingMode::Budget(budget)
            }
        });
        let write = || {
            let settled = &request.messages[..body::settled(request.messages)];
            let written = self.written.update(settled, body::serialize_message)?;
            serde_json::to_vec(&MessagesBody {
                model: &self.model,
                request,
                written: &written,
                thinking,
                purpose,
            })
        };
        write().map_err(|error| {
            let message = format!("cannot serialise the request: {error}");
            ModelError::new(ModelErrorKind::Request, message)
        })
    }

    /// Makes one request, in the thinking mode that the model is known to accept.
    async fn request_reply(
        &self,
        request: ModelRequest<'_>,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<ModelReply, ModelError> {
        let body = self.body(request, BodyPurpose::Reply)?;
        let answer = self.http.post(&self.messages, body).await?;
        if answer.is("application/json") || answer.is("text/html") {
            return Err(unexpected_body_error(answer).await);
        }
        let mut events = EventReader::new(answer);
        let mut state = MessageStream::new(CallIds::new(request.messages));
        while let Some(data) = events.next().await? {
            state.apply(&data, hear)?;
            if state.is_over() {
                events.close().await;
                break;
            }
        }
        state.finish()
    }

    async fn reply_in_accepted_mode(
        &self,
        request: ModelRequest<'_>,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<ModelReply, ModelError> {
        let asked = self.request_reply(request, hear).await;
        let Err(error) = &asked else {
            return asked;
        };
        // No event was emitted yet: the service refuses a thinking mode before it starts a reply.
        let takes_other_form = error.kind == ModelErrorKind::Request
            && error.message.contains("thinking.type.adaptive")
            && self.thinking_budget.is_some();
        if takes_other_form && !self.is_adaptive.swap(true, Ordering::Relaxed) {
            return self.request_reply(request, hear).await;
        }
        asked
    }

    async fn request_count(&self, request: ModelRequest<'_>) -> Result<u64, ModelError> {
        #[derive(Deserialize)]
        struct Count {
            input_tokens: u64,
        }
        let body = self.body(request, BodyPurpose::Count)?;
        let answer = self.http.post(&self.count_tokens, body).await?;
        let body = read_body(answer).await?;
        let count: Count = serde_json::from_slice(&body)
            .map_err(|_| ModelError::new(ModelErrorKind::Stream, "cannot parse the token count"))?;
        Ok(count.input_tokens)
    }
}

impl Model for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let reply = self.reply_in_accepted_mode(request, hear).await;
            let reply = reply.map_err(|error| self.http.without_key(error))?;
            let (input, output) = (reply.usage.input(), reply.usage.output_tokens);
            debug!(model = %self.name, input, output, stop = ?reply.stop, "model replied");
            if self.calibration.is_due() {
                self.calibration.learn(estimate(request), input);
            }
            Ok(reply)
        }
        .boxed()
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        async move {
            if !self.cannot_count.load(Ordering::Relaxed) {
                match timeout(COUNT_TIMEOUT, self.request_count(request)).await {
                    Ok(Ok(count)) => return Ok(count),
                    Ok(Err(error)) if error.kind == ModelErrorKind::NotFound => {
                        self.cannot_count.store(true, Ordering::Relaxed);
                    }
                    _ => {}
                }
            }
            Ok(self.calibration.apply(estimate(request)))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_config_becomes_a_model_or_an_error_without_its_key() {
        let config = |key: &str| AnthropicConfig {
            base_url: "http://127.0.0.1:9/v1/".into(),
            ..AnthropicConfig::new("claude-x", key.into())
        };
        let model = Anthropic::new(config("sk-hush")).unwrap();
        assert_eq!(model.messages.as_str(), "http://127.0.0.1:9/v1/messages");
        assert_eq!(model.count_tokens.path(), "/v1/messages/count_tokens");
        for shown in [format!("{model:?}"), format!("{:?}", config("sk-hush"))] {
            assert!(!shown.contains("hush"), "{shown}");
        }
        for key in ["", " \n", "sk-hush\r\nx"] {
            let error = Anthropic::new(config(key)).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Key, "{key:?}");
            assert!(!format!("{error:?}").contains("hush"));
        }
    }
}
