//! Commands that go on after their call: told of when they begin, when they print and when they
//! end. A silent one costs nothing. Never starts or ends a command.
//!
//! One task looks after each command, through the guest; one more tells what they saw, as often
//! as anybody could read it. Entry type: [`Background`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use protocol::{BackgroundJob, EventKind};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::live;
use crate::scribe::Teller;
use crate::visits::{Visit, Visits};

/// Between two looks at a command that prints, and between two lists of which neither has a
/// beginning or an end.
const PACE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Background {
    board: watch::Sender<Board>,
    visits: Visits,
    tasks: Mutex<JoinSet<()>>,
}

/// What is known of all of them.
#[derive(Debug, Default)]
struct Board {
    jobs: Vec<(u64, BackgroundJob)>,
    /// How many there were: numbers of jobs begin anew with each sandbox.
    count: u64,
    /// Beginnings and ends so far, which are told at once.
    news: u64,
}

impl Background {
    pub(crate) fn new(teller: Teller, visits: Visits) -> Self {
        let board = watch::Sender::new(Board::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(herald(board.clone(), teller));
        Self {
            board,
            visits,
            tasks: Mutex::new(tasks),
        }
    }

    /// Looks after a command from now on.
    pub(crate) fn begin(&self, job: BackgroundJob) {
        let Some(visit) = self.visits.enter_now() else {
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
        // Those that are over.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(look_after(self.board.clone(), visit, place, number));
    }

    pub(crate) async fn end(self) {
        let tasks = self.tasks.into_inner();
        tasks
            .unwrap_or_else(PoisonError::into_inner)
            .shutdown()
            .await;
    }
}

impl Board {
    fn update(&mut self, place: u64, tail: Option<String>, ending: Option<String>) {
        let found = self.jobs.iter_mut().find(|(known, _)| *known == place);
        if let Some((_, job)) = found {
            self.news += u64::from(ending.is_some());
            job.tail = tail.unwrap_or_else(|| std::mem::take(&mut job.tail));
            job.ending = ending;
        }
    }

    /// All of them; those that have ended are in it for the last time.
    fn list(&mut self) -> Vec<BackgroundJob> {
        let jobs = self.jobs.iter().map(|(_, job)| job.clone()).collect();
        self.jobs.retain(|(_, job)| job.ending.is_none());
        jobs
    }
}

/// Puts on the board what a command prints, until it has ended.
async fn look_after(board: watch::Sender<Board>, visit: Visit, place: u64, number: u32) {
    let mut seen = 0;
    loop {
        let looked = visit
            .spend(async |sandbox| {
                let tail = sandbox.tail(number, seen).await?;
                let ending = tail.ended.as_ref();
                let ending = ending.map(|exit| tools::describe_ending(exit, sandbox));
                Ok::<_, sandbox::SandboxError>((tail, ending))
            })
            .await;
        let (tail, ending) = match looked {
            Some(Ok((tail, ending))) => {
                seen = tail.printed;
                let is_cut = tail.printed > tail.bytes.len() as u64;
                (Some(live::text(&tail.bytes, is_cut)), ending)
            }
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, Some("ended with the sandbox".to_owned())),
        };
        let is_over = ending.is_some();
        board.send_modify(|board| board.update(place, tail, ending));
        if is_over {
            return;
        }
        // Whatever is printed meanwhile is in the next look.
        visit.spend(async |_| tokio::time::sleep(PACE).await).await;
    }
}

/// Tells what is on the board after every change, the last one always.
async fn herald(board: watch::Sender<Board>, teller: Teller) {
    let mut changes = board.subscribe();
    // A look of its own, because whoever waits for one value has seen all before it.
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
        if !teller.tell_latest(list).await {
            return;
        }
        let urgent = hurry.wait_for(|board| board.news != news);
        // No hurry is what the time is for.
        let _ = tokio::time::timeout(PACE, urgent).await.map(drop);
    }
}
