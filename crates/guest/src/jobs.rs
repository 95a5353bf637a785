//! Shell commands as jobs: the host can wait for them, or leave them running in the background.
//!
//! A job's output goes into a spool of bounded size. While a reader waits, a full spool blocks the command.
//! Without a reader, the oldest output is dropped and counted, so that a server with much output neither
//! blocks nor fills the guest's memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use link::request::{Answer, Exit, Limit, Poll, Progress, Raw, RefusalKind, Tail};
use link::{Item, Receiver, Sender, Stream};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::exec::{PIPE, read, read_now};
use crate::processes::{Child, group_lives, signal_group};
use crate::refusal::{refuse, refuse_with};
use crate::session::Guest;
use crate::tails::Printed;

/// Maximum number of bytes that a job stores for its next reader.
const SPOOL: usize = 1024 * 1024;

/// Time for the children of a command to end after it, such as the other parts of a pipeline.
const GRACE: Duration = Duration::from_millis(30);

/// Time for a command to end after SIGINT, before it is killed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maximum number of jobs, including finished ones whose result was not read yet.
const MOST: usize = 64;

/// All jobs of the sandbox.
#[derive(Default)]
pub(crate) struct Jobs {
    next: Cell<u32>,
    table: RefCell<BTreeMap<u32, Rc<Job>>>,
    /// The last output of jobs that are no longer in the table, for tail requests.
    over: RefCell<VecDeque<(u32, Tail)>>,
}

/// One command.
pub(crate) struct Job {
    pub(crate) id: u32,
    group: Pid,
    stdin: Mutex<Option<pipe::Sender>>,
    state: RefCell<State>,
    /// Notified after every change of the state.
    changed: Notify,
}

#[derive(Default)]
struct State {
    spool: VecDeque<(bool, Bytes)>,
    spooled: usize,
    dropped: u64,
    printed: Printed,
    readers: usize,
    exit: Option<Exit>,
    /// All output of the command itself is in the spool or was read. Its children may print more.
    settled: bool,
    open: bool,
    cwd: Option<Raw>,
}

/// The guest's ends of a new command's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

impl Jobs {
    /// Makes room for one more job by removing a finished one. Refuses if all are running.
    pub(crate) fn make_room(&self) -> Answer<()> {
        let mut table = self.table.borrow_mut();
        if table.len() >= MOST {
            let finished = table.values().find(|job| job.state.borrow().exit.is_some());
            let Some(finished) = finished.cloned() else {
                let message =
                    format!("cannot start: {MOST} commands are running in the background already");
                return Err(refuse_with(RefusalKind::Limit, message));
            };
            table.remove(&finished.id);
            self.remember(&finished);
        }
        Ok(())
    }

    /// Adds a started command. `finished` is called once, when its process has ended, and returns the
    /// shell's last working folder.
    pub(crate) fn adopt(
        &self,
        guest: &Rc<Guest>,
        child: Child,
        pipes: Pipes,
        finished: impl FnOnce() -> Option<Raw> + 'static,
    ) -> Rc<Job> {
        let id = self.next.get() + 1;
        self.next.set(id);
        let job = Rc::new(Job {
            id,
            group: child.group,
            stdin: Mutex::new(Some(pipes.stdin)),
            state: RefCell::new(State {
                open: true,
                ..State::default()
            }),
            changed: Notify::new(),
        });
        self.table.borrow_mut().insert(id, job.clone());
        tokio::task::spawn_local(collect(job.clone(), Some(pipes.stdout), Some(pipes.stderr)));
        tokio::task::spawn_local(conclude(guest.clone(), job.clone(), child, finished));
        job
    }

    pub(crate) fn find(&self, id: u32) -> Answer<Rc<Job>> {
        self.table.borrow().get(&id).cloned().ok_or_else(|| {
            refuse_with(
                RefusalKind::NotFound,
                format!("there is no background command {id}"),
            )
        })
    }

    fn forget(&self, id: u32) {
        let job = self.table.borrow_mut().remove(&id);
        if let Some(job) = job {
            self.remember(&job);
        }
    }

    fn remember(&self, job: &Job) {
        let state = job.state.borrow();
        let Some(exit) = state.exit.clone() else {
            return;
        };
        let mut over = self.over.borrow_mut();
        if over.len() >= MOST {
            over.pop_front();
        }
        let tail = Tail {
            ended: Some(exit),
            ..state.tail()
        };
        over.push_back((job.id, tail));
    }

