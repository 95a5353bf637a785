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
use link::request::{
    ByteString, Exit, GuestLimit, GuestResult, JobTail, PollRequest, RefusalKind, ShellProgress,
};
use link::{LinkItem, Receiver, Sender, Stream};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::exec::{MAX_PIPE_BYTES, read, try_read_pipe};
use crate::output_tail::OutputTail;
use crate::processes::{ChildGroup, is_group_alive, signal_group};
use crate::refusal::{refuse, refuse_with};
use crate::session::Guest;

/// Maximum number of bytes that a job stores for its next reader.
const MAX_SPOOL_BYTES: usize = 1024 * 1024;

/// Time for the children of a command to end after it, such as the other parts of a pipeline.
const OUTPUT_GRACE_PERIOD: Duration = Duration::from_millis(30);

/// Time for a command to end after SIGINT, before it is killed.
const INTERRUPT_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum number of jobs, including finished ones whose result was not read yet.
const MAX_JOBS: usize = 64;

/// All jobs of the sandbox.
#[derive(Default)]
pub(crate) struct JobTable {
    next: Cell<u32>,
    table: RefCell<BTreeMap<u32, Rc<GuestJob>>>,
    /// The last output of jobs that are no longer in the table, for tail requests.
    over: RefCell<VecDeque<(u32, JobTail)>>,
}

/// One command.
pub(crate) struct GuestJob {
    pub(crate) id: u32,
    group: Pid,
    stdin: Mutex<Option<pipe::Sender>>,
    state: RefCell<JobState>,
    /// Notified after every change of the state.
    changed: Notify,
}

#[derive(Default)]
struct JobState {
    spool: VecDeque<(bool, Bytes)>,
    spooled: usize,
    dropped: u64,
    printed: OutputTail,
    readers: usize,
    exit: Option<Exit>,
    /// All output of the command itself is in the spool or was read. Its children may print more.
    settled: bool,
    open: bool,
    cwd: Option<ByteString>,
}

/// The guest's ends of a new command's pipes.
pub(crate) struct JobPipes {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

impl JobTable {
    /// Makes room for one more job by removing a finished one. Refuses if all are running.
    pub(crate) fn make_room(&self) -> GuestResult<()> {
        let mut table = self.table.borrow_mut();
        if table.len() >= MAX_JOBS {
            let finished = table.values().find(|job| job.state.borrow().exit.is_some());
            let Some(finished) = finished.cloned() else {
                let message = format!(
                    "cannot start: {MAX_JOBS} commands are running in the background already"
                );
                return Err(refuse_with(RefusalKind::Limit, message));
            };
            table.remove(&finished.id);
            self.store_tail(&finished);
        }
        Ok(())
    }

    /// Adds a started command. `finished` is called once, when its process has ended, and returns the
    /// shell's last working folder.
    pub(crate) fn adopt(
        &self,
        guest: &Rc<Guest>,
        child: ChildGroup,
        pipes: JobPipes,
        finished: impl FnOnce() -> Option<ByteString> + 'static,
    ) -> Rc<GuestJob> {
        let id = self.next.get() + 1;
        self.next.set(id);
        let job = Rc::new(GuestJob {
            id,
            group: child.group,
            stdin: Mutex::new(Some(pipes.stdin)),
            state: RefCell::new(JobState {
                open: true,
                ..JobState::default()
            }),
            changed: Notify::new(),
        });
        self.table.borrow_mut().insert(id, job.clone());
        tokio::task::spawn_local(collect_output(
            job.clone(),
            Some(pipes.stdout),
            Some(pipes.stderr),
        ));
        tokio::task::spawn_local(record_exit(guest.clone(), job.clone(), child, finished));
        job
    }

    pub(crate) fn find(&self, id: u32) -> GuestResult<Rc<GuestJob>> {
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
            self.store_tail(&job);
        }
    }

    fn store_tail(&self, job: &GuestJob) {
        let state = job.state.borrow();
        let Some(exit) = state.exit.clone() else {
            return;
        };
        let mut over = self.over.borrow_mut();
        if over.len() >= MAX_JOBS {
            over.pop_front();
        }
        let tail = JobTail {
            ended: Some(exit),
            ..state.tail()
        };
        over.push_back((job.id, tail));
    }

    /// The last output of a finished command that is no longer in the table.
    pub(crate) fn finished_tail(&self, id: u32) -> Option<JobTail> {
        let over = self.over.borrow();
        let found = over.iter().find(|(known, _)| *known == id);
        found.map(|(_, tail)| tail.clone())
    }
}

/// Moves output from the pipes into the spool until both have ended.
async fn collect_output(
    job: Rc<GuestJob>,
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
                drain_pipe(&job, &mut stdout, false);
                drain_pipe(&job, &mut stderr, true);
                grace = Some(Instant::now() + OUTPUT_GRACE_PERIOD);
                continue;
            }
            // All output of the command itself has arrived, and its children that still hold the pipes had
            // time to end.
            () = sleep_until_some(grace), if !job.state.borrow().settled => {
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
        job.until(|state| state.spooled < MAX_SPOOL_BYTES || state.readers == 0)
            .await;
        job.change(|state| state.push(is_error, bytes));
    }
    job.change(|state| {
        state.open = false;
        state.settled = true;
    });
}

