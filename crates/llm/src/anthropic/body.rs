//! Request bodies of the Messages API, serialised directly from borrowed data. Pure.
//!
//! The wire form is that of `protocol`, plus prompt cache marks and minus text that the API would
//! refuse.

use std::sync::Arc;

use protocol::{Block, Message, Role, ToolDefinition};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::message_cache::CachedMessage;
use crate::model::ModelRequest;

/// The smallest thinking budget that the API accepts.
const MIN_THINKING_TOKENS: u32 = 1_024;

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingMode {
    /// Up to this many tokens. Supported by models up to Claude 4.6.
    Budget(u32),
    /// The model decides how much. Later models support only this.
    Adaptive,
}

/// What the body is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyPurpose {
    Reply,
    /// Has neither `max_tokens` nor `stream`.
    Count,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MessagesBody<'a> {
    pub(super) model: &'a str,
    pub(super) request: ModelRequest<'a>,
    /// The leading messages, none of which has a cache mark, as serialised for an earlier request.
    pub(super) written: &'a [CachedMessage],
    pub(super) thinking: Option<ThinkingMode>,
    pub(super) purpose: BodyPurpose,
}

impl MessagesBody<'_> {
    fn thinking(&self) -> Option<serde_json::Value> {
        match self.thinking? {
            // Without `display`, later models do not send any of their thinking.
            ThinkingMode::Adaptive => Some(json!({"type": "adaptive", "display": "summarized"})),
            ThinkingMode::Budget(budget) => {
                let room = self.request.max_tokens.saturating_sub(1);
                let budget = budget.max(MIN_THINKING_TOKENS).min(room);
                let fits = budget >= MIN_THINKING_TOKENS
                    && !continues_turn_without_thinking(self.request.messages);
                fits.then(|| json!({"type": "enabled", "budget_tokens": budget}))
            }
        }
    }
}

/// Whether the request continues a turn whose first reply has no thinking, because it came from
/// another model or from before thinking was enabled. The API then refuses thinking until the turn
/// ends. Only the first reply of a turn needs thinking.
fn continues_turn_without_thinking(messages: &[Arc<Message>]) -> bool {
    let answers = |message: &Message| {
        let mut blocks = message.content.iter();
        blocks.any(|block| matches!(block, Block::ToolResult { .. }))
    };
    if !messages.last().is_some_and(|message| answers(message)) {
        return false;
    }
    let is_reply = |message: &Message| message.role == Role::Assistant;
    let back = messages.iter().rev();
    let turn = back.take_while(|message| is_reply(message) || answers(message));
    let first_reply = turn.filter(|message| is_reply(message)).last();
    let thought = first_reply.and_then(|message| message.content.first());
    !matches!(
        thought,
        Some(Block::Thinking { .. } | Block::RedactedThinking { .. })
    )
}

impl Serialize for MessagesBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ModelRequest {
            system,
            tools,
            messages,
            max_tokens,
        } = self.request;
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("model", self.model)?;
        if self.purpose == BodyPurpose::Reply {
            body.serialize_entry("max_tokens", &max_tokens)?;
            body.serialize_entry("stream", &true)?;
        }
        if let Some(thinking) = self.thinking() {
            body.serialize_entry("thinking", &thinking)?;
        }
        if !tools.is_empty() {
            body.serialize_entry("tools", &MarkedTools(tools))?;
        }
        if system.iter().any(|text| !is_blank(text)) {
            body.serialize_entry("system", &SystemPrompt(system))?;
        }
        let messages = MessageList {
            messages,
            written: self.written,
        };
        body.serialize_entry("messages", &messages)?;
        body.end()
    }
}

/// The mark that asks the service to cache everything before it.
///
/// A request has at most four. The prefix of a request is tools, then system prompt, then messages.
/// So there is one mark on the last tool, one on the last block of the system prompt (each stays
/// valid when what follows it changes), and one on each of the last two user messages. The last one
/// caches this request for the next. The one before it is where the previous request had its last
/// mark: the service searches only about twenty blocks back from a mark for a cached prefix, so
/// after a reply with many calls the last mark alone would not find it.
#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

const EPHEMERAL_CACHE: CacheControl = CacheControl {
    r#type: "ephemeral",
};

#[derive(Serialize)]
struct WithCacheControl<T> {
    #[serde(flatten)]
    value: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

impl<T> WithCacheControl<T> {
    fn new(value: T, is_marked: bool) -> Self {
        Self {
            value,
            cache_control: is_marked.then_some(EPHEMERAL_CACHE),
        }
    }
}

struct MarkedTools<'a>(&'a [ToolDefinition]);

