//! All messages between the UI and the host program.
//!
//! The host sends [`Notice`]s and waits when the UI is behind; the UI sends [`Request`]s and never
//! waits.

use std::path::PathBuf;

use jiff::Timestamp;
use protocol::job::JobId;
use protocol::{Command, Event, Image, SessionId};
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};

use crate::terminal::Waker;

/// Capacity of the notice queue.
const NOTICES: usize = 256;

/// A request of the UI to the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A command for the current agent, here or on a server.
    Agent(Command),
    /// A new session: answered by [`Notice::Opened`].
    New,
    /// Opens a session by its id or a prefix of it: answered by [`Notice::Opened`].
    Load(String),
    /// Continues in a copy of the session: answered by [`Notice::Opened`].
    Fork,
    /// Sessions that contain these words, or all; the newest first: [`Notice::Sessions`].
    Sessions { words: String },
    /// The end of a session: [`Notice::Preview`].
    Preview(SessionId),
    /// Reads an image file of the host: [`Notice::Attached`].
    Attach(PathBuf),
    /// Writes the session to a file: [`Notice::Said`].
    Export(Option<PathBuf>),
    /// Names of the available models: [`Notice::Models`].
    Models,
    /// Jobs of the server: [`Notice::Jobs`].
    Jobs,
    /// Follows a job of the server, by its id or a prefix of it: [`Notice::Opened`].
    Follow(String),
    /// The UI is about to end.
    Quit,
}

/// A message of the host to the UI.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event of the current agent.
    Event(Event),
    /// Another session or job is now the current one.
    Opened(Box<Opened>),
    /// The answer for a query; an answer to an older query may arrive later.
    Sessions {
        words: String,
        rows: Vec<SessionRow>,
    },
    Preview(Preview),
    Attached(Attachment),
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
pub struct Opened {
    pub origin: Origin,
    /// All events so far.
    pub history: Vec<Event>,
    /// The model in use.
    pub model: String,
    /// The folder mounted as `/workspace`.
    pub workspace: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
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
pub struct Preview {
    pub session: SessionId,
    pub text: String,
}

/// An image to send with the next message.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
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
pub struct Port {
    pub(crate) notices: Receiver<Notice>,
    pub(crate) requests: UnboundedSender<Request>,
    pub(crate) waker: Waker,
}

/// The host program's end of the channel.
#[derive(Debug)]
pub struct Host {
    pub notices: Notices,
    pub requests: UnboundedReceiver<Request>,
}

/// Sends notices to the UI.
#[derive(Debug, Clone)]
pub struct Notices {
    sender: Sender<Notice>,
    waker: Waker,
}

impl Notices {
    /// Waits while the queue is full. Returns false if the UI has ended.
    pub async fn send(&self, notice: Notice) -> bool {
        let is_sent = self.sender.send(notice).await.is_ok();
        self.waker.wake();
        is_sent
    }
}

/// Creates the channel between the UI and the host.
pub fn channel() -> std::io::Result<(Host, Port)> {
    let waker = Waker::new()?;
    let (sender, notices) = mpsc::channel(NOTICES);
    let (requests, asked) = mpsc::unbounded_channel();
    let host = Host {
        notices: Notices {
            sender,
            waker: waker.clone(),
        },
        requests: asked,
    };
    let port = Port {
        notices,
        requests,
        waker,
    };
    Ok((host, port))
}
