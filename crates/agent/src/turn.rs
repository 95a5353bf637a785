//! Performs a turn: asks the model, runs its calls, asks again. [`crate::step`] decides.

use std::pin::pin;

use futures_util::StreamExt;
use llm::{ErrorKind, ModelError, Piece, Reply, Request};
use protocol::{Block, EventKind, Outcome, Stop, Usage};
use tokio::sync::mpsc;
use tracing::warn;

use crate::checkpoint::Snapshot;
use crate::error::AgentError;
use crate::repetition::{Repetition, Verdict};
use crate::session::Session;
use crate::step::{Call, Run, Step, next_step};
use crate::stopper::Stopper;
use crate::toolbox::{Ended, Toolbox, batches, changes, error_output};

/// What asking the model came to.
enum Asked {
    Replied(Reply),
    Failed(ModelError),
    Stopped,
}

impl Session {
    pub(crate) async fn perform(
        &mut self,
        turn: u32,
        stopper: &Stopper,
    ) -> Result<Outcome, AgentError> {
        let sandbox = self.sandbox(None).await?;
        // Begun now, so that little is left to do when the model wants to change something.
        let known = self.known.clone();
        let mut snapshot = Some(Snapshot::begin(sandbox, self.store.clone(), known));
        let outcome = self.take_steps(turn, stopper, &mut snapshot).await;
        if let Some(snapshot) = snapshot {
            snapshot.cancel().await;
        }
        outcome
    }

