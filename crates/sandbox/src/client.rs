//! Everything else that can be asked of a sandbox: shell sessions, files, searches, ports.
//!
//! Paths are strings for the guest; this side never opens what they name.

use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use audit::Record;
use bytes::Bytes;
use link::request::{
    Answer, Batch, Change, Entry, List, Match, Metadata, Poll, Progress, Raw, ReadFile, Request,
    Search, ShellCommand, Stats, Walls, WriteFile, WriteMode,
};
use link::{Item, Receiver, Sender, Stream, StreamIo};
use serde::de::DeserializeOwned;

use crate::error::SandboxError;
use crate::handle::Sandbox;

type Outcome<T> = Result<T, SandboxError>;

/// A connection to a port inside.
pub type Port = StreamIo;

impl Sandbox {
    /// Runs a command in a shell session and waits for its end, but no longer than `wait`; it
    /// then goes on in the background. `print` gets its output, errors marked.
    pub async fn shell(
        &self,
        session: &str,
        script: &str,
        wait: Duration,
        print: impl FnMut(Bytes, bool),
    ) -> Outcome<Progress> {
        self.recorder.record(&Record::Exec {
            argv: vec!["bash".into(), "-c".into(), script.into()],
            cwd: format!("session {session}"),
            env_names: Vec::new(),
            terminal: false,
        })?;
        let command = ShellCommand {
            session: session.to_owned(),
            script: Raw::from(script),
            wait,
        };
        self.follow(&Request::Shell(command), print).await
    }

    /// Looks after a background command; `print` gets what it printed since the last look.
    pub async fn poll(
        &self,
        job: u32,
        wait: Duration,
        print: impl FnMut(Bytes, bool),
    ) -> Outcome<Progress> {
        self.follow(&Request::Poll(Poll { job, wait }), print).await
    }

    async fn follow(
        &self,
        request: &Request,
        mut print: impl FnMut(Bytes, bool),
    ) -> Outcome<Progress> {
        let mut stream = self.request(request).await?;
        loop {
            match stream.receive().await?.ok_or(SandboxError::Ended)? {
                Item::Data(bytes) => print(bytes, false),
                Item::Errors(bytes) => print(bytes, true),
                message => return Ok(message.decode::<Answer<Progress>>()??),
            }
        }
    }

    /// Writes to the standard input of a background command, and closes it if `last`.
    pub async fn feed(&self, job: u32, bytes: Bytes, last: bool) -> Outcome<()> {
        let (mut sender, receiver) = self.request(&Request::Feed { job }).await?.split();
        sender.send_data(bytes).await?;
        if last {
            sender.send(&()).await?;
        }
        answered(sender, receiver).await
    }

    /// Sends a signal to the process group of a background command.
    pub async fn kill(&self, job: u32, signal: i32) -> Outcome<()> {
        self.ask(&Request::Kill { job, signal }).await
    }

    /// Reads a file, or a part of it.
    pub async fn read_file(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
    ) -> Outcome<(Metadata, Vec<u8>)> {
        let path = Raw::from(path.as_ref());
        let request = ReadFile {
            path,
            offset,
            length,
        };
        let mut stream = self.request(&Request::Read(request)).await?;
        let metadata = stream.expect::<Answer<Metadata>>().await??;
        let mut content = Vec::new();
        while let Some(item) = stream.receive().await? {
            match item {
                Item::Data(bytes) => content.extend_from_slice(&bytes),
                _ => return Err(link::StreamError::Unexpected.into()),
            }
        }
        Ok((metadata, content))
    }

