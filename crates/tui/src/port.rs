//! All messages between the UI and the host program.
//!
//! The host sends [`UiNotice`]s and waits when the UI is behind; the UI sends [`UiRequest`]s and never
//! waits.

use std::path::PathBuf;

use jiff::Timestamp;
use protocol::job::JobId;
use protocol::{AgentCommand, Event, Image, SessionId};
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};

use crate::terminal::LoopWaker;

/// Capacity of the notice queue.
const NOTICE_QUEUE_CAPACITY: usize = 256;

/// A request of the UI to the host.
#[derive(Debug, Clone, PartialEq)]
pub enum UiRequest {
    /// A command for the current agent, here or on a server.
    Agent(AgentCommand),
    /// A new session: answered by [`UiNotice::Opened`].
    New,
    /// Opens a session by its id or a prefix of it: answered by [`UiNotice::Opened`].
    Load(String),
    /// Continues in a copy of the session: answered by [`UiNotice::Opened`].
    Fork,
    /// Sessions that contain these words, or all; the newest first: [`UiNotice::Sessions`].
    Sessions { words: String },
    /// The end of a session: [`UiNotice::Preview`].
    Preview(SessionId),
    /// Reads an image file of the host: [`UiNotice::Attached`].
    Attach(PathBuf),
    /// Writes the session to a file: [`UiNotice::Said`].
    Export(Option<PathBuf>),
    /// Names of the available models: [`UiNotice::Models`].
    Models,
    /// Jobs of the server: [`UiNotice::Jobs`].
    Jobs,
    /// Follows a job of the server, by its id or a prefix of it: [`UiNotice::Opened`].
    Follow(String),
    /// The UI is about to end.
    Quit,
}

/// A message of the host to the UI.
#[derive(Debug, Clone, PartialEq)]
pub enum UiNotice {
    /// An event of the current agent.
    Event(Event),
    /// Another session or job is now the current one.
    Opened(Box<OpenedSession>),
    /// The answer for a query; an answer to an older query may arrive later.
    Sessions {
        words: String,
        rows: Vec<SessionRow>,
    },
    Preview(SessionPreview),
    Attached(ImageAttachment),
    Models(Vec<String>),
    Jobs(Vec<JobRow>),
    /// A success message of one line.
    Said(String),
    /// A request failed; the session continues.
    Failed {
        what: String,
        hint: Option<String>,
    },
    /// The agent ended unexpectedly. The only thing left is to open another session.
    Lost {
        what: String,
        hint: Option<String>,
    },
    /// The program is about to end: restore the terminal.
    Quit,
}

/// The session or job that was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedSession {
    pub origin: SessionOrigin,
    /// All events so far.
    pub history: Vec<Event>,
    /// The model in use.
    pub model: String,
    /// The folder mounted as `/workspace`.
    pub workspace: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SessionOrigin {
    /// An agent of this program. A new session has no id before its first turn.
    Here { session: Option<SessionId> },
    /// A job of a server.
    Job { job: JobId, server: String },
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub session: SessionId,
    pub changed: Timestamp,
    pub title: String,
    pub workspace: String,
    pub model: String,
    pub turns: u32,
    /// In US dollars.
    pub cost: Option<f64>,
    pub outcome: Option<String>,
    /// The text around the match.
    pub excerpt: Option<String>,
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPreview {
    pub session: SessionId,
    pub text: String,
}

/// An image to send with the next message.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageAttachment {
    pub path: PathBuf,
    pub image: Image,
    pub bytes: u64,
}

/// A job of a server in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub job: JobId,
    pub title: String,
    pub state: String,
    pub changed: Timestamp,
}

/// The UI's end of the channel.
#[derive(Debug)]
pub struct UiPort {
    pub(crate) notices: Receiver<UiNotice>,
    pub(crate) requests: UnboundedSender<UiRequest>,
    pub(crate) waker: LoopWaker,
}

/// The host program's end of the channel.
#[derive(Debug)]
pub struct HostPort {
    pub notices: NoticeSender,
    pub requests: UnboundedReceiver<UiRequest>,
}

/// Sends notices to the UI.
#[derive(Debug, Clone)]
pub struct NoticeSender {
    sender: Sender<UiNotice>,
    waker: LoopWaker,
}

impl NoticeSender {
    /// Waits while the queue is full. Returns false if the UI has ended.
    pub async fn send(&self, notice: UiNotice) -> bool {
        let is_sent = self.sender.send(notice).await.is_ok();
        self.waker.wake();
        is_sent
    }
}

/// Creates the channel between the UI and the host.
pub fn channel() -> std::io::Result<(HostPort, UiPort)> {
    let waker = LoopWaker::new()?;
    let (sender, notices) = mpsc::channel(NOTICE_QUEUE_CAPACITY);
    let (requests, asked) = mpsc::unbounded_channel();
    let host = HostPort {
        notices: NoticeSender {
            sender,
            waker: waker.clone(),
        },
        requests: asked,
    };
    let port = UiPort {
        notices,
        requests,
        waker,
    };
    Ok((host, port))
}
