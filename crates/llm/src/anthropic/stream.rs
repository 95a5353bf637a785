//! Assembles a reply from the events of its stream. Does no I/O: `apply` takes events as data,
//! `finish` returns the reply.

use std::collections::BTreeMap;

use protocol::{Block, CallId, Stop, Usage};
use serde_json::{Map, Value, json};

use crate::anthropic::event::{BlockDelta, MessageEvent};
use crate::calls::{CallIds, may_truncate, parse_input, sanitize_tool_name};
use crate::error::{ModelError, ModelErrorKind};
use crate::failure;
use crate::model::{ModelReply, ReplyEvent};

/// A reply under construction.
#[derive(Debug)]
pub(crate) struct MessageStream<'a> {
    ids: CallIds<'a>,
    parts: BTreeMap<u64, PartialBlock>,
    model: String,
    usage: Usage,
    stop: Option<String>,
    is_over: bool,
}

/// A block under construction.
#[derive(Debug)]
enum PartialBlock {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    Call {
        id: CallId,
        name: String,
        /// The input at the start of the block: `{}` from the API, the whole input from some
        /// servers.
        begun_with: Value,
        json: String,
    },
    /// A block type that is not known here, with the JSON text of its input, if it has one.
    Other {
        fields: Map<String, Value>,
        json: String,
    },
    /// A block that arrives complete.
    Whole(Block),
}

impl<'a> MessageStream<'a> {
    /// `ids` assigns the ids of this reply's calls.
    pub(crate) fn new(ids: CallIds<'a>) -> Self {
        Self {
            ids,
            parts: BTreeMap::new(),
            model: String::new(),
            usage: Usage::default(),
            stop: None,
            is_over: false,
        }
    }

    /// Whether the end of the reply was received.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Processes the data of the next event.
    pub(crate) fn apply(
        &mut self,
        data: &str,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<(), ModelError> {
        match MessageEvent::parse(data)? {
            MessageEvent::MessageStart { message } => {
                self.model = message.model;
                message.usage.unwrap_or_default().replace(&mut self.usage);
                hear(ReplyEvent::Used(self.usage));
            }
            MessageEvent::ContentBlockStart {
                index,
                content_block,
            } => {
                let part = start_block(content_block, &mut self.ids, hear);
                self.parts.insert(index, part);
            }
            MessageEvent::ContentBlockDelta { index, delta } => {
                let part = self.parts.get_mut(&index);
                let fits = part.is_some_and(|part| extend(part, delta, hear));
                if !fits {
                    return Err(broken("a delta matches no block"));
                }
            }
            MessageEvent::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                usage.unwrap_or_default().replace(&mut self.usage);
            }
            MessageEvent::MessageStop => self.is_over = true,
            MessageEvent::Error { error } => return Err(failure::from_stream(&error)),
            // The end of a block needs no action: whether its input is complete is known only with
            // the reply's stop reason.
            MessageEvent::ContentBlockStop | MessageEvent::Ping | MessageEvent::Unknown => {}
        }
        Ok(())
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self) -> Result<ModelReply, ModelError> {
        if !self.is_over {
            return Err(broken("the stream ended early"));
        }
        let is_call = |part: &PartialBlock| matches!(part, PartialBlock::Call { .. });
        let has_calls = self.parts.values().any(is_call);
        let stop = match self.stop {
            Some(reason) => {
                serde_json::from_value(Value::String(reason.clone())).unwrap_or(Stop::Other(reason))
            }
            None if has_calls => Stop::ToolUse,
            None => Stop::EndTurn,
        };
        let mut reply = ModelReply {
            content: Vec::new(),
            broken_calls: BTreeMap::new(),
            usage: self.usage,
            model: self.model,
            stop,
        };
        let last = self.parts.keys().next_back().copied();
        for (index, part) in self.parts {
            let is_cut = Some(index) == last && may_truncate(&reply.stop);
            finish_block(part, is_cut, &mut reply);
        }
        Ok(reply)
    }
}

fn broken(why: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Stream,
        format!("cannot read the whole reply: {why}"),
    )
}

/// Creates a block from its initial form. Emits content that is already in it.
fn start_block(
    mut fields: Map<String, Value>,
    ids: &mut CallIds<'_>,
    hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
) -> PartialBlock {
    let kind = fields
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let kind = kind.to_owned();
    let mut take = |key: &str| match fields.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    match kind.as_str() {
        "text" => {
            let text = take("text");
            emit_nonempty(hear, ReplyEvent::Text(&text));
            let citations = match fields.remove("citations") {
                Some(Value::Array(citations)) => citations,
                _ => Vec::new(),
            };
            PartialBlock::Text { text, citations }
        }
        "thinking" => {
            let thinking = take("thinking");
            emit_nonempty(hear, ReplyEvent::Thinking(&thinking));
            let signature = take("signature");
            PartialBlock::Thinking {
                thinking,
                signature,
            }
        }
        "redacted_thinking" => PartialBlock::Whole(Block::RedactedThinking { data: take("data") }),
        "tool_use" => {
            let id = ids.claim(Some(&take("id")));
            let name = take("name");
            hear(ReplyEvent::Input {
                call: &id,
                name: &name,
                json: "",
            });
            PartialBlock::Call {
                id,
                name,
                begun_with: fields.remove("input").unwrap_or_default(),
                json: String::new(),
            }
        }
        _ => PartialBlock::Other {
            fields,
            json: String::new(),
        },
    }
}

