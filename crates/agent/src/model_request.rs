//! Asks the model for one reply, sends its pieces as events, and records the result.

use std::sync::Arc;

use llm::{ModelError, ModelErrorKind, ModelReply, ModelRequest, ReplyEvent};
use protocol::{Block, EventKind, Message, Outcome, Stop, Usage};
use tokio::sync::mpsc;

use crate::error::AgentError;
use crate::session::Session;
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

/// A piece of a reply, on its way from the model client to the event stream.
enum ReplyPiece {
    Event(EventKind),
    Used(Usage),
}

impl Session {
    pub(crate) async fn request_reply(&mut self, stopper: &TurnStopper) -> ReplyOutcome {
        let messages = self.recorder.conversation.messages();
        let received = self.receive_reply(messages, |_| true, stopper).await;
        self.to_outcome(received)
    }

    /// Asks with other messages than the conversation's. Sends only the events that `is_told` selects.
    pub(crate) async fn request_reply_to(
        &mut self,
        messages: &[Arc<Message>],
        should_send: fn(&EventKind) -> bool,
        stopper: &TurnStopper,
    ) -> ReplyOutcome {
        let received = self.receive_reply(messages, should_send, stopper).await;
        self.to_outcome(received)
    }

    fn to_outcome(
        &mut self,
        (reply, partial): (Option<Result<ModelReply, ModelError>>, PartialReply),
    ) -> ReplyOutcome {
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

    /// Returns the reply, and sends its pieces as they arrive. `None` if it was stopped.
    async fn receive_reply(
        &self,
        messages: &[Arc<Message>],
        should_send: fn(&EventKind) -> bool,
        stopper: &TurnStopper,
    ) -> (Option<Result<ModelReply, ModelError>>, PartialReply) {
        let mut partial = PartialReply::default();
        let request = ModelRequest {
            system: &self.system,
            tools: &self.definitions,
            messages,
            max_tokens: self.max_tokens,
        };
        let (pieces, mut received) = mpsc::unbounded_channel();
        // Owns the sender, so that the receiving loop below ends with the reply.
        let reply = async move {
            let mut handle = move |piece: ReplyEvent<'_>| {
                let _ = pieces.send(ReplyPiece::from(piece));
            };
            self.model.model.reply(request, &mut handle).await
        };
        let send = async {
            while let Some(received) = received.recv().await {
                partial.add(&received);
                if let ReplyPiece::Event(kind) = received
                    && should_send(&kind)
                {
                    self.sender.send(kind).await;
                }
            }
        };
        let reply = tokio::select! {
            (reply, ()) = async { tokio::join!(reply, send) } => Some(reply),
            () = stopper.token().cancelled() => None,
        };
        (reply, partial)
    }

    /// Adds a request to the ledger and returns its cost.
    pub(crate) fn charge(&mut self, usage: Usage) -> Option<f64> {
        let cost = self.model.price.of(&usage);
        self.ledger.add_request(usage, cost);
        cost
    }

    pub(crate) async fn record_reply(
        &mut self,
        turn: u32,
        reply: ModelReply,
    ) -> Result<(), AgentError> {
        let cost = self.charge(reply.usage);
        self.recorder
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
        self.send_spending().await;
        Ok(())
    }

    pub(crate) async fn send_spending(&self) {
        let spending = self.ledger.spending(self.elapsed());
        self.sender.send(EventKind::Spent { spending }).await;
    }

    /// Records the text of a reply that was stopped, and the usage that the provider reported for it.
    pub(crate) async fn record_partial(
        &mut self,
        turn: u32,
        partial: PartialReply,
    ) -> Result<(), AgentError> {
        let usage = partial.sum();
        let content = match partial.text.trim().is_empty() {
            true if usage == Usage::default() => return Ok(()),
            true => Vec::new(),
            false => vec![Block::text(partial.text)],
        };
        let reply = ModelReply {
            content,
            stop: Stop::Interrupted,
            broken_calls: Default::default(),
            usage,
            model: self.model.model.name().to_owned(),
        };
        self.record_reply(turn, reply).await
    }
}

impl PartialReply {
    fn add(&mut self, received: &ReplyPiece) {
        match received {
            ReplyPiece::Event(EventKind::TextDelta { text }) => self.text.push_str(text),
            ReplyPiece::Event(EventKind::Retrying { .. }) => {
                self.text.clear();
                self.lost += std::mem::take(&mut self.used);
            }
            ReplyPiece::Event(_) => {}
            ReplyPiece::Used(usage) => self.used = *usage,
        }
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

impl From<ReplyEvent<'_>> for ReplyPiece {
    fn from(piece: ReplyEvent<'_>) -> Self {
        Self::Event(match piece {
            ReplyEvent::Used(usage) => return Self::Used(usage),
            ReplyEvent::Text(text) => EventKind::TextDelta {
                text: text.to_owned(),
            },
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
            } => EventKind::Retrying {
                attempt,
                wait_ms: wait.as_millis() as u64,
                reason: reason.message.clone(),
            },
        })
    }
}
