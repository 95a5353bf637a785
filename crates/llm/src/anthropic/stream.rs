//! Assembles a reply from the events of its stream. Does no I/O: `apply` takes events as data,
//! `finish` returns the reply.

use std::collections::BTreeMap;

use protocol::{Block, CallId, Stop, Usage};
use serde_json::{Map, Value, json};

use crate::anthropic::event::{Delta, Event};
use crate::calls::{Ids, cuts, read_input, read_name};
use crate::error::{ErrorKind, ModelError};
use crate::failure;
use crate::model::{Piece, Reply};

/// A reply under construction.
#[derive(Debug)]
pub(crate) struct StreamState<'a> {
    ids: Ids<'a>,
    parts: BTreeMap<u64, Part>,
    model: String,
    usage: Usage,
    stop: Option<String>,
    is_over: bool,
}

/// A block under construction.
#[derive(Debug)]
enum Part {
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

impl<'a> StreamState<'a> {
    /// `ids` assigns the ids of this reply's calls.
    pub(crate) fn new(ids: Ids<'a>) -> Self {
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
        hear: &mut (dyn FnMut(Piece<'_>) + Send),
    ) -> Result<(), ModelError> {
        match Event::parse(data)? {
            Event::MessageStart { message } => {
                self.model = message.model;
                message.usage.unwrap_or_default().replace(&mut self.usage);
                hear(Piece::Used(self.usage));
            }
            Event::ContentBlockStart {
                index,
                content_block,
            } => {
                let part = begin(content_block, &mut self.ids, hear);
                self.parts.insert(index, part);
            }
            Event::ContentBlockDelta { index, delta } => {
                let part = self.parts.get_mut(&index);
                let fits = part.is_some_and(|part| extend(part, delta, hear));
                if !fits {
                    return Err(broken("a delta matches no block"));
                }
            }
            Event::MessageDelta { delta, usage } => {
                self.stop = delta.stop_reason.or(self.stop.take());
                usage.unwrap_or_default().replace(&mut self.usage);
            }
            Event::MessageStop => self.is_over = true,
            Event::Error { error } => return Err(failure::from_stream(&error)),
            // The end of a block needs no action: whether its input is complete is known only with
            // the reply's stop reason.
            Event::ContentBlockStop | Event::Ping | Event::Unknown => {}
        }
        Ok(())
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self) -> Result<Reply, ModelError> {
        if !self.is_over {
            return Err(broken("the stream ended early"));
        }
        let is_call = |part: &Part| matches!(part, Part::Call { .. });
        let has_calls = self.parts.values().any(is_call);
        let stop = match self.stop {
            Some(reason) => {
                serde_json::from_value(Value::String(reason.clone())).unwrap_or(Stop::Other(reason))
            }
            None if has_calls => Stop::ToolUse,
            None => Stop::EndTurn,
        };
        let mut reply = Reply {
            content: Vec::new(),
            broken_calls: BTreeMap::new(),
            usage: self.usage,
            model: self.model,
            stop,
        };
        let last = self.parts.keys().next_back().copied();
        for (index, part) in self.parts {
            let is_cut = Some(index) == last && cuts(&reply.stop);
            end(part, is_cut, &mut reply);
        }
        Ok(reply)
    }
}

fn broken(why: &str) -> ModelError {
    ModelError::new(
        ErrorKind::Stream,
        format!("cannot read the whole reply: {why}"),
    )
}

/// Creates a block from its initial form. Emits content that is already in it.
fn begin(
    mut fields: Map<String, Value>,
    ids: &mut Ids<'_>,
    hear: &mut (dyn FnMut(Piece<'_>) + Send),
) -> Part {
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
            say(hear, Piece::Text(&text));
            let citations = match fields.remove("citations") {
                Some(Value::Array(citations)) => citations,
                _ => Vec::new(),
            };
            Part::Text { text, citations }
        }
        "thinking" => {
            let thinking = take("thinking");
            say(hear, Piece::Thinking(&thinking));
            let signature = take("signature");
            Part::Thinking {
                thinking,
                signature,
            }
        }
        "redacted_thinking" => Part::Whole(Block::RedactedThinking { data: take("data") }),
        "tool_use" => {
            let id = ids.claim(Some(&take("id")));
            let name = take("name");
            hear(Piece::Input {
                call: &id,
                name: &name,
                json: "",
            });
            Part::Call {
                id,
                name,
                begun_with: fields.remove("input").unwrap_or_default(),
                json: String::new(),
            }
        }
        _ => Part::Other {
            fields,
            json: String::new(),
        },
    }
}

/// Emits a piece unless it is empty.
fn say(hear: &mut (dyn FnMut(Piece<'_>) + Send), piece: Piece<'_>) {
    let (Piece::Text(text) | Piece::Thinking(text) | Piece::Input { json: text, .. }) = piece
    else {
        return;
    };
    if !text.is_empty() {
        hear(piece);
    }
}

/// Adds a delta to a block; false if the delta is for another kind of block.
fn extend(part: &mut Part, delta: Delta, hear: &mut (dyn FnMut(Piece<'_>) + Send)) -> bool {
    match (part, delta) {
        (_, Delta::Unknown) => {}
        (Part::Text { text, .. }, Delta::Text { text: piece }) => {
            say(hear, Piece::Text(&piece));
            text.push_str(&piece);
        }
        (Part::Text { citations, .. }, Delta::Citations { citation }) => {
            citations.push(citation);
        }
        (Part::Thinking { thinking, .. }, Delta::Thinking { thinking: piece }) => {
            say(hear, Piece::Thinking(&piece));
            thinking.push_str(&piece);
        }
        (Part::Thinking { signature, .. }, Delta::Signature { signature: whole }) => {
            *signature = whole;
        }
        (Part::Call { id, name, json, .. }, Delta::InputJson { partial_json }) => {
            let piece = Piece::Input {
                call: id,
                name,
                json: &partial_json,
            };
            say(hear, piece);
            json.push_str(&partial_json);
        }
        (Part::Other { fields, json }, delta) => extend_other(fields, json, delta),
        _ => return false,
    }
    true
}

/// New block types use the existing delta types, so each delta goes to the field that it has in
/// known blocks.
fn extend_other(fields: &mut Map<String, Value>, json: &mut String, delta: Delta) {
    let (key, piece) = match delta {
        Delta::InputJson { partial_json } => return json.push_str(&partial_json),
        Delta::Citations { citation } => {
            match fields.entry("citations").or_insert(Value::Null) {
                Value::Array(citations) => citations.push(citation),
                other => *other = json!([citation]),
            }
            return;
        }
        Delta::Signature { signature } => {
            fields.insert("signature".to_owned(), signature.into());
            return;
        }
        Delta::Text { text } => ("text", text),
        Delta::Thinking { thinking } => ("thinking", thinking),
        Delta::Unknown => return,
    };
    match fields.entry(key).or_insert(Value::Null) {
        Value::String(text) => text.push_str(&piece),
        other => *other = piece.into(),
    }
}

/// Adds a finished block, complete or cut off, to the reply.
fn end(part: Part, is_cut: bool, reply: &mut Reply) {
    let block = match part {
        // The API sometimes sends such blocks and refuses them in later requests.
        Part::Text { text, citations } if text.is_empty() && citations.is_empty() => return,
        Part::Text { text, citations } => Block::Text { text, citations },
        Part::Thinking {
            thinking,
            signature,
        } => Block::Thinking {
            thinking,
            signature,
        },
        Part::Call {
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
                read_input(&json, is_cut)
            };
            let (name, unknown) = read_name(name);
            if let Some(reason) = unknown.or(reason) {
                reply.broken_calls.insert(id.clone(), reason);
            }
            Block::ToolUse { id, name, input }
        }
        Part::Other { mut fields, json } => {
            if !json.is_empty() {
                fields.insert("input".to_owned(), read_input(&json, is_cut).0);
            }
            Block::Other(Value::Object(fields))
        }
        Part::Whole(block) => block,
    };
    reply.content.push(block);
}

#[cfg(test)]
mod tests;
