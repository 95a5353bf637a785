//! A model that replies from a script: for tests, and for `hotcell demo`, which needs neither key
//! nor network.
//!
//! A reply is played as the events of a Messages API stream, through the code that reads real
//! streams, so that failures behave as they do with a provider.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{self, BoxFuture, FutureExt};
use jiff::Timestamp;
use protocol::Usage;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::anthropic::stream::MessageStream;
use crate::calls::CallIds;
use crate::error::{ModelError, ModelErrorKind};
use crate::estimate::{estimate, estimate_blocks};
use crate::failure;
use crate::model::{Model, ModelReply, ModelRequest, ReplyEvent};
use crate::script::{Script, ScriptedError, ScriptedReply};

const MODEL_NAME: &str = "scripted";

#[derive(Debug)]
pub struct ScriptedModel {
    script: Script,
    /// How many requests have been made. Also the index of the next reply.
    asked: AtomicUsize,
}

impl ScriptedModel {
    pub fn new(script: Script) -> Self {
        Self::starting_at(script, 0)
    }

    /// Starts at the reply with this index.
    pub fn starting_at(script: Script, place: usize) -> Self {
        Self {
            script,
            asked: AtomicUsize::new(place),
        }
    }

    fn next(&self) -> Result<(usize, &ScriptedReply), ModelError> {
        let place = self.asked.fetch_add(1, Ordering::Relaxed);
        let replies = &self.script.replies;
        let reply = replies.get(place).ok_or_else(|| {
            let message = format!(
                "cannot get a reply: the script ends after {} replies",
                replies.len()
            );
            ModelError::new(ModelErrorKind::Request, message)
        })?;
        Ok((place, reply))
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        MODEL_NAME
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        async move {
            let (place, scripted) = self.next()?;
            sleep_if_nonzero(scripted.delay()).await;
            let mut reply = play(place, scripted, request, hear).await?;
            reply.usage = scripted.usage.unwrap_or_else(|| Usage {
                input_tokens: estimate(request),
                output_tokens: estimate_blocks(&reply.content),
                ..Usage::default()
            });
            Ok(reply)
        }
        .boxed()
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        future::ready(Ok(estimate(request))).boxed()
    }
}

