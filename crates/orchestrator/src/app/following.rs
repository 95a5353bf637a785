//! Follows a job: first its stored events, then live ones, without gaps or duplicates.
//!
//! Does nothing while it is not polled: updates wait in the job's channel, and a follower that lags
//! too far behind reads the store again. Entry type: [`JobFollower`].

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::SessionId;
use protocol::job::{Job, JobId};
use store::StoreError;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tracing::warn;

use super::{App, AppError, Caller};
use crate::hub::{JobUpdate, Subscription};
use crate::parts::{ServerParts, chain};

/// Events per query.
const EVENT_PAGE_SIZE: u32 = 256;

impl App {
    /// The job itself, then its persistent events after `after`, then live updates until its end.
    pub(crate) async fn follow(
        &self,
        caller: &Caller,
        id: JobId,
        after: u64,
    ) -> Result<JobFollower, AppError> {
        self.job(caller, id).await?;
        Ok(JobFollower {
            parts: self.parts.clone(),
            id,
            seq: after,
            revision: None,
            ready: VecDeque::new(),
            phase: FollowPhase::Begin,
        })
    }

    /// The sequence number of the last persistent event of the job's session; 0 if there is none.
    pub(crate) async fn last_event(&self, caller: &Caller, id: JobId) -> Result<u64, AppError> {
        let job = self.job(caller, id).await?;
        let Some(session) = &job.session else {
            return Ok(0);
        };
        match self.parts.store.summary(session).await {
            Ok(summary) => Ok(summary.events),
            Err(StoreError::Unknown(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// The updates of one job for one reader.
#[derive(Debug)]
pub(crate) struct JobFollower {
    parts: Arc<ServerParts>,
    id: JobId,
    /// Sequence number of the last persistent event that was taken over into `ready`.
    seq: u64,
    /// Revision of the last job record that was taken over into `ready`.
    revision: Option<u64>,
    /// Updates that the reader gets next.
    ready: VecDeque<JobUpdate>,
    phase: FollowPhase,
}

#[derive(Debug)]
enum FollowPhase {
    /// Subscribes and reads the job's record. A follower that has lagged begins again.
    Begin,
    /// Reads stored events, page by page.
    Stored {
        subscription: Subscription,
        session: SessionId,
        has_ended: bool,
    },
    /// Receives live updates.
    Live(Subscription),
    Over,
}

impl JobFollower {
    /// The next update. `None` after the end of the job, when the server is closing, and when the
    /// store fails. Dropping the future loses no update.
    pub(crate) async fn next(&mut self) -> Option<JobUpdate> {
        let closing = self.parts.closing.clone();
        while self.ready.is_empty() && !matches!(self.phase, FollowPhase::Over) {
            tokio::select! {
                biased;
                () = closing.cancelled() => self.phase = FollowPhase::Over,
                advanced = self.advance() => {
                    if let Err(error) = advanced {
                        warn!(job = %self.id, error = %chain(&error), "cannot follow a job");
                        self.phase = FollowPhase::Over;
                    }
                }
            }
        }
        self.ready.pop_front()
    }

    /// The next update if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<JobUpdate> {
        while self.ready.is_empty()
            && let FollowPhase::Live(subscription) = &mut self.phase
        {
            match subscription.updates.try_recv() {
                Ok(update) => self.receive(update),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Lagged(_)) => self.phase = FollowPhase::Begin,
                Err(TryRecvError::Closed) => self.phase = FollowPhase::Over,
            }
        }
        self.ready.pop_front()
    }

    /// Takes over the next updates. Waits before it changes anything, so that it can be cancelled.
    async fn advance(&mut self) -> Result<(), StoreError> {
        match &mut self.phase {
            FollowPhase::Begin => self.begin().await?,
            FollowPhase::Stored { session, .. } => {
                let store = &self.parts.store;
                let events = store
                    .events_after(session, self.seq, EVENT_PAGE_SIZE)
                    .await?;
                for event in &events {
                    self.seq = event.seq.unwrap_or(self.seq);
                    self.ready.extend(JobUpdate::of_event(event));
                }
                if events.len() < EVENT_PAGE_SIZE as usize {
                    self.end_stored();
                }
            }
            FollowPhase::Live(subscription) => match subscription.updates.recv().await {
                Ok(update) => self.receive(update),
                Err(RecvError::Lagged(_)) => self.phase = FollowPhase::Begin,
                Err(RecvError::Closed) => self.phase = FollowPhase::Over,
            },
            FollowPhase::Over => {}
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        // Subscribe before reading the store, so that no event is missed in between. Read the record
        // before the events: when the job has ended, all of its events are stored.
        let subscription = self.parts.hub.channel(self.id).join();
        let Some(job) = self.parts.jobs.job(self.id).await? else {
            self.end();
            return Ok(());
        };
        let session = job.session.clone();
        let has_ended = job.state.has_ended();
        if self.is_new_revision(&job) {
            self.ready.push_back(JobUpdate::of_job(job));
        }
        match session {
            Some(session) => {
                self.phase = FollowPhase::Stored {
                    subscription,
                    session,
                    has_ended,
                };
            }
            None if has_ended => self.end(),
            None => self.begin_live(subscription),
        }
        Ok(())
    }

    /// All stored events were taken over.
    fn end_stored(&mut self) {
        match std::mem::replace(&mut self.phase, FollowPhase::Over) {
            FollowPhase::Stored {
                subscription,
                has_ended: false,
                ..
            } => self.begin_live(subscription),
            _ => self.end(),
        }
    }

    fn begin_live(&mut self, mut subscription: Subscription) {
        let tail = std::mem::take(&mut subscription.tail);
        // Skip deltas that a stored event has since replaced.
        if self.seq <= subscription.seq {
            self.ready.extend(tail);
        }
        self.phase = FollowPhase::Live(subscription);
    }

    /// Takes over a live update, unless the reader has it already.
    fn receive(&mut self, update: JobUpdate) {
        let FollowPhase::Live(subscription) = &mut self.phase else {
            return;
        };
        match &update {
            JobUpdate::Event { seq: Some(seq), .. } => {
                subscription.seq = *seq;
                if *seq > self.seq + 1 {
                    // An event is missing.
                    self.phase = FollowPhase::Begin;
                } else if *seq == self.seq + 1 {
                    self.seq = *seq;
                    self.ready.push_back(update);
                }
            }
            JobUpdate::Event { seq: None, .. } => {
                if subscription.seq >= self.seq {
                    self.ready.push_back(update);
                }
            }
            JobUpdate::Job(snapshot) => {
                let has_ended = snapshot.job.state.has_ended();
                if self.is_new_revision(&snapshot.job) {
                    self.ready.push_back(update);
                }
                if has_ended {
                    self.end();
                }
            }
            JobUpdate::End => {}
        }
    }

    fn end(&mut self) {
        self.ready.push_back(JobUpdate::End);
        self.phase = FollowPhase::Over;
    }

    /// Whether the record is later than the last one. If so, it is the last one now.
    fn is_new_revision(&mut self, job: &Job) -> bool {
        let is_new = self.revision < Some(job.revision);
        if is_new {
            self.revision = Some(job.revision);
        }
        is_new
    }
}
