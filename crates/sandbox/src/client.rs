//! The other requests to a sandbox: shell sessions, files, searches, ports.
//!
//! Paths are strings for the guest. The host never opens them.

use std::path::Path;
use std::time::Duration;

use audit::AuditRecord;
use bytes::Bytes;
use link::request::{
    ByteString, GuestRequest, GuestResult, JobTail, ListEntry, ListRequest, MAX_TAIL_BYTES,
    ObservedWalls, PathChange, PathMetadata, PollRequest, ResourceUsage, SearchMatch,
    SearchRequest, ShellCommand, ShellProgress, SurveyEntry, WriteFileRequest, WriteMode,
};
use link::{LinkItem, Receiver, Sender, StreamIo};
use serde::de::DeserializeOwned;

use crate::background_jobs::describe_exit;
use crate::batch_stream::{AnswerLimit, BatchStream};
use crate::error::SandboxError;
use crate::handle::Sandbox;
use crate::recorder::ExecDetails;

type ClientResult<T> = Result<T, SandboxError>;

/// A connection to a TCP port inside the sandbox.
pub type PortConnection = StreamIo;

/// Timeout for requests that the guest answers at once.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout for requests that depend on a disk: the next piece of a file or listing, a file write,
/// the recursive removal of a folder.
pub(crate) const DISK_TIMEOUT: Duration = Duration::from_secs(600);

/// The kernel's limit on paths (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

impl Sandbox {
    /// Runs a command in a shell session and waits for its end, but at most `wait`; after that it
    /// continues in the background. `print` receives output, with `true` for standard error.
    /// Dropping the future before it returns interrupts the command.
    pub async fn shell(
        &self,
        session: &str,
        script: &str,
        wait: Duration,
        mut print: impl FnMut(Bytes, bool),
    ) -> ClientResult<ShellProgress> {
        let begun = ExecDetails {
            argv: vec!["bash".into(), "-c".into(), script.into()],
            cwd: format!("session {session}"),
            env_names: Vec::new(),
            terminal: false,
        };
        let mut run = self.recorder.begin(begun).await?;
        let command = ShellCommand {
            session: session.to_owned(),
            script: ByteString::from(script),
            wait,
        };
        let counted = |bytes: Bytes, is_error| {
            run.printed(bytes.len());
            print(bytes, is_error);
        };
        let followed = self
            .follow(&GuestRequest::Shell(command), wait, counted)
            .await;
        match &followed {
            Ok(ShellProgress {
                exit: Some(exit), ..
            }) => run.end(describe_exit(exit)).await,
            Ok(progress) => self.background.add(progress.job, run),
            Err(error) => run.end(format!("failed: {error}")).await,
        }
        followed
    }

    /// Polls a background command; `print` receives what it printed since the last poll.
    pub async fn poll(
        &self,
        job: u32,
        wait: Duration,
        mut print: impl FnMut(Bytes, bool),
    ) -> ClientResult<ShellProgress> {
        let counted = |bytes: Bytes, is_error| {
            self.background.printed(job, bytes.len());
            print(bytes, is_error);
        };
        let request = GuestRequest::Poll(PollRequest { job, wait });
        let progress = self.follow(&request, wait, counted).await?;
        if let Some(exit) = &progress.exit {
            self.background.end(job, exit, None).await;
        }
        Ok(progress)
    }

    async fn follow(
        &self,
        request: &GuestRequest,
        wait: Duration,
        mut print: impl FnMut(Bytes, bool),
    ) -> ClientResult<ShellProgress> {
        let (mut sender, mut receiver) = self.request(request).await?.split();
        let answered = async {
            loop {
                match receiver.receive().await?.ok_or(SandboxError::Ended)? {
                    LinkItem::Data(bytes) => print(bytes, false),
                    LinkItem::Errors(bytes) => print(bytes, true),
                    message => return Ok(message.decode::<GuestResult<ShellProgress>>()??),
                }
            }
        };
        let timeout = wait.saturating_add(ANSWER_TIMEOUT);
        let task = "report the progress of a command";
        let answered: ClientResult<ShellProgress> =
            self.link.expect_within(timeout, task, answered).await?;
        let mut progress = answered?;
        // The caller has the job number now, so ending the stream must not interrupt the command.
        sender.end();
        // The guest is not trusted.
        progress.cwd = progress.cwd.filter(|cwd| cwd.0.len() <= MAX_PATH_BYTES);
        Ok(progress)
    }

