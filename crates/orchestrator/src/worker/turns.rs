//! Runs the agent turn by turn, one message each, until there are no more messages.

use std::future::pending;
use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use protocol::job::Cause;
use protocol::{AgentCommand, EventKind, Outcome};
use store::StoreError;
use tokio::time::{Instant, sleep_until};

use super::agent_task::AgentTask;
use super::parking::TransientFailure;
use super::verdict::{AfterTurn, StopReason, end_of_stop, next};
use super::{INTERRUPT_GRACE_PERIOD, WorkResult, Worker};
use crate::job::{JobChange, JobEnd};
use crate::parts::ChangeError;

/// Minimum wait for a message, even if other jobs need the slot.
const MIN_MESSAGE_WAIT: Duration = Duration::from_secs(10);

enum TurnEnd {
    /// The agent reported the end.
    Over,
    /// It was stopped, and the agent did not report the end in time.
    Stopped(StopReason),
    /// The agent refused to start it.
    Refused(String),
    /// The agent is gone.
    Broken,
}

impl Worker {
    /// The first command for the agent: continue an interrupted turn, or else the next message.
    pub(super) async fn first_command(&self) -> Result<Option<AgentCommand>, StoreError> {
        if self.progress.is_in_turn() || self.progress.transient_failure().is_some() {
            Ok(Some(AgentCommand::Continue))
        } else {
            self.next_message().await
        }
    }

    /// The first message that the agent has not received, by the number of turns.
    async fn next_message(&self) -> Result<Option<AgentCommand>, StoreError> {
        let number = self.progress.turns + 1;
        let messages = self.parts.jobs.messages(self.job.id, number).await?;
        let next = messages
            .into_iter()
            .find(|message| message.number == number);
        Ok(next.map(|message| AgentCommand::prompt(message.text)))
    }

    /// Runs turns until there is nothing more to do.
    pub(super) async fn run_turns(
        &mut self,
        agent: &mut AgentTask,
        first: AgentCommand,
    ) -> WorkResult {
        let mut command = first;
        loop {
            if let Err(ending) = self.run_turn(agent, command).await {
                return ending;
            }
            command = match self.next_command(agent).await {
                Ok(command) => command,
                Err(ending) => return ending,
            };
        }
    }

    /// Runs one turn to its end. An error ends the work on the job.
    async fn run_turn(
        &mut self,
        agent: &mut AgentTask,
        command: AgentCommand,
    ) -> Result<(), WorkResult> {
        agent.send(command).await;
        let (turn, stop) = self.follow_turn(agent).await;
        // Interrupts of this turn do not apply to the next one.
        self.interrupts.mark_unchanged();
        match (turn, stop) {
            (TurnEnd::Refused(reason), _) => {
                Err(WorkResult::last(JobEnd::failed(Cause::Agent, reason)))
            }
            (TurnEnd::Stopped(stop), _) => Err(self.stopped(stop)),
            (TurnEnd::Broken, None) => Err(agent.failure().await),
            (TurnEnd::Broken, Some(stop)) => Err(self.stopped(stop)),
            (TurnEnd::Over, None) => Ok(()),
            // A turn that completed just in time counts, unless the job was cancelled.
            (TurnEnd::Over, Some(StopReason::Deadline | StopReason::Stuck))
                if self.progress.outcome == Some(Outcome::Done) =>
            {
                Ok(())
            }
            (TurnEnd::Over, Some(stop)) => Err(self.stopped(stop)),
        }
    }

    /// Handles events until the turn is over, and stops the turn if necessary. Returns the reason
    /// if it was stopped.
    async fn follow_turn(&mut self, agent: &mut AgentTask) -> (TurnEnd, Option<StopReason>) {
        let claimed = self.claimed.clone();
        let clock = self.parts.clock.clone();
        let stuck_after = self.parts.config.stuck_after;
        let mut last_event = clock.now();
        let mut stop = None;
        let mut abandon_at: Option<Instant> = None;
        loop {
            let deadline = self.deadline();
            let reason = tokio::select! {
                biased;
                () = claimed.parked.cancelled() => {
                    return (TurnEnd::Stopped(StopReason::Parked), stop);
                }
                event = agent.next_event() => {
                    let Some(event) = event else {
                        return (TurnEnd::Broken, stop);
                    };
                    last_event = clock.now();
                    self.handle_event(&event);
                    match event.kind {
                        EventKind::TurnEnded { .. } => return (TurnEnd::Over, stop),
                        // No turn was started, so none will end.
                        EventKind::CommandRefused { reason } => {
                            return (TurnEnd::Refused(reason), stop);
                        }
                        _ => continue,
                    }
                }
                Ok(()) = self.interrupts.changed() => {
                    agent.send(AgentCommand::Interrupt).await;
                    continue;
                }
                () = until(abandon_at) => return (TurnEnd::Stopped(stop.unwrap_or(StopReason::Stuck)), stop),
                () = claimed.cancelled.cancelled(), if stop.is_none() => StopReason::Cancelled,
                () = clock.sleep_until(deadline), if stop.is_none() => StopReason::Deadline,
                () = clock.sleep_until(last_event.saturating_add(stuck_after)), if stop.is_none() => StopReason::Stuck,
            };
            stop = Some(reason);
            abandon_at = Some(Instant::now() + INTERRUPT_GRACE_PERIOD);
            agent.send(AgentCommand::Interrupt).await;
        }
    }

