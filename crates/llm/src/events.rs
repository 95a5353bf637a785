//! Reads the events of an answer, one after the other.

use std::time::Duration;

use serde::de::IgnoredAny;

use crate::error::{ErrorKind, ModelError};
use crate::failure;
use crate::http::Answer;
use crate::sse::Decoder;

/// Most bytes of a whole reply, of whatever form; the longest that any model gives is a few.
const MOST_BYTES: usize = 64 << 20;

/// The last event of OpenAI's streams, and the only one that is no JSON.
pub(crate) const DONE: &str = "[DONE]";

/// How long the rest of a body that nobody needs is waited for.
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

    /// The data of the next event; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        loop {
            let event = self.decoder.next_event().map_err(|error| {
                let message = format!("cannot understand the reply: {error}");
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

    /// Waits for so long at most from now on.
    pub(crate) fn hurry(&mut self, limit: Duration) {
        self.answer.hurry(limit);
    }

    /// Reads what is left after the last event, so that the connection can be used again: a new
    /// one costs several round trips.
    pub(crate) async fn close(mut self) {
        self.answer.hurry(GOODBYE);
        while let Ok(Some(_)) = self.answer.chunk().await {}
    }
}

/// The last event of a stream that has ended without a blank line, unless it is only a part of
/// one. No part of an event is whole JSON.
fn last(decoder: Decoder) -> Option<String> {
    let event = decoder.finish().ok()??;
    let is_whole = event.data == DONE || serde_json::from_str::<IgnoredAny>(&event.data).is_ok();
    is_whole.then_some(event.data)
}

/// The whole body of an answer that is no stream.
pub(crate) async fn read_whole(mut answer: Answer) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(chunk.as_ref());
        check_length(body.len())?;
    }
    Ok(body)
}

/// What to say of a success that is neither a stream nor anything else that is understood.
pub(crate) async fn misunderstood(answer: Answer) -> ModelError {
    let body = read_whole(answer).await.unwrap_or_default();
    if let Some(problem) = failure::Problem::from_body(&body) {
        let message = format!("cannot get a reply: {}", problem.words);
        return ModelError::new(ErrorKind::Server, message);
    }
    let begin = &body[..body.len().min(200)];
    let text = failure::clean(&String::from_utf8_lossy(begin));
    let message = format!("cannot understand the reply: it is no stream of events: {text}");
    ModelError {
        // A proxy's or portal's page, or a wrong address: it will say the same again.
        should_retry: Some(false),
        ..ModelError::new(ErrorKind::Stream, message)
    }
}

fn check_length(bytes: usize) -> Result<(), ModelError> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let message = format!("cannot read the reply to its end: it is longer than {MOST_BYTES} bytes");
    Err(ModelError {
        should_retry: Some(false),
        ..ModelError::new(ErrorKind::Stream, message)
    })
}
