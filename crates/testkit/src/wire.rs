//! Scripted replies in the providers' own words. Pure: nothing here knows of connections.

pub(crate) mod anthropic;
pub(crate) mod openai;

use std::hash::{DefaultHasher, Hash, Hasher};

use llm::script::{ScriptedCall, ScriptedReply};
use protocol::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::settings::Dialect;

/// The two ways in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
}

/// One event of a stream, with the line ends that a plain server sends.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) text: String,
    /// Whether the script's pace comes before it.
    pub(crate) paced: bool,
}

/// What of a request its reply depends on. Reads past the messages without keeping them, so that a
/// long history costs little.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
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

/// A reply and what it answers.
#[derive(Debug)]
pub(crate) struct Speech<'a> {
    pub(crate) reply: &'a ScriptedReply,
    pub(crate) asked: &'a Asked,
    pub(crate) dialect: Dialect,
    /// Which request of this server it answers.
    pub(crate) number: usize,
    /// Bytes of the request.
    pub(crate) length: usize,
}

impl Speech<'_> {
    /// The same in each run, and different in all replies of a conversation, also one that is
    /// continued with another server or begins again after a failed reply.
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
                input_tokens: tokens(self.length),
                output_tokens: tokens(said + inputs),
                ..Usage::default()
            }
        })
    }

    fn wants_usage(&self) -> bool {
        let asked = self.asked.stream_options.as_ref();
        !self.dialect.no_usage && asked.is_some_and(|options| options.include_usage)
    }
}

fn tokens(bytes: usize) -> u64 {
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

/// Follows from the thinking alone, so that any server knows whether a block came back unchanged.
pub(crate) fn sign(thinking: &str) -> String {
    let mut hasher = DefaultHasher::new();
    thinking.hash(&mut hasher);
    format!("Eu+/{:016x}/+Q==", hasher.finish())
}

/// Text in words, each with the space after it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// Text in pieces that end anywhere, in the middle of JSON's words and escapes too.
fn pieces(text: &str) -> Vec<&str> {
    const LENGTH: usize = 11;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(LENGTH));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
