//! Runs one job under one claim: folder, sandbox, agent, turns, artifact, end.
//!
//! A worker derives the job's progress only from the session's events, so that it can continue
//! after another worker was cut off. It writes to the job's record only under its own epoch. Entry
//! point: [`run_job`].

mod agent_task;
mod finish;
mod log;
mod monitored_model;
mod parking;
mod progress;
mod turns;
mod verdict;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use agent::{Approvals, SessionSetup};
use audit::AuditLog;
use protocol::job::{Cause, Job};
use protocol::{Event, Spending};
use store::{Journal, StoreError};
use tokio::sync::watch;
use tools::ToolSet;
use tracing::warn;

use crate::exhaustion;
use crate::folder::JobFolder;
use crate::hub::JobChannel;
use crate::input;
use crate::job::JobEnd;
use crate::parts::{ServerParts, chain};
use crate::plan;
use crate::running_jobs::ClaimedJob;
use agent_task::{AgentExit, AgentTask};
use log::JobLog;
use monitored_model::{MonitoredModel, SharedRetryAfter};
use parking::TransientFailure;
use progress::SessionProgress;
use verdict::{StopReason, end_of};

/// Time for an agent to stop its turn after an interrupt.
const INTERRUPT_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// The session may still be locked by the last write of an aborted agent.
const MAX_LOCK_TRIES: u32 = 50;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerExit {
    Ended,
    /// The job is queued again.
    Queued,
    /// The store failed, or another claim has begun.
    Unknown,
}

/// The result of working on a job.
#[derive(Debug)]
enum WorkResult {
    Ended {
        end: JobEnd,
        /// Whether the job ends even if a message arrived meanwhile.
        is_last: bool,
    },
    /// A later worker continues.
    Parked,
    /// A transient failure: a later worker continues after a delay.
    Deferred(TransientFailure),
    /// Another claim has begun.
    Lost,
}

impl WorkResult {
    fn last(end: JobEnd) -> Self {
        Self::Ended { end, is_last: true }
    }

    /// Defers the job if a resource of the server is exhausted; otherwise the job has failed.
    fn of_error(cause: Cause, error: &(dyn Error + 'static)) -> Self {
        let message = chain(error);
        match exhaustion::what_ran_out(error) {
            Some(what) => Self::Deferred(TransientFailure::starved(what, &message)),
            None => failed(cause, message),
        }
    }

    fn unless_messaged(end: JobEnd) -> Self {
        Self::Ended {
            end,
            is_last: false,
        }
    }
}

#[derive(Debug)]
struct Worker {
    parts: Arc<ServerParts>,
    job: Job,
    claimed: Arc<ClaimedJob>,
    /// Interrupts that were not passed on to the agent yet.
    interrupts: watch::Receiver<u64>,
    channel: Arc<JobChannel>,
    folder: JobFolder,
    log: JobLog,
    progress: SessionProgress,
    /// Replies of the model before this claim.
    replies_before: usize,
    requested_wait: SharedRetryAfter,
    /// How long the job may run.
    timeout: Duration,
    /// Remaining time that the job may wait for messages.
    message_wait: Duration,
}

/// Works on a claimed job until it has ended or is queued again.
pub(crate) async fn run_job(
    parts: Arc<ServerParts>,
    job: Job,
    claimed: Arc<ClaimedJob>,
) -> WorkerExit {
    let config = &parts.config;
    let mut interrupts = claimed.interrupts.subscribe();
    if *interrupts.borrow() > 0 {
        interrupts.mark_changed();
    }
    let mut worker = Worker {
        interrupts,
        channel: parts.hub.channel(job.id),
        folder: JobFolder::new(&config.data, job.id),
        log: JobLog::none(),
        progress: SessionProgress::of(&[]),
        replies_before: 0,
        requested_wait: SharedRetryAfter::default(),
        timeout: plan::timeout(&job.request, &config.policy),
        message_wait: plan::message_wait(&job.request, config),
        claimed,
        job,
        parts,
    };
    let ending = worker.run().await;
    worker.end(ending).await
}

impl Worker {
    async fn run(&mut self) -> WorkResult {
        let (journal, history) = match self.open_session().await {
            Ok(opened) => opened,
            Err(error) => return WorkResult::of_error(Cause::Server, &error),
        };
        self.progress = SessionProgress::of(&history);
        self.replies_before = self.progress.replies;
        self.claimed.set_spending(&self.progress.spending);
        self.channel.begin(self.progress.seq);
        let command = match self.first_command().await {
            Ok(Some(command)) => command,
            // All turns were done before the last claim was cut off; only the end is missing.
            Ok(None) => {
                let outcome = self.progress.outcome.as_ref();
                return WorkResult::unless_messaged(outcome.map_or(JobEnd::Complete, end_of));
            }
            Err(error) => return WorkResult::of_error(Cause::Server, &error),
        };
        let mut agent = match self.start_agent(journal, history).await {
            Ok(agent) => agent,
            Err(ending) => return ending,
        };
        let ending = self.run_turns(&mut agent, command).await;
        match &ending {
            WorkResult::Ended { .. } | WorkResult::Deferred(_) if !self.progress.is_in_turn() => {
                self.end_agent(agent).await;
            }
            _ => agent.abort().await,
        }
        ending
    }

