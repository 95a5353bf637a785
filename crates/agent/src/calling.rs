//! Runs the calls of one reply and records their results.

use std::pin::pin;

use futures_util::StreamExt;
use protocol::{EventKind, Outcome};
use sandbox::SandboxError;
use tracing::warn;

use crate::checkpoint::Snapshot;
use crate::error::AgentError;
use crate::repetition::{Repetition, Verdict};
use crate::scribe::Scribe;
use crate::session::Session;
use crate::step::Call;
use crate::stopper::Stopper;
use crate::toolbox::{Ended, Toolbox, batches, changes, error_output};

/// The calls of one reply, and how to react if they repeat earlier ones.
pub(crate) struct Round<'a> {
    calls: &'a [Call],
    repetition: &'a mut Repetition,
    /// A note for the model.
    advice: Option<String>,
    /// Why the turn ends.
    end: Option<String>,
}

impl Session {
    /// Runs calls. Returns how the turn ends if they end it.
    pub(crate) async fn call(
        &mut self,
        turn: u32,
        mut round: Round<'_>,
        stopper: &Stopper,
        snapshot: &mut Option<Snapshot>,
    ) -> Result<Option<Outcome>, AgentError> {
        let tools = self.tools.clone();
        for batch in batches(&tools, round.calls) {
            let mut is_on_record = snapshot.is_none();
            if batch.iter().any(|call| changes(&tools, call))
                && let Some(snapshot) = snapshot.take()
            {
                is_on_record = self.checkpoint(turn, snapshot, stopper).await?;
            }
            let Some(lost) = self.run_batch(batch, stopper, &mut round).await? else {
                continue;
            };
            self.replace_sandbox(lost, &mut round).await?;
            // The snapshot started in the old sandbox is lost with it.
            if !is_on_record {
                let sandbox = self.sandbox(None).await?;
                let known = self.baseline.known();
                *snapshot = Some(Snapshot::begin(sandbox, self.store.clone(), known));
            }
        }
        if let Some(reason) = round.end {
            return Ok(Some(Outcome::Failed { reason }));
        }
        if let Some(text) = round.advice {
            self.note(text).await?;
        }
        Ok(None)
    }

    /// Runs calls concurrently. Returns those whose sandbox was lost, if any.
    async fn run_batch(
        &mut self,
        batch: &[Call],
        stopper: &Stopper,
        round: &mut Round<'_>,
    ) -> Result<Option<Lost>, AgentError> {
        let toolbox = Toolbox {
            sandbox: self.sandbox(None).await?,
            tools: &self.tools,
            outputs: &self.outputs,
            teller: &self.teller,
            background: Some(&self.background),
            person: Some(&self.person),
            stop: stopper.token(),
        };
        let mut lost: Option<Lost> = None;
        let mut running = pin!(toolbox.run(batch));
        while let Some(mut ended) = running.next().await {
            match (ended.broke.take(), &mut lost) {
                (None, _) => round.record(&mut self.scribe, ended).await?,
                (Some(_), Some(lost)) => lost.calls.push(ended),
                (Some(error), None) => {
                    lost = Some(Lost {
                        error,
                        calls: vec![ended],
                    });
                }
            }
        }
        Ok(lost)
    }

    async fn replace_sandbox(
        &mut self,
        lost: Lost,
        round: &mut Round<'_>,
    ) -> Result<(), AgentError> {
        let reason = self.cell.replace(&lost.error).await;
        warn!(%reason, "sandbox replaced");
        let text = format!(
            "The sandbox was lost while this ran: {reason}. A new one was started: files in \
             /workspace are as they were, but the shell's state, background commands and all \
             other files are gone."
        );
        self.sandbox(Some(reason)).await?;
        for mut ended in lost.calls {
            ended.output = error_output(text.clone());
            round.record(&mut self.scribe, ended).await?;
        }
        Ok(())
    }
}

/// Calls whose sandbox failed while they ran.
struct Lost {
    error: SandboxError,
    calls: Vec<Ended>,
}

impl<'a> Round<'a> {
    pub(crate) fn new(calls: &'a [Call], repetition: &'a mut Repetition) -> Self {
        Self {
            calls,
            repetition,
            advice: None,
            end: None,
        }
    }

    async fn record(&mut self, scribe: &mut Scribe, ended: Ended) -> Result<(), AgentError> {
        let Some(call) = self.calls.iter().find(|call| call.id == ended.call) else {
            return Ok(());
        };
        match self.repetition.note(call, &ended.output) {
            Verdict::Fine => {}
            Verdict::Tell(text) => self.advice = Some(text),
            Verdict::End(text) => self.end = Some(text),
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
                denied: Some(ended.denied),
            })
            .await
    }
}