    async fn take_steps(
        &mut self,
        turn: u32,
        stopper: &Stopper,
        snapshot: &mut Option<Snapshot>,
    ) -> Result<Outcome, AgentError> {
        let mut run = Run::default();
        let mut repetition = Repetition::default();
        let mut request = 0;
        loop {
            if let Some(outcome) = self.stopped(stopper) {
                return Ok(outcome);
            }
            if let Some(outcome) = self.ledger.exceeded(self.elapsed()) {
                return Ok(outcome);
            }
            request += 1;
            self.teller
                .tell(EventKind::RequestStarted { turn, request })
                .await;
            let (asked, partial) = self.ask(stopper).await;
            let reply = match asked {
                Asked::Replied(reply) => reply,
                Asked::Failed(error) => return Ok(failure(&error)),
                Asked::Stopped => {
                    self.record_partial(turn, partial).await?;
                    continue;
                }
            };
            let step = next_step(&mut run, &reply.content, &reply.stop, &reply.broken_calls);
            self.record_reply(turn, reply).await?;
            match step {
                Step::End(outcome) => return Ok(outcome),
                Step::Ask { note: None } => {}
                Step::Ask { note: Some(text) } => self.note(text.to_owned()).await?,
                Step::Call(calls) => {
                    let ended = self
                        .call(turn, &calls, stopper, snapshot, &mut repetition)
                        .await?;
                    if let Some(outcome) = ended {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Asks for one reply, telling of its pieces as they come. Also says which words came of a
    /// reply that did not come to its end.
    async fn ask(&self, stopper: &Stopper) -> (Asked, String) {
        let request = Request {
            system: &self.system,
            tools: &self.definitions,
            messages: self.scribe.conversation.messages(),
            max_tokens: self.max_tokens,
        };
        let (pieces, mut heard) = mpsc::unbounded_channel();
        // Owns the sender, so that the listener below ends with the reply.
        let reply = async move {
            let mut hear = move |piece: Piece<'_>| {
                let _ = pieces.send(piece_event(piece));
            };
            self.model.reply(request, &mut hear).await
        };
        let mut partial = String::new();
        let listen = async {
            while let Some(kind) = heard.recv().await {
                match &kind {
                    EventKind::TextDelta { text } => partial.push_str(text),
                    EventKind::Retrying { .. } => partial.clear(),
                    _ => {}
                }
                self.teller.tell(kind).await;
            }
        };
        let asked = tokio::select! {
            (reply, ()) = async { tokio::join!(reply, listen) } => match reply {
                Ok(reply) => Asked::Replied(reply),
                Err(error) => Asked::Failed(error),
            },
            () = stopper.token().cancelled() => Asked::Stopped,
        };
        (asked, partial)
    }

    async fn record_reply(&mut self, turn: u32, reply: Reply) -> Result<(), AgentError> {
        let cost = (self.price.0)(&reply.usage);
        self.ledger.spend(reply.usage, cost);
        self.scribe
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
        let spending = self.ledger.spending(self.elapsed());
        self.teller.tell(EventKind::Spent { spending }).await;
        Ok(())
    }

    /// Keeps the words of a reply that was stopped. Its usage is not known: providers tell it
    /// at the end.
    async fn record_partial(&mut self, turn: u32, partial: String) -> Result<(), AgentError> {
        if partial.trim().is_empty() {
            return Ok(());
        }
        let model = self.model.name().to_owned();
        self.scribe
            .record(EventKind::Replied {
                turn,
                content: vec![Block::text(partial)],
                stop: Stop::Interrupted,
                broken_calls: Default::default(),
                usage: Usage::default(),
                cost: None,
                model,
            })
            .await
    }

    async fn note(&mut self, text: String) -> Result<(), AgentError> {
        self.scribe.record(EventKind::Noted { text }).await
    }

    /// Runs the calls of one reply. Says how the turn ends, if it does.
    async fn call(
        &mut self,
        turn: u32,
        calls: &[Call],
        stopper: &Stopper,
        snapshot: &mut Option<Snapshot>,
        repetition: &mut Repetition,
    ) -> Result<Option<Outcome>, AgentError> {
        let tools = self.tools.clone();
        let (mut advice, mut end) = (None, None);
        for batch in batches(&tools, calls) {
            let mut is_on_record = snapshot.is_none();
            if batch.iter().any(|call| changes(&tools, call))
                && let Some(snapshot) = snapshot.take()
            {
                is_on_record = self.checkpoint(turn, snapshot, stopper).await?;
            }
            let sandbox = self.sandbox(None).await?;
            let teller = self.teller.clone();
            let toolbox = Toolbox {
                tools: &tools,
                sandbox,
                outputs: &self.outputs,
                teller: &teller,
                stop: stopper.token(),
            };
            let mut broke = None;
            let mut pending = Vec::new();
            {
                let mut running = pin!(toolbox.run(batch));
                while let Some(mut ended) = running.next().await {
                    match ended.broke.take() {
                        Some(error) => {
                            broke.get_or_insert(error);
                            pending.push(ended);
                        }
                        None => {
                            record_end(
                                &mut self.scribe,
                                calls,
                                ended,
                                repetition,
                                &mut advice,
                                &mut end,
                            )
                            .await?;
                        }
                    }
                }
            }
            drop(toolbox);
            if let Some(error) = broke {
                let reason = self.cell.replace(&error).await;
                warn!(%reason, "sandbox replaced");
                let text = format!(
                    "The sandbox was lost while this ran: {reason}. A new one was started: \
                     files in /workspace are as they were, but the shell's state, background \
                     commands and all other files are gone."
                );
                let sandbox = self.sandbox(Some(reason)).await?;
                // What was begun in the old one is lost with it.
                if !is_on_record {
                    let known = self.known.clone();
                    *snapshot = Some(Snapshot::begin(sandbox, self.store.clone(), known));
                }
                for mut ended in pending {
                    ended.output = error_output(text.clone());
                    record_end(
                        &mut self.scribe,
                        calls,
                        ended,
                        repetition,
                        &mut advice,
                        &mut end,
                    )
                    .await?;
                }
            }
        }
        if let Some(reason) = end {
            return Ok(Some(Outcome::Failed { reason }));
        }
        if let Some(text) = advice {
            self.note(text).await?;
        }
        Ok(None)
    }
}

/// Records a call's end, and what its repetition calls for.
async fn record_end(
    scribe: &mut crate::scribe::Scribe,
    calls: &[Call],
    ended: Ended,
    repetition: &mut Repetition,
    advice: &mut Option<String>,
    end: &mut Option<String>,
) -> Result<(), AgentError> {
    let Some(call) = calls.iter().find(|call| call.id == ended.call) else {
        return Ok(());
    };
    match repetition.note(call, &ended.output) {
        Verdict::Fine => {}
        Verdict::Tell(text) => *advice = Some(text),
        Verdict::End(text) => *end = Some(text),
    }
    scribe
        .record(EventKind::ToolEnded {
            call: ended.call,
            name: call.name.clone(),
            content: ended.output.content,
            is_error: ended.output.is_error,
            kept: ended.output.kept,
            changes: ended.output.changes,
            millis: ended.millis,
        })
        .await
}

fn failure(error: &ModelError) -> Outcome {
    let reason = error.message.clone();
    match error.kind {
        ErrorKind::TooLong => Outcome::Failed { reason },
        _ => Outcome::Provider { reason },
    }
}

fn piece_event(piece: Piece<'_>) -> EventKind {
    match piece {
        Piece::Text(text) => EventKind::TextDelta {
            text: text.to_owned(),
        },
        Piece::Thinking(text) => EventKind::ThinkingDelta {
            text: text.to_owned(),
        },
        Piece::Input { call, name, json } => EventKind::InputDelta {
            call: call.clone(),
            name: name.to_owned(),
            json: json.to_owned(),
        },
        Piece::Retrying {
            attempt,
            wait,
            reason,
        } => EventKind::Retrying {
            attempt,
            wait_ms: wait.as_millis() as u64,
            reason: reason.message.clone(),
        },
    }
}
