//! What the followers of a job receive. Each text is written once and shared by all followers.
//! Never reads the store. Entry type: [`JobUpdate`].

use std::sync::{Arc, OnceLock};

use protocol::job::Job;
use protocol::{Event, EventKind};
use tracing::error;

/// An update of a job. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum JobUpdate {
    /// The job's record, sent first and after each change.
    Job(Arc<JobSnapshot>),
    /// An event of the agent. Persistent events have a sequence number.
    Event {
        seq: Option<u64>,
        turn: Option<TurnBoundary>,
        json: Arc<str>,
    },
    /// The job has ended and all its events were sent.
    End,
}

/// The number of the turn that an event starts or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnBoundary {
    Started(u32),
    Ended(u32),
}

/// A job's record, and the JSON text that is sent for it.
#[derive(Debug)]
pub(crate) struct JobSnapshot {
    pub(crate) job: Job,
    json: OnceLock<Box<str>>,
}

impl JobUpdate {
    pub(crate) fn of_job(job: Job) -> Self {
        Self::Job(Arc::new(JobSnapshot {
            job,
            json: OnceLock::new(),
        }))
    }

    /// `None` if the event cannot be written as JSON.
    pub(crate) fn of_event(event: &Event) -> Option<Self> {
        let turn = match &event.kind {
            EventKind::TurnStarted { turn, .. } => Some(TurnBoundary::Started(*turn)),
            EventKind::TurnEnded { turn, .. } => Some(TurnBoundary::Ended(*turn)),
            _ => None,
        };
        match serde_json::to_string(event) {
            Ok(json) => Some(Self::Event {
                seq: event.seq,
                turn,
                json: json.into(),
            }),
            Err(error) => {
                error!(%error, "event cannot be written as JSON");
                None
            }
        }
    }
}

impl JobSnapshot {
    /// The text that the first call wrote. All callers pass the same function.
    pub(crate) fn json(&self, write: impl FnOnce(&Job) -> String) -> &str {
        self.json.get_or_init(|| write(&self.job).into())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::job::{JobId, JobRequest};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_text_of_a_job_is_written_once_for_all_followers() {
        let id = JobId(Uuid::nil());
        let job = Job::new(id, "a".into(), JobRequest::default(), Timestamp::UNIX_EPOCH);
        let first = JobUpdate::of_job(job);
        let second = first.clone();
        let mut writes = 0;
        for update in [first, second] {
            let JobUpdate::Job(snapshot) = update else {
                panic!("{update:?}");
            };
            let json = snapshot.json(|job| {
                writes += 1;
                job.owner.clone()
            });
            assert_eq!(json, "a");
        }
        assert_eq!(writes, 1);
    }
}