/// Sleeps until a moment; for ever if there is none.
async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Reads what is in a pipe now, without waiting. Closes the pipe at its end.
fn drain_pipe(job: &GuestJob, pipe: &mut Option<pipe::Receiver>, is_error: bool) {
    let mut buffer = BytesMut::new();
    let mut left = MAX_PIPE_BYTES;
    while let Some(open) = pipe
        && left > 0
    {
        match try_read_pipe(open, &mut buffer) {
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

async fn record_exit(
    guest: Rc<Guest>,
    job: Rc<GuestJob>,
    mut child: ChildGroup,
    finished: impl FnOnce() -> Option<ByteString>,
) {
    let status = (&mut child.ended)
        .await
        .expect("the reaper reports every status");
    let limit: Option<GuestLimit> = guest.processes.limit_that_ended(&child, status);
    let cwd = finished();
    job.change(|state| {
        state.cwd = cwd;
        state.exit = Some(Exit { status, limit });
    });
}

impl JobState {
    fn push(&mut self, is_error: bool, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.printed.push(&bytes);
        self.spooled += bytes.len();
        self.spool.push_back((is_error, bytes));
        while self.spooled > MAX_SPOOL_BYTES
            && self.readers == 0
            && let Some((_, oldest)) = self.spool.pop_front()
        {
            self.spooled -= oldest.len();
            self.dropped += oldest.len() as u64;
        }
    }
}

impl JobState {
    fn tail(&self) -> JobTail {
        JobTail {
            bytes: self.printed.tail(),
            printed: self.printed.count(),
            ended: self.exit.clone().filter(|_| !self.open),
        }
    }
}

impl GuestJob {
    /// Waits until more than `seen` bytes were printed, or until the command and its output have ended.
    pub(crate) async fn tail(&self, seen: u64) -> JobTail {
        let is_news = |state: &JobState| {
            state.printed.count() > seen || (state.exit.is_some() && !state.open)
        };
        self.until(is_news).await;
        self.state.borrow().tail()
    }

    fn change(&self, change: impl FnOnce(&mut JobState)) {
        change(&mut self.state.borrow_mut());
        self.changed.notify_waiters();
    }

    async fn until(&self, condition: impl Fn(&JobState) -> bool) {
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
    ) -> Option<ShellProgress> {
        let deadline = Instant::now() + wait;
        let reader = ActiveReader::new(self);
        tokio::select! {
            outcome = self.stream(sender, deadline) => outcome.ok()?,
            () = receiver.wait_until_peer_stops() => return None,
        }
        drop(reader);
        let mut state = self.state.borrow_mut();
        Some(ShellProgress {
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
        let ended = |state: &JobState| state.exit.is_some() && state.settled;
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
                Some((true, bytes)) => sender.send_stderr(bytes).await?,
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
struct ActiveReader<'a>(&'a GuestJob);

impl<'a> ActiveReader<'a> {
    fn new(job: &'a GuestJob) -> Self {
        job.change(|state| state.readers += 1);
        Self(job)
    }
}

impl Drop for ActiveReader<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.readers -= 1);
    }
}

pub(crate) async fn poll(guest: &Rc<Guest>, poll: PollRequest, mut stream: Stream) {
    let job = match guest.jobs.find(poll.job) {
        Ok(job) => job,
        Err(refusal) => {
            let _ = stream
                .send(&GuestResult::<ShellProgress>::Err(refusal))
                .await;
            return;
        }
    };
    let (mut sender, mut receiver) = stream.split();
    if let Some(progress) = job.follow(&mut sender, &mut receiver, poll.wait).await {
        send_progress(guest, progress, &mut sender).await;
    }
}

/// Sends the result of a poll. Removes the job if it has ended and its output is closed.
pub(crate) async fn send_progress(guest: &Rc<Guest>, progress: ShellProgress, sender: &mut Sender) {
    let is_over = progress.exit.is_some() && !progress.output_open;
    let job = progress.job;
    if sender.send(&GuestResult::Ok(progress)).await.is_ok() && is_over {
        guest.jobs.forget(job);
    }
}

/// Ends a command that the host does not know about: with SIGINT, then with SIGKILL.
pub(crate) async fn interrupt(guest: &Rc<Guest>, job: &GuestJob) {
    guest.jobs.forget(job.id);
    let _ = signal_group(job.group, libc::SIGINT);
    let patience = Instant::now() + INTERRUPT_TIMEOUT;
    while is_group_alive(job.group) {
        if Instant::now() >= patience {
            let _ = signal_group(job.group, libc::SIGKILL);
            return;
        }
        tokio::time::sleep(INTERRUPT_TIMEOUT / 20).await;
    }
}

pub(crate) async fn feed(guest: &Rc<Guest>, id: u32, mut stream: Stream) {
    let answer = match guest.jobs.find(id) {
        Ok(job) => forward_input(&job, &mut stream).await,
        Err(refusal) => Err(refusal),
    };
    let _ = stream.send(&answer).await;
}

async fn forward_input(job: &GuestJob, stream: &mut Stream) -> GuestResult<()> {
    let mut stdin = job.stdin.lock().await;
    while let Ok(Some(item)) = stream.receive().await {
        let LinkItem::Data(bytes) = item else {
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
