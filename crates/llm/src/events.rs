//! Reads the events of a response, one after the other.

use std::time::Duration;

use serde::de::IgnoredAny;

use crate::error::{ModelError, ModelErrorKind};
use crate::failure;
use crate::http::HttpAnswer;
use crate::sse::SseDecoder;

/// Maximum size of a whole reply, streamed or not. The longest replies of models have a few
/// megabytes.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// The last event of OpenAI's streams, and the only one that is not JSON.
pub(crate) const DONE_EVENT: &str = "[DONE]";

/// Time limit for reading the unused rest of a body.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct EventReader {
    answer: HttpAnswer,
    decoder: SseDecoder,
    bytes: usize,
}

impl EventReader {
    pub(crate) fn new(answer: HttpAnswer) -> Self {
        Self {
            answer,
            decoder: SseDecoder::default(),
            bytes: 0,
        }
    }

    /// The data of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        loop {
            let event = self.decoder.next_event().map_err(|error| {
                let message = format!("cannot parse the reply: {error}");
                ModelError::new(ModelErrorKind::Stream, message)
            })?;
            if let Some(event) = event {
                return Ok(Some(event.data));
            }
            let Some(chunk) = self.answer.chunk().await? else {
                return Ok(final_event(std::mem::take(&mut self.decoder)));
            };
            self.bytes += chunk.as_ref().len();
            check_length(self.bytes)?;
            self.decoder.push(chunk.as_ref());
        }
    }

    /// Reduces the idle timeout from now on.
    pub(crate) fn hurry(&mut self, limit: Duration) {
        self.answer.hurry(limit);
    }

    /// Reads the rest of the body after the last event, so that the connection can be reused. A new
    /// connection costs several round trips.
    pub(crate) async fn close(mut self) {
        self.answer.hurry(DRAIN_TIMEOUT);
        while let Ok(Some(_)) = self.answer.chunk().await {}
    }
}

/// The last event of a stream that ended without a blank line, unless it is incomplete. An
/// incomplete event is never valid JSON.
fn final_event(decoder: SseDecoder) -> Option<String> {
    let event = decoder.finish().ok()??;
    let is_whole =
        event.data == DONE_EVENT || serde_json::from_str::<IgnoredAny>(&event.data).is_ok();
    is_whole.then_some(event.data)
}

/// The whole body of a response that is not a stream.
pub(crate) async fn read_body(mut answer: HttpAnswer) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(chunk.as_ref());
        check_length(body.len())?;
    }
    Ok(body)
}

/// The error for a successful response that is not a stream of events.
pub(crate) async fn unexpected_body_error(answer: HttpAnswer) -> ModelError {
    let body = read_body(answer).await.unwrap_or_default();
    if let Some(problem) = failure::ProviderError::from_body(&body) {
        let message = format!("cannot get a reply: {}", problem.words);
        return ModelError::new(ModelErrorKind::Server, message);
    }
    let begin = &body[..body.len().min(200)];
    let text = failure::clean_line(&String::from_utf8_lossy(begin));
    let message = format!("cannot understand the reply: it is not an event stream: {text}");
    ModelError {
        // The page of a proxy or portal, or a wrong address: a retry would get the same.
        should_retry: Some(false),
        ..ModelError::new(ModelErrorKind::Stream, message)
    }
}

fn check_length(bytes: usize) -> Result<(), ModelError> {
    if bytes <= MAX_REPLY_BYTES {
        return Ok(());
    }
    let message = format!("cannot read the whole reply: it is longer than {MAX_REPLY_BYTES} bytes");
    Err(ModelError {
        should_retry: Some(false),
        ..ModelError::new(ModelErrorKind::Stream, message)
    })
}