    /// Waits until a background command has printed more than `seen` bytes in total or has ended,
    /// and returns the end of its output. The output stays available to [`Self::poll`].
    pub async fn tail(&self, job: u32, seen: u64) -> ClientResult<JobTail> {
        let mut tail: JobTail = self.call(&GuestRequest::Tail { job, seen }).await?;
        // The guest is not trusted.
        tail.bytes.truncate(MAX_TAIL_BYTES);
        if let Some(exit) = &tail.ended {
            self.background.end(job, exit, Some(tail.printed)).await;
        }
        Ok(tail)
    }

    /// Writes to the standard input of a background command, and then closes it if `last`.
    pub async fn feed(&self, job: u32, bytes: Bytes, last: bool) -> ClientResult<()> {
        let record = AuditRecord::Input {
            exec: self.background.exec(job),
            job,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            last,
        };
        self.recorder.record(record).await?;
        let (mut sender, receiver) = self.request(&GuestRequest::Feed { job }).await?.split();
        // The guest may refuse before everything is sent. Its refusal is a better error than the
        // broken stream.
        let _ = sender.send_data(bytes).await;
        if last {
            let _ = sender.send(&()).await;
        }
        answered(sender, receiver).await
    }

    /// Sends a signal to the process group of a background command.
    pub async fn kill(&self, job: u32, signal: i32) -> ClientResult<()> {
        let exec = self.background.exec(job);
        let record = AuditRecord::Signal { exec, job, signal };
        self.recorder.record(record).await?;
        self.call(&GuestRequest::Kill { job, signal }).await
    }

    /// Replaces a file atomically: readers see the old or the new content, never a mixture.
    pub async fn write_file(
        &self,
        path: impl AsRef<Path>,
        content: impl Into<Bytes>,
        mode: WriteMode,
    ) -> ClientResult<()> {
        self.write_file_with(path, content, mode, None).await
    }