    /// After a turn: returns the next message, waiting for it if necessary. An error ends the work
    /// on the job.
    async fn next_command(&mut self, agent: &mut AgentTask) -> Result<AgentCommand, WorkResult> {
        if let Some(reason) = self.progress.transient_failure() {
            let asked = self.requested_wait.lock();
            return Err(WorkResult::Deferred(TransientFailure {
                cause: Cause::Provider,
                reason: reason.to_owned(),
                requested_wait: *asked.unwrap_or_else(PoisonError::into_inner),
            }));
        }
        if let Some(command) = self.next_message().await.map_err(WorkResult::store)? {
            return Ok(command);
        }
        let outcome = self.progress.outcome.clone().unwrap_or(Outcome::Done);
        match next(&outcome, self.job.request.interactive) {
            AfterTurn::End(end) => Err(WorkResult::unless_messaged(end)),
            AfterTurn::Wait(end) => self.wait(agent, end).await,
        }
    }

    /// Waits for a message, as long as the job may.
    async fn wait(
        &mut self,
        agent: &mut AgentTask,
        end: JobEnd,
    ) -> Result<AgentCommand, WorkResult> {
        let claimed = self.claimed.clone();
        claimed.stopwatch.pause();
        let (epoch, ran_millis) = (claimed.epoch, claimed.stopwatch.millis());
        self.change(JobChange::Wait { epoch, ran_millis }).await?;
        let begun = Instant::now();
        let mut until = begun + self.parts.config.linger.min(self.message_wait);
        let ending = self.parts.ending.clone();
        let mut has_yielded = false;
        claimed.set_waiting(Some(begun));
        self.parts.loads.wake();
        let command = loop {
            tokio::select! {
                biased;
                () = claimed.parked.cancelled() => return Err(WorkResult::Parked),
                () = claimed.cancelled.cancelled() => return Err(self.stopped(StopReason::Cancelled)),
                () = claimed.message_added.notified() => {
                    if let Some(command) = self.next_message().await.map_err(WorkResult::store)? {
                        break command;
                    }
                }
                event = agent.next_event() => match event {
                    Some(event) => self.handle_event(&event),
                    None => return Err(agent.failure().await),
                },
                () = claimed.yield_requested.cancelled(), if !has_yielded => {
                    has_yielded = true;
                    until = until.min(begun + MIN_MESSAGE_WAIT);
                }
                () = sleep_until(until) => return Err(WorkResult::unless_messaged(end)),
                () = ending.cancelled() => return Err(WorkResult::unless_messaged(end)),
            }
        };
        claimed.set_waiting(None);
        self.message_wait = self.message_wait.saturating_sub(begun.elapsed());
        claimed.stopwatch.resume();
        self.change(JobChange::Resume { epoch }).await?;
        Ok(command)
    }

    /// Changes the job's record under this claim.
    async fn change(&mut self, change: JobChange) -> Result<(), WorkResult> {
        let give_up = self.claimed.parked.clone();
        let changed = self
            .parts
            .change_with_retry(&mut self.job, change, &give_up);
        match changed.await {
            Ok(()) => Ok(()),
            Err(ChangeError::Store(_)) => Err(WorkResult::Parked),
            Err(ChangeError::Refused(_) | ChangeError::Gone) => Err(WorkResult::Lost),
        }
    }

    /// The end of a job that is stopped.
    pub(super) fn stopped(&self, stop: StopReason) -> WorkResult {
        match end_of_stop(stop, self.timeout) {
            Some(end) => WorkResult::last(end),
            None => WorkResult::Parked,
        }
    }

    /// The job's deadline on the server's clock.
    pub(super) fn deadline(&self) -> Duration {
        let ran = self.claimed.stopwatch.elapsed();
        let left = self.timeout.saturating_sub(ran);
        self.parts.clock.now().saturating_add(left)
    }

    pub(super) fn log_line(&mut self, what: &str, text: impl std::fmt::Display) {
        self.log.line(Timestamp::now(), what, text);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

impl WorkResult {
    fn store(error: StoreError) -> Self {
        Self::of_error(Cause::Server, &error)
    }
}
