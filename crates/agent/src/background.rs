//! Watches background commands: reports when they start, print and end. A silent command causes no
//! events. Never starts or ends a command.
//!
//! One task per command polls it through the guest; another sends the list of jobs, at a limited rate.
//! Entry type: [`BackgroundWatcher`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use protocol::{BackgroundJob, EventKind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::event_log::EventSender;
use crate::live_output;
use crate::sandbox_access::{SandboxAccess, SandboxLease};

/// Between two polls of a command that prints, and between two lists in which no job starts or ends.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct BackgroundWatcher {
    watched: watch::Sender<WatchedJobs>,
    access: SandboxAccess,
    tasks: Mutex<JoinSet<()>>,
}

/// The state of all watched jobs.
#[derive(Debug, Default)]
struct WatchedJobs {
    jobs: Vec<(u64, BackgroundJob)>,
    /// Jobs so far. Identifies a job, because job numbers restart with each sandbox.
    count: u64,
    /// Starts and ends so far, which are reported without delay.
    urgent_changes: u64,
}

impl BackgroundWatcher {
    pub(crate) fn new(sender: EventSender, access: SandboxAccess) -> Self {
        let watched = watch::Sender::new(WatchedJobs::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(send_lists(watched.clone(), sender));
        Self {
            watched,
            access,
            tasks: Mutex::new(tasks),
        }
    }

    /// Starts to watch a command.
    pub(crate) fn watch(&self, job: BackgroundJob) {
        let Some(lease) = self.access.try_acquire() else {
            return;
        };
        let number = job.job;
        let mut id = 0;
        self.watched.send_modify(|watched| {
            watched.count += 1;
            watched.urgent_changes += 1;
            id = watched.count;
            watched.jobs.push((id, job));
        });
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Reaps finished tasks.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(watch_job(self.watched.clone(), lease, id, number));
    }

    pub(crate) async fn end(self) {
        let tasks = self.tasks.into_inner();
        tasks
            .unwrap_or_else(PoisonError::into_inner)
            .shutdown()
            .await;
    }
}

impl WatchedJobs {
    fn update(&mut self, id: u64, tail: Option<String>, ending: Option<String>) {
        let found = self.jobs.iter_mut().find(|(known, _)| *known == id);
        if let Some((_, job)) = found {
            self.urgent_changes += u64::from(ending.is_some());
            job.tail = tail.unwrap_or_else(|| std::mem::take(&mut job.tail));
            job.ending = ending;
        }
    }

    /// All jobs. Jobs that have ended are listed once more, then removed.
    fn list(&mut self) -> Vec<BackgroundJob> {
        let jobs = self.jobs.iter().map(|(_, job)| job.clone()).collect();
        self.jobs.retain(|(_, job)| job.ending.is_none());
        jobs
    }
}

/// Polls a command and updates its entry until it has ended.
async fn watch_job(watched: watch::Sender<WatchedJobs>, lease: SandboxLease, id: u64, number: u32) {
    let mut seen = 0;
    loop {
        let polled = lease
            .run(async |sandbox| {
                let tail = sandbox.tail(number, seen).await?;
                let ending = tail.ended.as_ref();
                let ending = ending.map(|exit| tools::describe_background_exit(exit, sandbox));
                Ok::<_, sandbox::SandboxError>((tail, ending))
            })
            .await;
        let (tail, ending) = match polled {
            Some(Ok((tail, ending))) => {
                seen = tail.printed;
                let is_cut = tail.printed > tail.bytes.len() as u64;
                (Some(live_output::text(&tail.bytes, is_cut)), ending)
            }
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, Some("ended with the sandbox".to_owned())),
        };
        let is_over = ending.is_some();
        watched.send_modify(|watched| watched.update(id, tail, ending));
        if is_over {
            return;
        }
        // Output printed meanwhile is in the next poll.
        lease
            .run(async |_| tokio::time::sleep(REPORT_INTERVAL).await)
            .await;
    }
}

/// Sends the list of jobs after every change, including the last.
async fn send_lists(watched: watch::Sender<WatchedJobs>, sender: EventSender) {
    let mut changes = watched.subscribe();
    // A receiver of its own, because `wait_for` marks all earlier values as seen.
    let mut urgent_receiver = watched.subscribe();
    while changes.changed().await.is_ok() {
        let mut urgent_changes = 0;
        let list = || {
            urgent_changes = changes.borrow_and_update().urgent_changes;
            let mut jobs = Vec::new();
            watched.send_if_modified(|watched| {
                jobs = watched.list();
                urgent_changes = watched.urgent_changes;
                false
            });
            EventKind::Background { jobs }
        };
        if !sender.send_latest(list).await {
            return;
        }
        let urgent = urgent_receiver.wait_for(|watched| watched.urgent_changes != urgent_changes);
        // A timeout only means that nothing urgent happened.
        let _ = tokio::time::timeout(REPORT_INTERVAL, urgent)
            .await
            .map(drop);
    }
}