    /// The last output of a finished command that is no longer in the table.
    pub(crate) fn last_words(&self, id: u32) -> Option<Tail> {
        let over = self.over.borrow();
        let found = over.iter().find(|(known, _)| *known == id);
        found.map(|(_, tail)| tail.clone())
    }
}

/// Moves output from the pipes into the spool until both have ended.
async fn collect(
    job: Rc<Job>,
    mut stdout: Option<pipe::Receiver>,
    mut stderr: Option<pipe::Receiver>,
) {
    let (mut out_buffer, mut err_buffer) = (BytesMut::new(), BytesMut::new());
    let mut grace: Option<Instant> = None;
    while stdout.is_some() || stderr.is_some() {
        let (is_error, outcome) = tokio::select! {
            outcome = read(&mut stdout, &mut out_buffer) => (false, outcome),
            outcome = read(&mut stderr, &mut err_buffer) => (true, outcome),
            () = job.until(|state| state.exit.is_some()), if grace.is_none() => {
                drain(&job, &mut stdout, false);
                drain(&job, &mut stderr, true);
                grace = Some(Instant::now() + GRACE);
                continue;
            }
            // All output of the command itself has arrived, and its children that still hold the pipes had
            // time to end.
            () = passed(grace), if !job.state.borrow().settled => {
                job.change(|state| state.settled = true);
                continue;
            }
        };
        let (pipe, buffer) = if is_error {
            (&mut stderr, &mut err_buffer)
        } else {
            (&mut stdout, &mut out_buffer)
        };
        if !matches!(outcome, Ok(1..)) {
            *pipe = None;
        }
        let bytes = buffer.split().freeze();
        job.until(|state| state.spooled < SPOOL || state.readers == 0)
            .await;
        job.change(|state| state.push(is_error, bytes));
    }
    job.change(|state| {
        state.open = false;
        state.settled = true;
    });
}

/// Sleeps until a moment; for ever if there is none.
async fn passed(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Reads what is in a pipe now, without waiting. Closes the pipe at its end.
fn drain(job: &Job, pipe: &mut Option<pipe::Receiver>, is_error: bool) {
    let mut buffer = BytesMut::new();
    let mut left = PIPE;
    while let Some(open) = pipe
        && left > 0
    {
        match read_now(open, &mut buffer) {
            Ok(0) => *pipe = None,
            Ok(length) => {
                left = left.saturating_sub(length);
                let bytes = buffer.split().freeze();
                job.change(|state| state.push(is_error, bytes));
            }
            Err(_) => return,
        }
    }
}

async fn conclude(
    guest: Rc<Guest>,
    job: Rc<Job>,
    mut child: Child,
    finished: impl FnOnce() -> Option<Raw>,
) {
    let status = (&mut child.ended)
        .await
        .expect("the reaper reports every status");
    let limit: Option<Limit> = guest.processes.limit_behind(&child, status);
    let cwd = finished();
    job.change(|state| {
        state.cwd = cwd;
        state.exit = Some(Exit { status, limit });
    });
}

impl State {
    fn push(&mut self, is_error: bool, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.printed.push(&bytes);
        self.spooled += bytes.len();
        self.spool.push_back((is_error, bytes));
        while self.spooled > SPOOL
            && self.readers == 0
            && let Some((_, oldest)) = self.spool.pop_front()
        {
            self.spooled -= oldest.len();
            self.dropped += oldest.len() as u64;
        }
    }
}

impl State {
    fn tail(&self) -> Tail {
        Tail {
            bytes: self.printed.tail(),
            printed: self.printed.count(),
            ended: self.exit.clone().filter(|_| !self.open),
        }
    }
}

impl Job {
    /// Waits until more than `seen` bytes were printed, or until the command and its output have ended.
    pub(crate) async fn tail(&self, seen: u64) -> Tail {
        let is_news =
            |state: &State| state.printed.count() > seen || (state.exit.is_some() && !state.open);
        self.until(is_news).await;
        self.state.borrow().tail()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.borrow_mut());
        self.changed.notify_waiters();
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.state.borrow()) {
                return;
            }
            changed.await;
        }
    }

    /// Streams output until the command ends or the wait is over. `None` if the host stops listening.
    pub(crate) async fn follow(
        &self,
        sender: &mut Sender,
        receiver: &mut Receiver,
        wait: Duration,
    ) -> Option<Progress> {
        let deadline = Instant::now() + wait;
        let reader = Reader::new(self);
        tokio::select! {
            outcome = self.stream(sender, deadline) => outcome.ok()?,
            () = receiver.peer_stops() => return None,
        }
        drop(reader);
        let mut state = self.state.borrow_mut();
        Some(Progress {
            job: self.id,
            exit: state.exit.clone().filter(|_| state.settled),
            output_open: state.open,
            dropped: std::mem::take(&mut state.dropped),
            cwd: state.cwd.clone(),
        })
    }

    async fn stream(
        &self,
        sender: &mut Sender,
        deadline: Instant,
    ) -> Result<(), link::StreamError> {
        // Bytes still to be sent after the deadline or the end. Later output is left for the next request,
        // or a command that never stops printing would keep this loop running.
        let mut owed: Option<usize> = None;
        let ended = |state: &State| state.exit.is_some() && state.settled;
        loop {
            if owed.is_none() && (Instant::now() >= deadline || ended(&self.state.borrow())) {
                owed = Some(self.state.borrow().spooled);
            }
            if owed == Some(0) {
                return Ok(());
            }
            let next = {
                let mut state = self.state.borrow_mut();
                let next = state.spool.pop_front();
                let length = next.as_ref().map_or(0, |(_, bytes)| bytes.len());
                state.spooled -= length;
                owed = owed.map(|owed| owed.saturating_sub(length));
                next
            };
            self.changed.notify_waiters();
            match next {
                Some((true, bytes)) => sender.send_errors(bytes).await?,
                Some((false, bytes)) => sender.send_data(bytes).await?,
                None => {
                    let more = self.until(|state| !state.spool.is_empty() || ended(state));
                    let _ = tokio::time::timeout_at(deadline, more).await;
                }
            }
        }
    }
}

