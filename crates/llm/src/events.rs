//! Reads the events of a response, one after the other.

use std::time::Duration;

use serde::de::IgnoredAny;

use crate::error::{ErrorKind, ModelError};
use crate::failure;
use crate::http::Answer;
use crate::sse::Decoder;

/// Maximum size of a whole reply, streamed or not. The longest replies of models have a few
/// megabytes.
const MOST_BYTES: usize = 64 << 20;

/// The last event of OpenAI's streams, and the only one that is not JSON.
pub(crate) const DONE: &str = "[DONE]";

/// Time limit for reading the unused rest of a body.
const GOODBYE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Events {
    answer: Answer,
    decoder: Decoder,
    bytes: usize,
}

impl Events {
    pub(crate) fn new(answer: Answer) -> Self {
        Self {
            answer,
            decoder: Decoder::default(),
            bytes: 0,
        }
    }

    /// The data of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        loop {
            let event = self.decoder.next_event().map_err(|error| {
                let message = format!("cannot parse the reply: {error}");
                ModelError::new(ErrorKind::Stream, message)
            })?;
            if let Some(event) = event {
                return Ok(Some(event.data));
            }
            let Some(chunk) = self.answer.chunk().await? else {
                return Ok(last(std::mem::take(&mut self.decoder)));
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
        self.answer.hurry(GOODBYE);
        while let Ok(Some(_)) = self.answer.chunk().await {}
    }
}

/// The last event of a stream that ended without a blank line, unless it is incomplete. An
/// incomplete event is never valid JSON.
fn last(decoder: Decoder) -> Option<String> {
    let event = decoder.finish().ok()??;
    let is_whole = event.data == DONE || serde_json::from_str::<IgnoredAny>(&event.data).is_ok();
    is_whole.then_some(event.data)
}

/// The whole body of a response that is not a stream.
pub(crate) async fn read_whole(mut answer: Answer) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(chunk.as_ref());
        check_length(body.len())?;
    }
    Ok(body)
}

/// The error for a successful response that is not a stream of events.
pub(crate) async fn misunderstood(answer: Answer) -> ModelError {
    let body = read_whole(answer).await.unwrap_or_default();
    if let Some(problem) = failure::Problem::from_body(&body) {
        let message = format!("cannot get a reply: {}", problem.words);
        return ModelError::new(ErrorKind::Server, message);
    }
    let begin = &body[..body.len().min(200)];
    let text = failure::clean(&String::from_utf8_lossy(begin));
    let message = format!("cannot understand the reply: it is not an event stream: {text}");
    ModelError {
        // The page of a proxy or portal, or a wrong address: a retry would get the same.
        should_retry: Some(false),
        ..ModelError::new(ErrorKind::Stream, message)
    }
}

fn check_length(bytes: usize) -> Result<(), ModelError> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let message = format!("cannot read the whole reply: it is longer than {MOST_BYTES} bytes");
    Err(ModelError {
        should_retry: Some(false),
        ..ModelError::new(ErrorKind::Stream, message)
    })
}