    /// Lets the agent end gracefully. If it is cut short, its last turn's changes may not be
    /// recorded; this is reported.
    async fn end_agent(&mut self, agent: AgentTask) {
        let time_limit = self.parts.config.stuck_after;
        let stopping = self.claimed.parked.clone().cancelled_owned();
        let ended = agent.end(|event| self.handle_event(event), time_limit, stopping);
        if ended.await == AgentExit::CutShort {
            warn!(job = %self.job.id, "agent was cut short after its last turn");
            self.log_line(
                "agent",
                "cut short after its last turn: an undo of that turn may miss some of its changes",
            );
        }
    }

    /// Opens the session with its events so far. A session without a first event is new.
    async fn open_session(&self) -> Result<(Journal, Vec<Event>), StoreError> {
        let session = self
            .job
            .session
            .as_ref()
            .expect("a claimed job has a session");
        let store = &self.parts.store;
        let mut tries = 0;
        loop {
            let opened = match store.claim(session).await {
                Err(StoreError::Unknown(_)) => {
                    let begun = store.begin(session.clone()).await;
                    begun.map(|journal| (journal, Vec::new()))
                }
                opened => opened,
            };
            match opened {
                Err(StoreError::InUse(_)) if tries < MAX_LOCK_TRIES => {
                    tries += 1;
                    tokio::time::sleep(LOCK_RETRY_DELAY).await;
                }
                opened => return opened,
            }
        }
    }

    /// Prepares the workspace and starts the agent.
    async fn start_agent(
        &mut self,
        journal: Journal,
        history: Vec<Event>,
    ) -> Result<AgentTask, WorkResult> {
        let ran = self.claimed.stopwatch.elapsed();
        let audit = AuditLog::open(self.folder.audit())
            .map_err(|error| WorkResult::of_error(Cause::Server, &error))?;
        let config = &self.parts.config;
        let mut spec = plan::spec(&self.job, &self.folder, config, ran, Arc::new(audit))
            .map_err(|error| failed(Cause::Sandbox, chain(&error)))?;
        let granted = self.parts.disk.grant(self.job.id, spec.limits.disk);
        spec.limits.disk = granted.ok_or_else(|| {
            let message = "there is no room for another sandbox";
            WorkResult::Deferred(TransientFailure::starved("disk space", message))
        })?;
        let prepared = tokio::select! {
            biased;
            () = self.claimed.parked.cancelled() => return Err(WorkResult::Parked),
            () = self.claimed.cancelled.cancelled() => return Err(self.stopped(StopReason::Cancelled)),
            () = self.parts.clock.sleep_until(self.deadline()) => {
                return Err(self.stopped(StopReason::Deadline));
            }
            prepared = input::prepare(&self.job, &self.folder, &spec) => prepared,
        };
        prepared.map_err(|error| WorkResult::of_error(Cause::Input, &error))?;
        self.log = JobLog::open(&self.folder.log());
        let epoch = self.job.epoch;
        self.log_line("job", format_args!("claim {epoch} begins"));

        let request = &self.job.request;
        let models = &self.parts.models;
        let mut chosen = models
            .choose_or_default(request.model.as_deref(), self.progress.replies)
            .map_err(|reason| failed(Cause::Provider, reason))?;
        chosen.model = Arc::new(MonitoredModel {
            model: chosen.model,
            parts: self.parts.clone(),
            provider: models.provider_or_default(request.model.as_deref()),
            job: self.job.id,
            requested_wait: self.requested_wait.clone(),
        });
        let policy = &self.parts.config.policy;
        Ok(AgentTask::start(SessionSetup {
            store: self.parts.store.clone(),
            journal,
            model: chosen,
            models: self.parts.models.clone(),
            sandbox: spec,
            tools: watch::Sender::new(ToolSet::standard()).subscribe(),
            budget: plan::budget(request, policy),
            time_limit: None,
            spent: Spending {
                seconds: ran.as_secs_f64(),
                ..agent::spent(&history)
            },
            history,
            max_tokens: policy.max_tokens,
            // Policy decides everything: there is no user to ask.
            approvals: Approvals::default(),
        }))
    }

    /// Handles an event of the agent: updates progress, log and followers.
    fn handle_event(&mut self, event: &Event) {
        self.progress.apply(event);
        self.claimed.set_spending(&self.progress.spending);
        self.log.note(event);
        self.channel.publish(event);
    }
}

fn failed(cause: Cause, message: impl Into<String>) -> WorkResult {
    WorkResult::last(JobEnd::failed(cause, message))
}