impl Serialize for MarkedTools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.0.len().saturating_sub(1);
        let tools = self.0.iter().enumerate();
        serializer
            .collect_seq(tools.map(|(place, tool)| WithCacheControl::new(tool, place == last)))
    }
}

struct SystemPrompt<'a>(&'a [String]);

impl Serialize for SystemPrompt<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        let last = self.0.iter().rposition(|text| !is_blank(text));
        let mut texts = serializer.serialize_seq(None)?;
        for (place, text) in self.0.iter().enumerate() {
            if !is_blank(text) {
                let block = Text {
                    r#type: "text",
                    text,
                };
                texts.serialize_element(&WithCacheControl::new(block, Some(place) == last))?;
            }
        }
        texts.end()
    }
}

struct MessageList<'a> {
    messages: &'a [Arc<Message>],
    written: &'a [CachedMessage],
}

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let marks = marks(self.messages);
        let mut messages = serializer.serialize_seq(None)?;
        for json in self.written.iter().filter_map(|entry| entry.json.as_ref()) {
            messages.serialize_element(json)?;
        }
        let rest = self.messages.iter().enumerate().skip(self.written.len());
        for (place, message) in rest {
            if let Some(sent) = SentMessage::new(message, marks.contains(&Some(place))) {
                messages.serialize_element(&sent)?;
            }
        }
        messages.end()
    }
}

/// Positions of the last two user messages that can carry a mark.
fn marks(messages: &[Arc<Message>]) -> [Option<usize>; 2] {
    let mut marked = messages.iter().enumerate().rev().filter(|(_, message)| {
        message.role == Role::User && message.content.iter().any(can_be_marked)
    });
    let mut next = || marked.next().map(|(place, _)| place);
    [next(), next()]
}

/// The number of messages before the first mark. They are serialised the same in every request.
pub(super) fn settled(messages: &[Arc<Message>]) -> usize {
    marks(messages).into_iter().flatten().min().unwrap_or(0)
}

/// Serialises a message without a mark; `None` if it is not sent.
pub(super) fn serialize_message(message: &Message) -> serde_json::Result<Option<Box<RawValue>>> {
    SentMessage::new(message, false)
        .map(|sent| to_raw_value(&sent))
        .transpose()
}

#[derive(Serialize)]
struct SentMessage<'a> {
    role: Role,
    content: SentContent<'a>,
}

impl<'a> SentMessage<'a> {
    fn new(message: &'a Message, is_marked: bool) -> Option<Self> {
        let is_sent = message.content.iter().any(can_be_sent);
        is_sent.then_some(Self {
            role: message.role,
            content: SentContent {
                blocks: &message.content,
                is_marked,
            },
        })
    }
}

struct SentContent<'a> {
    blocks: &'a [Block],
    /// The mark is on the last block that can carry one.
    is_marked: bool,
}

impl Serialize for SentContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mark = if self.is_marked {
            self.blocks.iter().rposition(can_be_marked)
        } else {
            None
        };
        let mut blocks = serializer.serialize_seq(None)?;
        for (place, block) in self.blocks.iter().enumerate() {
            let is_marked = Some(place) == mark;
            match block {
                block if !can_be_sent(block) => {}
                Block::ToolResult {
                    tool_use_id,
                    content,
                    is_error,
                } => {
                    let result = ToolResultBlock {
                        r#type: "tool_result",
                        tool_use_id: &tool_use_id.0,
                        content: SentContent {
                            blocks: content,
                            is_marked: false,
                        },
                        is_error: *is_error,
                    };
                    // Serialising a mark is slower, and a long history has many results.
                    if is_marked {
                        blocks.serialize_element(&WithCacheControl::new(result, true))?
                    } else {
                        blocks.serialize_element(&result)?
                    }
                }
                block if is_marked => {
                    blocks.serialize_element(&WithCacheControl::new(block, true))?
                }
                block => blocks.serialize_element(block)?,
            }
        }
        blocks.end()
    }
}

#[derive(Serialize)]
struct ToolResultBlock<'a> {
    r#type: &'static str,
    tool_use_id: &'a str,
    content: SentContent<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// The API refuses blank text.
fn can_be_sent(block: &Block) -> bool {
    block.as_text().is_none_or(|text| !is_blank(text))
}

fn can_be_marked(block: &Block) -> bool {
    let fits = matches!(
        block,
        Block::Text { .. } | Block::ToolResult { .. } | Block::Image { .. }
    );
    fits && can_be_sent(block)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests;
