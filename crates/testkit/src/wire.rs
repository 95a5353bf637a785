//! Scripted replies in the providers' wire formats. Pure: does not know connections.

pub(crate) mod anthropic;
pub(crate) mod openai;

use std::hash::{DefaultHasher, Hash, Hasher};

use llm::script::{ScriptedCall, ScriptedReply};
use protocol::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::settings::Dialect;

/// The two model APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelApi {
    Anthropic,
    OpenAi,
}

/// One event of a stream, with LF line ends.
#[derive(Debug)]
pub(crate) struct WireEvent {
    pub(crate) text: String,
    /// Whether the script's pace delays it.
    pub(crate) paced: bool,
}

/// The fields of a request that its reply depends on. Skips the messages' content, so that a long
/// history costs little.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestHead {
    pub(crate) model: String,
    pub(crate) stream: bool,
    stream_options: Option<StreamOptions>,
    messages: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// A reply and the request that it answers.
#[derive(Debug)]
pub(crate) struct ReplyContext<'a> {
    pub(crate) reply: &'a ScriptedReply,
    pub(crate) asked: &'a RequestHead,
    pub(crate) dialect: Dialect,
    /// Number of the request within this server.
    pub(crate) number: usize,
    /// Size of the request in bytes.
    pub(crate) length: usize,
}

impl ReplyContext<'_> {
    /// Deterministic, and unique among the replies of a conversation, even if the conversation
    /// continues with another server or a failed reply is repeated.
    fn serial(&self) -> String {
        format!("{:04}{:04}", self.asked.messages.len(), self.number)
    }

    fn call_id(&self, place: usize) -> String {
        format!("toolu_{}{place:02}", self.serial())
    }

    pub(crate) fn call_ids(&self) -> impl Iterator<Item = String> {
        (0..self.reply.calls.len()).map(|place| self.call_id(place))
    }

    fn usage(&self) -> Usage {
        self.reply.usage.unwrap_or_else(|| {
            let inputs: usize = self.reply.calls.iter().map(|call| input(call).len()).sum();
            let texts = [&self.reply.thinking, &self.reply.text];
            let said: usize = texts.into_iter().flatten().map(String::len).sum();
            Usage {
                input_tokens: estimate_tokens(self.length),
                output_tokens: estimate_tokens(said + inputs),
                ..Usage::default()
            }
        })
    }

    fn wants_usage(&self) -> bool {
        let asked = self.asked.stream_options.as_ref();
        !self.dialect.no_usage && asked.is_some_and(|options| options.include_usage)
    }
}

fn estimate_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4).max(1) as u64
}

/// The JSON text of a call's input.
fn input(call: &ScriptedCall) -> String {
    match &call.raw {
        Some(raw) => raw.clone(),
        None if call.input.is_null() => "{}".to_owned(),
        None => call.input.to_string(),
    }
}

/// Depends only on the thinking, so that any server can tell whether a block came back unchanged.
pub(crate) fn sign(thinking: &str) -> String {
    let mut hasher = DefaultHasher::new();
    thinking.hash(&mut hasher);
    format!("Eu+/{:016x}/+Q==", hasher.finish())
}

/// Text in words, each with the whitespace after it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// Text in pieces that end anywhere, even within JSON tokens and escapes.
fn pieces(text: &str) -> Vec<&str> {
    const PIECE_BYTES: usize = 11;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
