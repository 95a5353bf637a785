//! Runs a turn: asks the model, runs its calls, asks again. [`crate::step`] decides.

use protocol::{EventKind, Outcome};

use crate::asking::{Asked, failure};
use crate::calling::Round;
use crate::checkpoint::Snapshot;
use crate::error::AgentError;
use crate::repetition::Repetition;
use crate::session::Session;
use crate::step::{Run, Step, next_step};
use crate::stopper::Stopper;

impl Session {
    pub(crate) async fn perform(
        &mut self,
        turn: u32,
        stopper: &Stopper,
    ) -> Result<Outcome, AgentError> {
        let sandbox = self.sandbox(None).await?;
        // Started now, so that little is left to read when the model wants to change something.
        let known = self.baseline.known();
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
            let reply = match self.ask(stopper).await {
                Asked::Replied(reply) => reply,
                Asked::Failed(error) => return Ok(failure(&error)),
                Asked::Stopped(partial) => {
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
                    let round = Round::new(&calls, &mut repetition);
                    if let Some(outcome) = self.call(turn, round, stopper, snapshot).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    pub(crate) async fn note(&mut self, text: String) -> Result<(), AgentError> {
        self.scribe.record(EventKind::Noted { text }).await
    }
}
