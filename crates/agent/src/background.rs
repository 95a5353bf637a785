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
    board: watch::Sender<WatchedJobs>,
    visits: SandboxAccess,
    tasks: Mutex<JoinSet<()>>,
}

/// The state of all watched jobs.
#[derive(Debug, Default)]
struct WatchedJobs {
    jobs: Vec<(u64, BackgroundJob)>,
    /// Jobs so far. Identifies a job, because job numbers restart with each sandbox.
    count: u64,
    /// Starts and ends so far, which are reported without delay.
    news: u64,
}

impl BackgroundWatcher {
    pub(crate) fn new(teller: EventSender, visits: SandboxAccess) -> Self {
        let board = watch::Sender::new(WatchedJobs::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(send_lists(board.clone(), teller));
        Self {
            board,
            visits,
            tasks: Mutex::new(tasks),
        }
    }

    /// Starts to watch a command.
    pub(crate) fn begin(&self, job: BackgroundJob) {
        let Some(visit) = self.visits.try_acquire() else {
            return;
        };
        let number = job.job;
        let mut place = 0;
        self.board.send_modify(|board| {
            board.count += 1;
            board.news += 1;
            place = board.count;
            board.jobs.push((place, job));
        });
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Reaps finished tasks.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(watch_job(self.board.clone(), visit, place, number));
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
    fn update(&mut self, place: u64, tail: Option<String>, ending: Option<String>) {
        let found = self.jobs.iter_mut().find(|(known, _)| *known == place);
        if let Some((_, job)) = found {
            self.news += u64::from(ending.is_some());
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

/// Polls a command and updates the board until it has ended.
async fn watch_job(
    board: watch::Sender<WatchedJobs>,
    visit: SandboxLease,
    place: u64,
    number: u32,
) {
    let mut seen = 0;
    loop {
        let looked = visit
            .spend(async |sandbox| {
                let tail = sandbox.tail(number, seen).await?;
                let ending = tail.ended.as_ref();
                let ending = ending.map(|exit| tools::describe_background_exit(exit, sandbox));
                Ok::<_, sandbox::SandboxError>((tail, ending))
            })
            .await;
        let (tail, ending) = match looked {
            Some(Ok((tail, ending))) => {
                seen = tail.printed;
                let is_cut = tail.printed > tail.bytes.len() as u64;
                (Some(live_output::text(&tail.bytes, is_cut)), ending)
            }
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, Some("ended with the sandbox".to_owned())),
        };
        let is_over = ending.is_some();
        board.send_modify(|board| board.update(place, tail, ending));
        if is_over {
            return;
        }
        // Output printed meanwhile is in the next poll.
        visit
            .spend(async |_| tokio::time::sleep(REPORT_INTERVAL).await)
            .await;
    }
}

/// Sends the list of jobs after every change, including the last.
async fn send_lists(board: watch::Sender<WatchedJobs>, teller: EventSender) {
    let mut changes = board.subscribe();
    // A receiver of its own, because `wait_for` marks all earlier values as seen.
    let mut hurry = board.subscribe();
    while changes.changed().await.is_ok() {
        let mut news = 0;
        let list = || {
            news = changes.borrow_and_update().news;
            let mut jobs = Vec::new();
            board.send_if_modified(|board| {
                jobs = board.list();
                news = board.news;
                false
            });
            EventKind::Background { jobs }
        };
        if !teller.send_latest(list).await {
            return;
        }
        let urgent = hurry.wait_for(|board| board.news != news);
        // A timeout only means that nothing urgent happened.
        let _ = tokio::time::timeout(REPORT_INTERVAL, urgent)
            .await
            .map(drop);
    }
}
