//! Runs the calls of one reply and records their results.

use std::pin::pin;

use futures_util::StreamExt;
use protocol::{EventKind, Outcome, ShownOutput};
use sandbox::SandboxError;

use crate::checkpoint::SnapshotTask;
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::repetition::{RepetitionDetector, RepetitionVerdict};
use crate::session::Session;
use crate::step::ToolCall;
use crate::stopper::TurnStopper;
use crate::tool_runner::{EndedCall, changes, error_output, split_into_batches};

/// The calls of one reply, and how to react if they repeat earlier ones.
pub(crate) struct CallRound<'a> {
    calls: &'a [ToolCall],
    repetition: &'a mut RepetitionDetector,
    /// A note for the model.
    note: Option<String>,
    /// Why the turn ends.
    end: Option<String>,
}

impl Session {
    /// Runs calls. Returns how the turn ends if they end it.
    pub(crate) async fn run_calls(
        &mut self,
        turn: u32,
        mut round: CallRound<'_>,
        stopper: &TurnStopper,
        snapshot: &mut Option<SnapshotTask>,
    ) -> Result<Option<Outcome>, AgentError> {
        let tools = self.tools.set.clone();
        for batch in split_into_batches(&tools, round.calls) {
            let mut is_recorded = snapshot.is_none();
            if batch.iter().any(|call| changes(&tools, call))
                && let Some(snapshot) = snapshot.take()
            {
                let sandbox = self.ensure_sandbox().await?;
                let recorder = &mut self.recorder;
                is_recorded = self
                    .checkpoints
                    .record_before(turn, snapshot, &sandbox, recorder, stopper)
                    .await?;
            }
            let Some(lost) = self.run_batch(batch, stopper, &mut round).await? else {
                continue;
            };
            self.replace_sandbox(lost, &mut round).await?;
            // The snapshot started in the old sandbox is lost with it.
            if !is_recorded {
                let sandbox = self.ensure_sandbox().await?;
                *snapshot = Some(self.checkpoints.start_snapshot(sandbox));
            }
        }
        if let Some(reason) = round.end {
            return Ok(Some(Outcome::Failed { reason }));
        }
        if let Some(text) = round.note {
            self.recorder.record(EventKind::Noted { text }).await?;
        }
        Ok(None)
    }

    /// Runs calls concurrently. Returns those whose sandbox was lost, if any.
    async fn run_batch(
        &mut self,
        batch: &[ToolCall],
        stopper: &TurnStopper,
        round: &mut CallRound<'_>,
    ) -> Result<Option<LostCalls>, AgentError> {
        let sandbox = self.ensure_sandbox().await?;
        let sender = self.recorder.sender().clone();
        let runner = self.tools.runner(sandbox, &sender, stopper.token());
        let mut lost: Option<LostCalls> = None;
        let mut running = pin!(runner.run(batch));
        while let Some(mut ended) = running.next().await {
            match (ended.sandbox_error.take(), &mut lost) {
                (None, _) => round.record(&mut self.recorder, ended).await?,
                (Some(_), Some(lost)) => lost.calls.push(ended),
                (Some(error), None) => {
                    lost = Some(LostCalls {
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
        lost: LostCalls,
        round: &mut CallRound<'_>,
    ) -> Result<(), AgentError> {
        let reason = self.sandbox.replace(&lost.error).await;
        let text = format!(
            "The sandbox was lost while this ran: {reason}. A new one was started: files in \
             /workspace are as they were, but the shell's state, background commands and all \
             other files are gone."
        );
        self.ensure_sandbox().await?;
        for mut ended in lost.calls {
            ended.output = error_output(text.clone());
            ended.summary.output = ShownOutput::Text;
            round.record(&mut self.recorder, ended).await?;
        }
        Ok(())
    }
}

/// Calls whose sandbox failed while they ran.
struct LostCalls {
    error: SandboxError,
    calls: Vec<EndedCall>,
}

impl<'a> CallRound<'a> {
    pub(crate) fn new(calls: &'a [ToolCall], repetition: &'a mut RepetitionDetector) -> Self {
        Self {
            calls,
            repetition,
            note: None,
            end: None,
        }
    }

    async fn record(
        &mut self,
        recorder: &mut EventRecorder,
        ended: EndedCall,
    ) -> Result<(), AgentError> {
        let Some(call) = self.calls.iter().find(|call| call.id == ended.call) else {
            return Ok(());
        };
        match self.repetition.add(call, &ended.output) {
            RepetitionVerdict::Fine => {}
            RepetitionVerdict::Warn(text) => self.note = Some(text),
            RepetitionVerdict::End(text) => self.end = Some(text),
        }
        recorder
            .record(EventKind::ToolEnded {
                call: ended.call,
                name: call.name.clone(),
                content: ended.output.content,
                is_error: ended.output.is_error,
                kept: ended.output.kept,
                changes: ended.output.changes,
                millis: ended.millis,
                denied: Some(ended.denied),
                summary: Some(Box::new(ended.summary)),
            })
            .await
    }
}
