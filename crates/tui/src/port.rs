//! Everything that passes between the UI and the program around it. The whole list.
//!
//! The program sends [`Notice`]s and waits when the UI is behind; the UI sends [`Request`]s and
//! never waits.

use std::path::PathBuf;

use jiff::Timestamp;
use protocol::job::JobId;
use protocol::{Command, Event, Image, SessionId};
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};

use crate::terminal::Waker;

/// Notices that may wait for the UI.
const NOTICES: usize = 256;

/// What the UI asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// For the agent that is being talked to, here or on a server.
    Agent(Command),
    /// A new session: answered by [`Notice::Opened`].
    New,
    /// A session by its name or how that begins: answered by [`Notice::Opened`].
    Load(String),
    /// Goes on in a copy of the session: answered by [`Notice::Opened`].
    Fork,
    /// Sessions that have these words, or all; the newest first: [`Notice::Sessions`].
    Sessions { words: String },
    /// The end of a session, to look at: [`Notice::Preview`].
    Preview(SessionId),
    /// Reads a picture of the host: [`Notice::Attached`].
    Attach(PathBuf),
    /// Writes the session to a file: [`Notice::Said`].
    Export(Option<PathBuf>),
    /// Names of models that can be chosen: [`Notice::Models`].
    Models,
    /// Jobs of the server: [`Notice::Jobs`].
    Jobs,
    /// Follows a job of the server, by its name or how that begins: [`Notice::Opened`].
    Follow(String),
    /// The UI is about to end.
    Quit,
}

/// What the UI hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// From the agent that is being talked to.
    Event(Event),
    /// Another session, or job, is being talked to from now on.
    Opened(Box<Opened>),
    /// For the words that were asked for; an answer to older words may come later.
    Sessions {
        words: String,
        rows: Vec<SessionRow>,
    },
    Preview(Preview),
    Attached(Attachment),
    Models(Vec<String>),
    Jobs(Vec<JobRow>),
    /// One line of good news.
    Said(String),
    /// Something could not be done; the session goes on.
    Failed {
        what: String,
        hint: Option<String>,
    },
    /// The agent ended, and not because it was asked to; only another session can be opened.
    Lost {
        what: String,
        hint: Option<String>,
    },
    /// The program wants to end: give the terminal back.
    Quit,
}

/// What is being talked to.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    pub origin: Origin,
    /// What happened so far.
    pub history: Vec<Event>,
    /// The model that will be asked.
    pub model: String,
    /// The folder that is `/workspace`.
    pub workspace: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// An agent of this program. A new session has no name before its first turn.
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
    /// Where the words were found.
    pub excerpt: Option<String>,
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    pub session: SessionId,
    pub text: String,
}

/// A picture that goes with the next message.
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

/// The UI's end.
#[derive(Debug)]
pub struct Port {
    pub(crate) notices: Receiver<Notice>,
    pub(crate) requests: UnboundedSender<Request>,
    pub(crate) waker: Waker,
}

/// The program's end.
#[derive(Debug)]
pub struct Host {
    pub notices: Notices,
    pub requests: UnboundedReceiver<Request>,
}

/// Where notices go in.
#[derive(Debug, Clone)]
pub struct Notices {
    sender: Sender<Notice>,
    waker: Waker,
}

impl Notices {
    /// Waits while the UI is behind. False when it has ended.
    pub async fn send(&self, notice: Notice) -> bool {
        let is_sent = self.sender.send(notice).await.is_ok();
        self.waker.wake();
        is_sent
    }
}

/// Two ends that fit each other.
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