/// Emits a piece unless it is empty.
fn emit_nonempty(hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send), piece: ReplyEvent<'_>) {
    let (ReplyEvent::Text(text)
    | ReplyEvent::Thinking(text)
    | ReplyEvent::Input { json: text, .. }) = piece
    else {
        return;
    };
    if !text.is_empty() {
        hear(piece);
    }
}

/// Adds a delta to a block; false if the delta is for another kind of block.
fn extend(
    part: &mut PartialBlock,
    delta: BlockDelta,
    hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
) -> bool {
    match (part, delta) {
        (_, BlockDelta::Unknown) => {}
        (PartialBlock::Text { text, .. }, BlockDelta::Text { text: piece }) => {
            emit_nonempty(hear, ReplyEvent::Text(&piece));
            text.push_str(&piece);
        }
        (PartialBlock::Text { citations, .. }, BlockDelta::Citations { citation }) => {
            citations.push(citation);
        }
        (PartialBlock::Thinking { thinking, .. }, BlockDelta::Thinking { thinking: piece }) => {
            emit_nonempty(hear, ReplyEvent::Thinking(&piece));
            thinking.push_str(&piece);
        }
        (PartialBlock::Thinking { signature, .. }, BlockDelta::Signature { signature: whole }) => {
            *signature = whole;
        }
        (PartialBlock::Call { id, name, json, .. }, BlockDelta::InputJson { partial_json }) => {
            let piece = ReplyEvent::Input {
                call: id,
                name,
                json: &partial_json,
            };
            emit_nonempty(hear, piece);
            json.push_str(&partial_json);
        }
        (PartialBlock::Other { fields, json }, delta) => extend_other(fields, json, delta),
        _ => return false,
    }
    true
}

/// New block types use the existing delta types, so each delta goes to the field that it has in
/// known blocks.
fn extend_other(fields: &mut Map<String, Value>, json: &mut String, delta: BlockDelta) {
    let (key, piece) = match delta {
        BlockDelta::InputJson { partial_json } => return json.push_str(&partial_json),
        BlockDelta::Citations { citation } => {
            match fields.entry("citations").or_insert(Value::Null) {
                Value::Array(citations) => citations.push(citation),
                other => *other = json!([citation]),
            }
            return;
        }
        BlockDelta::Signature { signature } => {
            fields.insert("signature".to_owned(), signature.into());
            return;
        }
        BlockDelta::Text { text } => ("text", text),
        BlockDelta::Thinking { thinking } => ("thinking", thinking),
        BlockDelta::Unknown => return,
    };
    match fields.entry(key).or_insert(Value::Null) {
        Value::String(text) => text.push_str(&piece),
        other => *other = piece.into(),
    }
}

/// Adds a finished block, complete or cut off, to the reply.
fn finish_block(part: PartialBlock, is_cut: bool, reply: &mut ModelReply) {
    let block = match part {
        // The API sometimes sends such blocks and refuses them in later requests.
        PartialBlock::Text { text, citations } if text.is_empty() && citations.is_empty() => return,
        PartialBlock::Text { text, citations } => Block::Text { text, citations },
        PartialBlock::Thinking {
            thinking,
            signature,
        } => Block::Thinking {
            thinking,
            signature,
        },
        PartialBlock::Call {
            id,
            name,
            begun_with,
            json,
        } => {
            let came_whole =
                json.is_empty() && begun_with.as_object().is_some_and(|o| !o.is_empty());
            let (input, reason) = if came_whole {
                (begun_with, None)
            } else {
                parse_input(&json, is_cut)
            };
            let (name, unknown) = sanitize_tool_name(name);
            if let Some(reason) = unknown.or(reason) {
                reply.broken_calls.insert(id.clone(), reason);
            }
            Block::ToolUse { id, name, input }
        }
        PartialBlock::Other { mut fields, json } => {
            if !json.is_empty() {
                fields.insert("input".to_owned(), parse_input(&json, is_cut).0);
            }
            Block::Other(Value::Object(fields))
        }
        PartialBlock::Whole(block) => block,
    };
    reply.content.push(block);
}

#[cfg(test)]
mod tests;
