//! Runs a turn: asks the model, runs its calls, asks again. [`crate::step`] decides.

use protocol::{EventKind, Outcome};

use crate::checkpoint::SnapshotTask;
use crate::error::AgentError;
use crate::model_request::{ReplyOutcome, failure};
use crate::repetition::RepetitionDetector;
use crate::run_calls::CallRound;
use crate::session::Session;
use crate::step::{TurnCounters, TurnStep, next_step};
use crate::stopper::TurnStopper;

impl Session {
    pub(crate) async fn perform_turn(
        &mut self,
        turn: u32,
        stopper: &TurnStopper,
    ) -> Result<Outcome, AgentError> {
        let sandbox = self.ensure_sandbox(None).await?;
        // Started now, so that little is left to read when the model wants to change something.
        let known = self.baseline.known();
        let mut snapshot = Some(SnapshotTask::start(sandbox, self.store.clone(), known));
        let outcome = self.run_steps(turn, stopper, &mut snapshot).await;
        if let Some(snapshot) = snapshot {
            snapshot.cancel().await;
        }
        outcome
    }

    async fn run_steps(
        &mut self,
        turn: u32,
        stopper: &TurnStopper,
        snapshot: &mut Option<SnapshotTask>,
    ) -> Result<Outcome, AgentError> {
        let mut counters = TurnCounters::default();
        let mut repetition = RepetitionDetector::default();
        let mut request = 0;
        loop {
            if let Some(outcome) = self.stop_outcome(stopper) {
                return Ok(outcome);
            }
            if let Some(outcome) = self.ledger.exceeded(self.elapsed()) {
                return Ok(outcome);
            }
            request += 1;
            self.sender
                .send(EventKind::RequestStarted { turn, request })
                .await;
            let reply = match self.request_reply(stopper).await {
                ReplyOutcome::Replied(reply) => reply,
                ReplyOutcome::Failed(error) => return Ok(failure(&error)),
                ReplyOutcome::Stopped(partial) => {
                    self.record_partial(turn, partial).await?;
                    continue;
                }
            };
            let step = next_step(
                &mut counters,
                &reply.content,
                &reply.stop,
                &reply.broken_calls,
            );
            self.record_reply(turn, reply).await?;
            match step {
                TurnStep::End(outcome) => return Ok(outcome),
                TurnStep::Ask { note: None } => {}
                TurnStep::Ask { note: Some(text) } => self.note(text.to_owned()).await?,
                TurnStep::Call(calls) => {
                    let round = CallRound::new(&calls, &mut repetition);
                    if let Some(outcome) = self.run_calls(turn, round, stopper, snapshot).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    pub(crate) async fn note(&mut self, text: String) -> Result<(), AgentError> {
        self.recorder.record(EventKind::Noted { text }).await
    }
}
