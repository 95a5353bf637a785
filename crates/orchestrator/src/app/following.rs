//! Follows a job: first its stored events, then live ones, without gaps or duplicates.

use std::sync::Arc;

use protocol::job::JobId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tracing::warn;

use super::{App, AppError, Caller};
use crate::hub::JobUpdate;
use crate::parts::{ServerParts, chain};

/// Events per query.
const EVENT_PAGE_SIZE: u32 = 256;
/// Updates that are buffered for a slow reader. Later ones are read from the store.
const MAX_BUFFERED_UPDATES: usize = 64;

impl App {
    /// The job itself, then its persistent events after `after`, then live updates until its end.
    /// Also ends when the receiver is dropped.
    pub(crate) async fn follow(
        &self,
        caller: &Caller,
        id: JobId,
        after: u64,
    ) -> Result<mpsc::Receiver<JobUpdate>, AppError> {
        self.job(caller, id).await?;
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_UPDATES);
        let follower = JobFollower {
            parts: self.parts.clone(),
            id,
            sent: after,
            revision: None,
            sender,
        };
        tokio::spawn(follower.run());
        Ok(receiver)
    }

    /// The sequence number of the last persistent event of the job's session; 0 if there is none.
    pub(crate) async fn last_event(&self, caller: &Caller, id: JobId) -> Result<u64, AppError> {
        let job = self.job(caller, id).await?;
        let Some(session) = &job.session else {
            return Ok(0);
        };
        match self.parts.store.summary(session).await {
            Ok(summary) => Ok(summary.events),
            Err(store::StoreError::Unknown(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

struct JobFollower {
    parts: Arc<ServerParts>,
    id: JobId,
    /// Sequence number of the last persistent event that was sent.
    sent: u64,
    /// Revision of the job record that was sent last.
    revision: Option<u64>,
    sender: mpsc::Sender<JobUpdate>,
}

enum FollowStop {
    /// Everything was sent, or the receiver is gone.
    Done,
    /// The follower lagged or missed an event: start again from `sent`.
    Behind,
    Failed(store::StoreError),
}

impl From<store::StoreError> for FollowStop {
    fn from(error: store::StoreError) -> Self {
        Self::Failed(error)
    }
}

impl JobFollower {
    async fn run(mut self) {
        let closing = self.parts.closing.clone();
        let sender = self.sender.clone();
        tokio::select! {
            () = closing.cancelled() => {}
            () = sender.closed() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            match self.round().await {
                FollowStop::Behind => {}
                FollowStop::Done => return,
                FollowStop::Failed(error) => {
                    warn!(job = %self.id, error = %chain(&error), "cannot follow a job");
                    return;
                }
            }
        }
    }

    async fn round(&mut self) -> FollowStop {
        match self.try_follow_once().await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    /// Subscribes, sends what is stored, then forwards live updates.
    async fn try_follow_once(&mut self) -> Result<std::convert::Infallible, FollowStop> {
        // Subscribe before reading the store, so that no event is missed in between.
        let room = self.parts.hub.room(self.id);
        let joined = room.join();
        let has_ended = self.catch_up().await?;
        if has_ended {
            self.pass(JobUpdate::End).await?;
            return Err(FollowStop::Done);
        }
        // Skip deltas that a stored event has since replaced.
        if self.sent <= joined.seq {
            for piece in joined.tail {
                self.pass(piece).await?;
            }
        }
        let mut live = joined.told;
        let mut live_seq = joined.seq;
        loop {
            let told = match live.recv().await {
                Ok(told) => told,
                Err(RecvError::Lagged(_)) => return Err(FollowStop::Behind),
                Err(RecvError::Closed) => return Err(FollowStop::Done),
            };
            match &told {
                JobUpdate::Event { seq: Some(seq), .. } => {
                    live_seq = *seq;
                    if *seq > self.sent + 1 {
                        return Err(FollowStop::Behind);
                    }
                    if *seq == self.sent + 1 {
                        self.sent = *seq;
                        self.pass(told).await?;
                    }
                }
                JobUpdate::Event { seq: None, .. } => {
                    if live_seq >= self.sent {
                        self.pass(told).await?;
                    }
                }
                JobUpdate::Job(snapshot) => {
                    let job = &snapshot.job;
                    let has_ended = job.state.has_ended();
                    if self.revision < Some(job.revision) {
                        self.revision = Some(job.revision);
                        self.pass(told).await?;
                    }
                    if has_ended {
                        self.pass(JobUpdate::End).await?;
                        return Err(FollowStop::Done);
                    }
                }
                JobUpdate::End => {}
            }
        }
    }

    /// Sends the job and all stored events. True if no more will follow.
    async fn catch_up(&mut self) -> Result<bool, FollowStop> {
        // Read the record before the events: when the job has ended, all of its events are stored.
        let job = self.parts.jobs.job(self.id).await?;
        let Some(job) = job else {
            return Ok(true);
        };
        let session = job.session.clone();
        let has_ended = job.state.has_ended();
        if self.revision < Some(job.revision) {
            self.revision = Some(job.revision);
            self.pass(JobUpdate::of_job(job)).await?;
        }
        let Some(session) = session else {
            return Ok(has_ended);
        };
        loop {
            let store = &self.parts.store;
            let events = store
                .events_after(&session, self.sent, EVENT_PAGE_SIZE)
                .await?;
            let is_last = events.len() < EVENT_PAGE_SIZE as usize;
            for event in &events {
                self.sent = event.seq.unwrap_or(self.sent);
                if let Some(told) = JobUpdate::of_event(event) {
                    self.pass(told).await?;
                }
            }
            if is_last {
                return Ok(has_ended);
            }
        }
    }

    async fn pass(&self, told: JobUpdate) -> Result<(), FollowStop> {
        self.sender.send(told).await.map_err(|_| FollowStop::Done)
    }
}
