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
        let sandbox = self.ensure_sandbox().await?;
        let spec = self.sandbox.spec();
        self.model.ensure_system_prompt(spec, &sandbox).await;
        let mut snapshot = Some(self.checkpoints.start_snapshot(sandbox));
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
            if let Some(outcome) = self.model.stop_outcome(stopper) {
                return Ok(outcome);
            }
            if let Some(outcome) = self.model.exceeded() {
                return Ok(outcome);
            }
            request += 1;
            let reply = match self.request_reply(turn, request, stopper).await {
                ReplyOutcome::Replied(reply) => reply,
                ReplyOutcome::Failed(error) => return Ok(failure(&error)),
                ReplyOutcome::Stopped(partial) => {
                    let recorder = &mut self.recorder;
                    self.model.record_partial(turn, partial, recorder).await?;
                    continue;
                }
            };
            let (content, broken) = (&reply.content, &reply.broken_calls);
            let step = next_step(&mut counters, content, &reply.stop, broken);
            self.model
                .record_reply(turn, reply, &mut self.recorder)
                .await?;
            match step {
                TurnStep::End(outcome) => return Ok(outcome),
                TurnStep::Ask { note: None } => {}
                TurnStep::Ask { note: Some(text) } => {
                    let text = text.to_owned();
                    self.recorder.record(EventKind::Noted { text }).await?;
                }
                TurnStep::Call(calls) => {
                    let round = CallRound::new(&calls, &mut repetition);
                    if let Some(outcome) = self.run_calls(turn, round, stopper, snapshot).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    async fn request_reply(
        &mut self,
        turn: u32,
        request: u32,
        stopper: &TurnStopper,
    ) -> ReplyOutcome {
        let Self {
            model, recorder, ..
        } = self;
        recorder
            .send(EventKind::RequestStarted { turn, request })
            .await;
        let messages = recorder.conversation.messages();
        model
            .request_reply(messages, recorder.sender(), |_| true, stopper)
            .await
    }
}