    /// Writes a file whole: the old content or the new one, never a mixture.
    pub async fn write_file(
        &self,
        path: impl AsRef<Path>,
        content: impl Into<Bytes>,
        mode: WriteMode,
    ) -> Outcome<()> {
        let path = path.as_ref();
        self.record_change("write", path)?;
        let request = WriteFile {
            path: Raw::from(path),
            mode,
            permissions: None,
        };
        let (mut sender, receiver) = self.request(&Request::Write(request)).await?.split();
        // A refusal may come before all is sent; it says more than the broken stream.
        let _ = sender.send_data(content.into()).await;
        answered(sender, receiver).await
    }

    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Outcome<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.record_change("rename", from)?;
        self.record_change("rename to", to)?;
        let (from, to) = (Raw::from(from), Raw::from(to));
        self.ask(&Request::Rename { from, to }).await
    }

    pub async fn remove(&self, path: impl AsRef<Path>, recursive: bool) -> Outcome<()> {
        let path = path.as_ref();
        self.record_change("remove", path)?;
        let path = Raw::from(path);
        self.ask(&Request::Remove { path, recursive }).await
    }

    pub async fn make_folder(&self, path: impl AsRef<Path>) -> Outcome<()> {
        let path = path.as_ref();
        self.record_change("make folder", path)?;
        let path = Raw::from(path);
        self.ask(&Request::MakeFolder { path }).await
    }

    pub async fn stat(&self, path: impl AsRef<Path>) -> Outcome<Metadata> {
        let path = Raw::from(path.as_ref());
        self.ask(&Request::Stat { path }).await
    }

    pub async fn list(&self, list: List) -> Outcome<Batches<Entry>> {
        self.batches(&Request::List(list)).await
    }

    pub async fn search(&self, search: Search) -> Outcome<Batches<Match>> {
        self.batches(&Request::Search(search)).await
    }

    /// Watches for changes below a path. Returns when the watch stands.
    pub async fn watch(&self, path: impl AsRef<Path>) -> Outcome<Batches<Change>> {
        let path = Raw::from(path.as_ref());
        let mut batches = self.batches(&Request::Watch { path }).await?;
        // The first batch is empty and says that every later change will be seen.
        batches.next().await?;
        Ok(batches)
    }

    /// Connects to a TCP port inside.
    pub async fn connect(&self, port: u16) -> Outcome<Port> {
        let mut stream = self.request(&Request::Connect { port }).await?;
        stream.expect::<Answer<()>>().await??;
        Ok(StreamIo::from(stream))
    }

    pub async fn stats(&self) -> Outcome<Stats> {
        self.ask(&Request::Stats).await
    }

    /// What the kernel says of the walls, seen from inside.
    pub async fn inspect(&self) -> Outcome<Walls> {
        self.ask(&Request::Inspect).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Outcome<T> {
        let mut stream = self.request(request).await?;
        Ok(stream.expect::<Answer<T>>().await??)
    }

    async fn batches<T>(&self, request: &Request) -> Outcome<Batches<T>> {
        Ok(Batches {
            stream: self.request(request).await?,
            truncated: false,
            items: PhantomData,
        })
    }

    fn record_change(&self, operation: &str, path: &Path) -> Outcome<()> {
        self.recorder.record(&Record::FileChange {
            operation: operation.to_owned(),
            path: path.display().to_string(),
        })
    }
}

async fn answered(mut sender: Sender, mut receiver: Receiver) -> Outcome<()> {
    sender.end();
    Ok(receiver.expect::<Answer<()>>().await??)
}

/// A long answer, in parts as they come.
#[derive(Debug)]
pub struct Batches<T> {
    stream: Stream,
    truncated: bool,
    items: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Batches<T> {
    /// The next part; `None` after the last.
    pub async fn next(&mut self) -> Outcome<Option<Vec<T>>> {
        match self.stream.expect::<Batch<T>>().await? {
            Batch::Items(items) => Ok(Some(items)),
            Batch::Done(done) => {
                self.truncated = done?.0;
                Ok(None)
            }
        }
    }

    /// All parts together, and whether the limit cut them short.
    pub async fn collect(mut self) -> Outcome<(Vec<T>, bool)> {
        let mut all = Vec::new();
        while let Some(items) = self.next().await? {
            all.extend(items);
        }
        Ok((all, self.truncated))
    }
}
