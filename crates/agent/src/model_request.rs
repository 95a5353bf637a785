//! Asks the model for one reply, sends its pieces as events, and records the result.

use std::sync::Arc;

use llm::{ModelError, ModelErrorKind, ModelReply, ModelRequest, ReplyEvent};
use protocol::{Block, EventKind, Message, Outcome, Stop, Usage};
use tokio::sync::mpsc;

use crate::error::AgentError;
use crate::event_log::{EventRecorder, EventSender};
use crate::session_model::SessionModel;
use crate::stopper::TurnStopper;

/// Result of a request to the model.
pub(crate) enum ReplyOutcome {
    Replied(ModelReply),
    Failed(ModelError),
    /// The request was stopped; this is what had arrived.
    Stopped(PartialReply),
}

/// What a request produced apart from a complete reply.
#[derive(Debug, Default)]
pub(crate) struct PartialReply {
    /// Text of the incomplete reply.
    text: String,
    /// Usage that the provider reported for it.
    used: Usage,
    /// Usage of earlier attempts, which the provider bills as well.
    lost: Usage,
}

impl SessionModel {
    /// Requests a reply to the messages, and sends its pieces as they arrive, if `should_send` selects
    /// them.
    pub(crate) async fn request_reply(
        &mut self,
        messages: &[Arc<Message>],
        sender: &EventSender,
        should_send: fn(&EventKind) -> bool,
        stopper: &TurnStopper,
    ) -> ReplyOutcome {
        let mut partial = PartialReply::default();
        let request = ModelRequest {
            system: &self.system,
            tools: &self.definitions,
            messages,
            max_tokens: self.max_tokens,
        };
        let model = &self.chosen.model;
        let received = &mut partial;
        // Unbounded because the model's callback cannot wait. What is queued is never more than was
        // received of one request, and the provider limits that to `max_tokens` for each attempt.
        let (queue, mut queued) = mpsc::unbounded_channel();
        // Owns `queue`, so that the loop below ends with the reply.
        let reply = async move {
            let mut on_event = |event: ReplyEvent<'_>| {
                if let Some(kind) = received.add(event).filter(should_send) {
                    let _ = queue.send(kind);
                }
            };
            model.reply(request, &mut on_event).await
        };
        let forward = async {
            while let Some(kind) = queued.recv().await {
                sender.send(kind).await;
            }
        };
        let reply = tokio::select! {
            (reply, ()) = async { tokio::join!(reply, forward) } => Some(reply),
            () = stopper.token().cancelled() => None,
        };
        match reply {
            Some(Ok(mut reply)) => {
                reply.usage += partial.lost;
                ReplyOutcome::Replied(reply)
            }
            Some(Err(error)) => {
                self.charge(partial.sum());
                ReplyOutcome::Failed(error)
            }
            None => ReplyOutcome::Stopped(partial),
        }
    }

    pub(crate) async fn record_reply(
        &mut self,
        turn: u32,
        reply: ModelReply,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        let cost = self.charge(reply.usage);
        recorder
            .record(EventKind::Replied {
                turn,
                content: reply.content,
                stop: reply.stop,
                broken_calls: reply.broken_calls,
                usage: reply.usage,
                cost,
                model: reply.model,
            })
            .await?;
        self.send_spending(recorder.sender()).await;
        Ok(())
    }

    /// Records the text of a reply that was stopped, and the usage that the provider reported for it.
    pub(crate) async fn record_partial(
        &mut self,
        turn: u32,
        partial: PartialReply,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        let usage = partial.sum();
        let has_text = !partial.text.trim().is_empty();
        if !has_text && usage == Usage::default() {
            return Ok(());
        }
        let text = has_text.then(|| Block::text(partial.text));
        let reply = ModelReply {
            content: text.into_iter().collect(),
            stop: Stop::Interrupted,
            broken_calls: Default::default(),
            usage,
            model: self.chosen.model.name().to_owned(),
        };
        self.record_reply(turn, reply, recorder).await
    }

    pub(crate) async fn send_spending(&self, sender: &EventSender) {
        let spending = self.spending();
        sender.send(EventKind::Spent { spending }).await;
    }
}

impl PartialReply {
    /// Adds what a stop would leave of the reply. Returns the event for the user, if there is one.
    fn add(&mut self, event: ReplyEvent<'_>) -> Option<EventKind> {
        Some(match event {
            ReplyEvent::Used(usage) => {
                self.used = usage;
                return None;
            }
            ReplyEvent::Text(text) => {
                self.text.push_str(text);
                EventKind::TextDelta {
                    text: text.to_owned(),
                }
            }
            ReplyEvent::Thinking(text) => EventKind::ThinkingDelta {
                text: text.to_owned(),
            },
            ReplyEvent::Input { call, name, json } => EventKind::InputDelta {
                call: call.clone(),
                name: name.to_owned(),
                json: json.to_owned(),
            },
            ReplyEvent::Retrying {
                attempt,
                wait,
                reason,
            } => {
                self.text.clear();
                self.lost += std::mem::take(&mut self.used);
                EventKind::Retrying {
                    attempt,
                    wait_ms: wait.as_millis() as u64,
                    reason: reason.message.clone(),
                }
            }
        })
    }

    pub(crate) fn sum(&self) -> Usage {
        let mut sum = self.lost;
        sum += self.used;
        sum
    }
}

/// How a turn ends when its request failed for good.
pub(crate) fn failure(error: &ModelError) -> Outcome {
    let reason = error.message.clone();
    match error.kind {
        ModelErrorKind::TooLong => Outcome::Failed { reason },
        _ => Outcome::Provider {
            reason,
            transient: error.is_retryable(),
        },
    }
}