/// Skips the timer for a zero duration: timers have a resolution of 1 ms.
async fn sleep_if_nonzero(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

async fn play(
    place: usize,
    scripted: &ScriptedReply,
    request: ModelRequest<'_>,
    hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
) -> Result<ModelReply, ModelError> {
    let error = scripted.error.as_ref();
    let error_at = error.map(|error| error.after.unwrap_or(0));
    let mut state = MessageStream::new(CallIds::new(request.messages));
    let events = events(place, scripted);
    let count = events.len();
    for (number, event) in (0..).zip(events) {
        if let Some(error) = error.filter(|_| error_at == Some(number)) {
            return Err(to_model_error(error));
        }
        if scripted.cut_after == Some(number) {
            return state.finish();
        }
        if event["type"] == "content_block_delta" {
            sleep_if_nonzero(scripted.pace()).await;
        }
        state.apply(&event.to_string(), hear)?;
    }
    match error {
        Some(error) if error_at >= Some(count) => Err(to_model_error(error)),
        _ => state.finish(),
    }
}

/// The error as it would be read from a server's response.
fn to_model_error(error: &ScriptedError) -> ModelError {
    let body = json!({"type": "error", "error": {"type": error.kind, "message": error.message}});
    let headers = error.headers.iter().filter_map(|(name, value)| {
        let name = name.parse::<HeaderName>().ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    let headers: HeaderMap = headers.collect();
    let text = body.to_string();
    let whole = failure::from_response(error.status, &headers, text.as_bytes(), Timestamp::now());
    match error.after {
        None => whole,
        // In the middle of a stream there is neither a status nor a header.
        Some(_) => ModelError {
            kind: whole.kind,
            ..failure::from_stream(&body["error"])
        },
    }
}

/// The events of a reply's stream.
fn events(place: usize, scripted: &ScriptedReply) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {"model": MODEL_NAME}})];
    let mut blocks = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        let index = blocks;
        blocks += 1;
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    if let Some(thinking) = &scripted.thinking {
        let mut deltas: Vec<Value> = words(thinking)
            .map(|word| json!({"type": "thinking_delta", "thinking": word}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": MODEL_NAME}));
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
        );
    }
    if let Some(text) = &scripted.text {
        let deltas = words(text).map(|word| json!({"type": "text_delta", "text": word}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for (number, call) in scripted.calls.iter().enumerate() {
        let input = match (&call.raw, &call.input) {
            (Some(raw), _) => raw.clone(),
            (None, Value::Null) => String::new(),
            (None, input) => input.to_string(),
        };
        let id = format!("call_{}_{}", place + 1, number + 1);
        block(
            json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": input})],
        );
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": scripted.stop()}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Each word includes the whitespace that follows it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use protocol::{Block, Message, Role, Stop};
    use tokio::time::Instant;

    use super::*;

    async fn ask(
        model: &ScriptedModel,
        messages: &[Arc<Message>],
    ) -> (Vec<String>, Result<ModelReply, ModelError>) {
        let mut heard = Vec::new();
        let mut hear = |piece: ReplyEvent<'_>| {
            heard.push(match piece {
                ReplyEvent::Text(text) => text.to_owned(),
                ReplyEvent::Thinking(text) => format!("({text})"),
                ReplyEvent::Input { name, json, .. } => format!("{name} {json}"),
                ReplyEvent::Used(_) => return,
                ReplyEvent::Retrying { .. } => panic!("it never tries again"),
            });
        };
        let request = ModelRequest {
            system: &[],
            tools: &[],
            messages,
            max_tokens: 100,
        };
        let reply = model.reply(request, &mut hear).await;
        (heard, reply)
    }

    fn scripted(text: &str) -> ScriptedModel {
        ScriptedModel::new(Script::parse(text).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn replies_come_in_their_order_and_then_no_more() {
        let model = scripted(
            r#"
            [[reply]]
            thinking = "let me"
            text = "I look at it."
            [[reply.call]]
            tool = "bash"
            input = { command = "ls" }
            [[reply]]
            text = "Done."
            usage = { input_tokens = 5, output_tokens = 2 }
            "#,
        );
        let (heard, reply) = ask(&model, &[]).await;
        assert_eq!(
            heard,
            [
                "(let )",
                "(me)",
                "I ",
                "look ",
                "at ",
                "it.",
                "bash ",
                "bash {\"command\":\"ls\"}"
            ]
        );
        let reply = reply.unwrap();
        assert_eq!((reply.content.len(), &reply.stop), (3, &Stop::ToolUse));
        assert_eq!(reply.model, "scripted");
        assert!(reply.usage.output_tokens > 0, "estimated");

        let message = Arc::new(Message {
            role: Role::Assistant,
            content: reply.content.clone(),
        });
        let (_, second) = ask(&model, &[message]).await;
        let second = second.unwrap();
        assert_eq!((&second.stop, second.usage.total()), (&Stop::EndTurn, 7));

        let error = ask(&model, &[]).await.1.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Request);
        assert!(error.message.contains("script ends after 2"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_wrong_is_what_would_with_a_provider() {
        async fn check(reply: &str, heard: &[&str], expect: ModelErrorKind) {
            let (found, reply) = ask(&scripted(reply), &[]).await;
            assert_eq!(found, heard);
            assert_eq!(reply.unwrap_err().kind, expect);
        }
        let error = |more: &str| {
            format!(
                "[[reply]]\ntext = 'one two'\n[reply.error]\nstatus = 529\n\
                 type = 'overloaded_error'\nmessage = 'Overloaded'\n{more}"
            )
        };
        check(&error(""), &[], ModelErrorKind::Overloaded).await;
        check(&error("after = 3"), &["one "], ModelErrorKind::Overloaded).await;
        check(
            &error("after = 99"),
            &["one ", "two"],
            ModelErrorKind::Overloaded,
        )
        .await;
        let cut = |after: usize| format!("[[reply]]\ntext = 'one two'\ncut_after = {after}");
        check(&cut(0), &[], ModelErrorKind::Stream).await;
        check(&cut(3), &["one "], ModelErrorKind::Stream).await;
        check(&cut(6), &["one ", "two"], ModelErrorKind::Stream).await;
        let whole = ask(&scripted(&cut(7)), &[]).await.1;
        assert!(whole.is_ok(), "all seven events have come");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_can_be_broken_and_never_share_an_id() {
        let text = "[[reply]]\nstop = 'max_tokens'\n[[reply.call]]\ntool = 'bash'\nraw = '{\"a'";
        let reply = ask(&scripted(text), &[]).await.1.unwrap();
        assert_eq!(reply.stop, Stop::MaxTokens);
        assert_eq!(reply.broken_calls.len(), 1);
        let first = Arc::new(Message {
            role: Role::Assistant,
            content: reply.content.clone(),
        });
        // A new model instance that continues the old conversation.
        let second = ask(&scripted(text), &[first]).await.1.unwrap();
        let id = |reply: &ModelReply| match &reply.content[..] {
            [Block::ToolUse { id, .. }] => id.clone(),
            other => panic!("{other:?}"),
        };
        assert_ne!(id(&reply), id(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_takes_its_time() {
        let begun = Instant::now();
        let text = "[[reply]]\ntext = 'a b c'\ndelay_ms = 100\npace_ms = 10";
        ask(&scripted(text), &[]).await.1.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(130));
    }
}