/// Counts as a reader of the job until it is dropped.
struct Reader<'a>(&'a Job);

impl<'a> Reader<'a> {
    fn new(job: &'a Job) -> Self {
        job.change(|state| state.readers += 1);
        Self(job)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.readers -= 1);
    }
}

pub(crate) async fn poll(guest: &Rc<Guest>, poll: Poll, mut stream: Stream) {
    let job = match guest.jobs.find(poll.job) {
        Ok(job) => job,
        Err(refusal) => {
            let _ = stream.send(&Answer::<Progress>::Err(refusal)).await;
            return;
        }
    };
    let (mut sender, mut receiver) = stream.split();
    if let Some(progress) = job.follow(&mut sender, &mut receiver, poll.wait).await {
        report(guest, progress, &mut sender).await;
    }
}

/// Sends the result of a poll. Removes the job if it has ended and its output is closed.
pub(crate) async fn report(guest: &Rc<Guest>, progress: Progress, sender: &mut Sender) {
    let is_over = progress.exit.is_some() && !progress.output_open;
    let job = progress.job;
    if sender.send(&Answer::Ok(progress)).await.is_ok() && is_over {
        guest.jobs.forget(job);
    }
}

/// Ends a command that the host does not know about: with SIGINT, then with SIGKILL.
pub(crate) async fn interrupt(guest: &Rc<Guest>, job: &Job) {
    guest.jobs.forget(job.id);
    let _ = signal_group(job.group, libc::SIGINT);
    let patience = Instant::now() + PATIENCE;
    while group_lives(job.group) {
        if Instant::now() >= patience {
            let _ = signal_group(job.group, libc::SIGKILL);
            return;
        }
        tokio::time::sleep(PATIENCE / 20).await;
    }
}

pub(crate) async fn feed(guest: &Rc<Guest>, id: u32, mut stream: Stream) {
    let answer = match guest.jobs.find(id) {
        Ok(job) => take_input(&job, &mut stream).await,
        Err(refusal) => Err(refusal),
    };
    let _ = stream.send(&answer).await;
}

async fn take_input(job: &Job, stream: &mut Stream) -> Answer<()> {
    let mut stdin = job.stdin.lock().await;
    while let Ok(Some(item)) = stream.receive().await {
        let Item::Data(bytes) = item else {
            // A message marks the end of the input.
            *stdin = None;
            continue;
        };
        let Some(pipe) = stdin.as_mut() else {
            let message = format!("the input of background command {} is closed", job.id);
            return Err(refuse_with(RefusalKind::Invalid, message));
        };
        let written = pipe.write_all(&bytes).await;
        written.map_err(|error| {
            refuse(
                format_args!("write to background command {}", job.id),
                error,
            )
        })?;
    }
    Ok(())
}

pub(crate) async fn kill(guest: &Rc<Guest>, id: u32, signal: i32, mut stream: Stream) {
    let answer = guest.jobs.find(id).and_then(|job| {
        signal_group(job.group, signal)
            .map_err(|error| refuse(format_args!("signal background command {id}"), error))
    });
    let _ = stream.send(&answer).await;
}
