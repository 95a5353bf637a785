//! OpenAI's chat completions API, as implemented by many compatible servers.
//!
//! Sends requests and reads replies. [`body`] serialises a request, [`stream`] assembles a reply.
//! Thinking is emitted as it arrives but not stored, because the API does not accept it back. Entry
//! type: [`OpenAi`].

mod body;
mod chunk;
mod stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{self, BoxFuture, FutureExt};
use protocol::Usage;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::SecretString;
use tracing::debug;

use crate::calls::CallIds;
use crate::error::{ModelError, ModelErrorKind};
use crate::estimate::{Calibration, estimate, estimate_blocks};
use crate::events::{EventReader, read_body, unexpected_body_error};
use crate::http::{HttpAnswer, HttpClient, KeyHeader, ProviderRoute, endpoint};
use crate::model::{Model, ModelReply, ModelRequest, ReplyEvent};
use crate::openai::body::CompletionBody;
use crate::openai::stream::CompletionStream;

/// How long to wait for token counts once the reply is complete.
const USAGE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The model's name in Hotcell.
    pub name: String,
    /// The model's name at the server.
    pub model: String,
    /// With or without `/v1` and a trailing slash.
    pub base_url: String,
    /// Not needed for local servers.
    pub api_key: Option<SecretString>,
    /// Proxy URL. May contain a password.
    pub proxy: Option<SecretString>,
    pub connect_limit: Duration,
    /// Maximum time without receiving anything. A local server may need minutes to process a long
    /// prompt, and sends nothing meanwhile.
    pub silence_limit: Duration,
}

impl OpenAiConfig {
    /// For a server that needs no key.
    pub fn new(model: impl Into<String>, base_url: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            name: format!("openai/{model}"),
            model,
            base_url: base_url.into(),
            api_key: None,
            proxy: None,
            connect_limit: Duration::from_secs(10),
            silence_limit: Duration::from_secs(300),
        }
    }
}

/// A model behind a chat completions API.
#[derive(Debug)]
pub struct OpenAi {
    name: String,
    model: String,
    completions: Url,
    http: HttpClient,
    /// The server reported that it accepts the reply limit only by its newer name.
    has_newer_limit: AtomicBool,
    calibration: Calibration,
}

impl OpenAi {
    pub fn new(config: OpenAiConfig) -> Result<Self, ModelError> {
        let route = ProviderRoute {
            base_url: &config.base_url,
            proxy: config.proxy.as_ref(),
            connect_limit: config.connect_limit,
            silence_limit: config.silence_limit,
        };
        let key_header = KeyHeader {
            name: AUTHORIZATION,
            prefix: "Bearer ",
        };
        let key = config.api_key.as_ref();
        Ok(Self {
            name: config.name,
            model: config.model,
            completions: endpoint(&config.base_url, "/chat/completions")?,
            http: HttpClient::new(&route, key, key_header, HeaderMap::new())?,
            has_newer_limit: AtomicBool::new(false),
            calibration: Calibration::default(),
        })
    }

    async fn post(&self, request: ModelRequest<'_>) -> Result<HttpAnswer, ModelError> {
        let limit = if self.has_newer_limit.load(Ordering::Relaxed) {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        let body = CompletionBody {
            model: &self.model,
            request,
            limit,
        };
        let body = serde_json::to_vec(&body).map_err(|error| {
            let message = format!("cannot serialise the request: {error}");
            ModelError::new(ModelErrorKind::Request, message)
        })?;
        self.http.post(&self.completions, body).await
    }

    /// The reply, and the server's token counts if it sent any.
    async fn request_reply(
        &self,
        request: ModelRequest<'_>,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<(ModelReply, Option<Usage>), ModelError> {
        let mut answer = self.post(request).await;
        if let Err(error) = &answer
            && error.kind == ModelErrorKind::Request
            && error.message.contains("max_completion_tokens")
            && !self.has_newer_limit.swap(true, Ordering::Relaxed)
        {
            answer = self.post(request).await;
        }
        let answer = answer?;
        let mut state = CompletionStream::new(CallIds::new(request.messages));
        if answer.is("text/html") {
            return Err(unexpected_body_error(answer).await);
        }
        if answer.is("application/json") {
            let body = read_body(answer).await?;
            state.apply(&String::from_utf8_lossy(&body), hear)?;
            return state.finish();
        }
        let mut events = EventReader::new(answer);
        loop {
            match events.next().await {
                Ok(Some(data)) => state.apply(&data, hear)?,
                Ok(None) => break,
                // A failure after the reply is complete does not affect it.
                Err(_) if state.is_whole() => break,
                Err(error) => return Err(error),
            }
            if state.is_over() {
                events.close().await;
                break;
            }
            if state.is_whole() {
                events.hurry(USAGE_TIMEOUT);
            }
        }
        state.finish()
    }

    fn estimate(&self, request: ModelRequest<'_>) -> u64 {
        self.calibration.apply(estimate(request))
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let asked = self.request_reply(request, hear).await;
            let (mut reply, usage) = asked.map_err(|error| self.http.without_key(error))?;
            match usage {
                Some(usage) if self.calibration.is_due() => {
                    self.calibration.learn(estimate(request), usage.input());
                }
                Some(_) => {}
                None => {
                    reply.usage = Usage {
                        input_tokens: self.estimate(request),
                        output_tokens: estimate_blocks(&reply.content),
                        ..Usage::default()
                    };
                }
            }
            if reply.model.is_empty() {
                reply.model.clone_from(&self.model);
            }
            let (input, output) = (reply.usage.input(), reply.usage.output_tokens);
            debug!(model = %self.name, input, output, stop = ?reply.stop, "model replied");
            Ok(reply)
        }
        .boxed()
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        future::ready(Ok(self.estimate(request))).boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_config_becomes_a_model_or_an_error_without_its_key() {
        let config = |key: &str| OpenAiConfig {
            api_key: Some(key.into()),
            ..OpenAiConfig::new("qwen3", "http://127.0.0.1:9/v1/")
        };
        let model = OpenAi::new(config("sk-hush")).unwrap();
        assert_eq!(model.name(), "openai/qwen3");
        assert_eq!(model.completions.path(), "/v1/chat/completions");
        for shown in [format!("{model:?}"), format!("{:?}", config("sk-hush"))] {
            assert!(!shown.contains("hush"), "{shown}");
        }
        let error = OpenAi::new(config("sk-hush\r\nx")).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Key);
        assert!(!format!("{error:?}").contains("hush"));
        for key in [None, Some("".into())] {
            let config = OpenAiConfig {
                api_key: key,
                ..config("")
            };
            assert!(OpenAi::new(config).is_ok(), "a key is optional");
        }
    }
}
