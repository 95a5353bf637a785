//! The server's answer to one request: a scripted reply, possibly with disturbances, or raw bytes.

use std::time::Duration;

use bytes::Bytes;
use llm::script::ScriptedReply;

use crate::framing::Framing;
use crate::gate::StreamGate;

/// Positions count all events of the stream, including `message_start` and `ping`.
#[derive(Debug, Clone)]
pub struct ScriptedAnswer {
    pub(crate) kind: AnswerKind,
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) holds: Vec<(usize, StreamGate)>,
    pub(crate) inserts: Vec<(usize, Bytes)>,
    pub(crate) end_after: Option<usize>,
    pub(crate) framing: Option<Framing>,
}

#[derive(Debug, Clone)]
pub(crate) enum AnswerKind {
    Reply(Box<ScriptedReply>),
    Raw(Vec<RawChunk>),
    HangUp,
}

/// A step of a body that the test defines itself.
#[derive(Debug, Clone)]
pub enum RawChunk {
    Bytes(Bytes),
    Hold(StreamGate),
    /// For scripts with a pace. A test that needs to wait should use a gate.
    Pause(Duration),
    /// Breaks the connection. Without it the body ends normally.
    Cut,
}

impl RawChunk {
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl ScriptedAnswer {
    fn new(kind: AnswerKind) -> Self {
        Self {
            kind,
            status: None,
            headers: Vec::new(),
            holds: Vec::new(),
            inserts: Vec::new(),
            end_after: None,
            framing: None,
        }
    }

    pub fn reply(reply: ScriptedReply) -> Self {
        Self::new(AnswerKind::Reply(Box::new(reply)))
    }

    /// These chunks as the body. The defaults are status 200 and the content type of an event
    /// stream.
    pub fn raw(chunks: impl IntoIterator<Item = RawChunk>) -> Self {
        Self::new(AnswerKind::Raw(chunks.into_iter().collect()))
    }

    /// A complete body.
    pub fn body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::raw([RawChunk::Bytes(body.into())])
            .with_status(status)
            .with_header("content-type", content_type)
    }

    /// Closes the connection without an answer.
    pub fn hang_up() -> Self {
        Self::new(AnswerKind::HangUp)
    }

    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets a response header, replacing one that the server would send.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Stops at the gate after this many events.
    #[must_use]
    pub fn hold(mut self, after: usize, gate: &StreamGate) -> Self {
        self.holds.push((after, gate.clone()));
        self
    }

    /// Sends these bytes after this many events: an event of an unknown kind, a comment, garbage.
    #[must_use]
    pub fn insert(mut self, after: usize, bytes: impl Into<Bytes>) -> Self {
        self.inserts.push((after, bytes.into()));
        self
    }

    /// Ends the body normally after this many events, whereas the script's `cut_after` breaks the
    /// connection.
    #[must_use]
    pub fn end_after(mut self, events: usize) -> Self {
        self.end_after = Some(events);
        self
    }

    /// Replaces the server's framing.
    #[must_use]
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }
}

impl From<ScriptedReply> for ScriptedAnswer {
    fn from(reply: ScriptedReply) -> Self {
        Self::reply(reply)
    }
}