    /// Like [`Self::write_file`], with these permission bits instead of the existing ones.
    pub async fn write_file_with(
        &self,
        path: impl AsRef<Path>,
        content: impl Into<Bytes>,
        mode: WriteMode,
        permissions: Option<u32>,
    ) -> ClientResult<()> {
        let path = path.as_ref();
        self.record_change("write", path).await?;
        let request = WriteFileRequest {
            path: ByteString::from(path),
            mode,
            permissions,
        };
        let (mut sender, receiver) = self.request(&GuestRequest::Write(request)).await?.split();
        let written = async {
            // As in `feed`: a refusal is a better error than the broken stream.
            let _ = sender.send_data(content.into()).await;
            answered(sender, receiver).await
        };
        let task = "write a file";
        self.link.expect_within(DISK_TIMEOUT, task, written).await?
    }

    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> ClientResult<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.record_change("rename", from).await?;
        self.record_change("rename to", to).await?;
        let (from, to) = (ByteString::from(from), ByteString::from(to));
        self.call(&GuestRequest::Rename { from, to }).await
    }

    pub async fn remove(&self, path: impl AsRef<Path>, recursive: bool) -> ClientResult<()> {
        let path = path.as_ref();
        self.record_change("remove", path).await?;
        let path = ByteString::from(path);
        self.call(&GuestRequest::Remove { path, recursive }).await
    }

    pub async fn make_folder(&self, path: impl AsRef<Path>) -> ClientResult<()> {
        let path = path.as_ref();
        self.record_change("make folder", path).await?;
        let path = ByteString::from(path);
        self.call(&GuestRequest::MakeFolder { path }).await
    }

    /// Makes a symlink, replacing anything there except a folder.
    pub async fn make_link(
        &self,
        path: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> ClientResult<()> {
        let path = path.as_ref();
        self.record_change("make link", path).await?;
        let (path, target) = (ByteString::from(path), ByteString::from(target.as_ref()));
        self.call(&GuestRequest::MakeLink { path, target }).await
    }

    /// Sets the permission bits of anything except a symlink.
    pub async fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> ClientResult<()> {
        let path = path.as_ref();
        self.record_change("set mode", path).await?;
        let path = ByteString::from(path);
        self.call(&GuestRequest::SetMode { path, mode }).await
    }

    pub async fn stat(&self, path: impl AsRef<Path>) -> ClientResult<PathMetadata> {
        let path = ByteString::from(path.as_ref());
        self.call(&GuestRequest::Stat { path }).await
    }

    pub async fn list(&self, list: ListRequest) -> ClientResult<BatchStream<ListEntry>> {
        let bound = AnswerLimit::items(list.limit);
        self.batches(&GuestRequest::List(list), bound).await
    }

    /// Describes everything below a folder.
    pub async fn survey(
        &self,
        path: impl AsRef<Path>,
        limit: u64,
    ) -> ClientResult<BatchStream<SurveyEntry>> {
        let path = ByteString::from(path.as_ref());
        let bound = AnswerLimit::items(limit);
        self.batches(&GuestRequest::Survey { path, limit }, bound)
            .await
    }

    pub async fn search(&self, search: SearchRequest) -> ClientResult<BatchStream<SearchMatch>> {
        // Each match comes with its context lines.
        let around = u64::from(search.context).saturating_mul(2);
        let lines = search.limit.saturating_mul(around.saturating_add(1));
        let bound = AnswerLimit::items(lines);
        self.batches(&GuestRequest::Search(search), bound).await
    }

    /// Watches for changes below a path. Returns once the watch is active.
    pub async fn watch(&self, path: impl AsRef<Path>) -> ClientResult<BatchStream<PathChange>> {
        let path = ByteString::from(path.as_ref());
        let request = GuestRequest::Watch { path };
        let mut batches = self.batches(&request, AnswerLimit::None).await?;
        // The first batch is empty and confirms that the watch is active.
        batches.next().await?;
        Ok(batches)
    }

    /// Connects to a TCP port inside the sandbox.
    pub async fn connect(&self, port: u16) -> ClientResult<PortConnection> {
        let mut stream = self.request(&GuestRequest::Connect { port }).await?;
        let answer = stream.expect::<GuestResult<()>>();
        let task = "connect to a port";
        self.link
            .expect_within(DISK_TIMEOUT, task, answer)
            .await???;
        Ok(StreamIo::from(stream))
    }

    pub async fn stats(&self) -> ClientResult<ResourceUsage> {
        self.call(&GuestRequest::Stats).await
    }

    /// The state of the walls, as the kernel reports it inside.
    pub async fn inspect(&self) -> ClientResult<ObservedWalls> {
        self.call(&GuestRequest::Inspect).await
    }

    async fn call<T: DeserializeOwned>(&self, request: &GuestRequest) -> ClientResult<T> {
        let mut stream = self.request(request).await?;
        let answer = stream.expect::<GuestResult<T>>();
        let timeout = match request {
            // Waits for a command, so it has no timeout.
            GuestRequest::Tail { .. } => return Ok(answer.await??),
            GuestRequest::Remove { .. } => DISK_TIMEOUT,
            _ => ANSWER_TIMEOUT,
        };
        let task = "answer a request";
        Ok(self.link.expect_within(timeout, task, answer).await???)
    }

    async fn batches<T>(
        &self,
        request: &GuestRequest,
        bound: AnswerLimit,
    ) -> ClientResult<BatchStream<T>> {
        let stream = self.request(request).await?;
        Ok(BatchStream::new(stream, self.link.clone(), bound))
    }

    async fn record_change(&self, operation: &str, path: &Path) -> ClientResult<()> {
        let record = AuditRecord::FileChange {
            operation: operation.to_owned(),
            path: path.display().to_string(),
        };
        self.recorder.record(record).await
    }
}

async fn answered(mut sender: Sender, mut receiver: Receiver) -> ClientResult<()> {
    sender.end();
    Ok(receiver.expect::<GuestResult<()>>().await??)
}
