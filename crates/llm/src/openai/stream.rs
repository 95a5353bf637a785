//! Assembles a reply from the chunks of a chat completion. Does no I/O.
//!
//! Differences between servers are handled here: which call a piece belongs to, ids that are
//! missing or used twice, stop reasons that do not match the content.

use std::collections::BTreeMap;

use protocol::{Block, CallId, Stop, Usage};
use serde::de::IgnoredAny;

use crate::calls::{CallIds, may_truncate, parse_input, sanitize_tool_name};
use crate::error::{ModelError, ModelErrorKind};
use crate::events::DONE_EVENT;
use crate::failure;
use crate::model::{ModelReply, ReplyEvent};
use crate::openai::chunk::{CallPiece, ChoiceDelta, CompletionChunk};

/// A reply under construction.
#[derive(Debug)]
pub(crate) struct CompletionStream<'a> {
    ids: CallIds<'a>,
    text: String,
    calls: Vec<PartialCall>,
    model: String,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    is_refused: bool,
    is_over: bool,
}

/// A call under construction.
#[derive(Debug)]
struct PartialCall {
    index: Option<u64>,
    /// The server's id, which may differ from ours.
    offered: Option<String>,
    id: CallId,
    name: String,
    json: String,
}

impl<'a> CompletionStream<'a> {
    pub(crate) fn new(ids: CallIds<'a>) -> Self {
        Self {
            ids,
            text: String::new(),
            calls: Vec::new(),
            model: String::new(),
            usage: None,
            finish_reason: None,
            is_refused: false,
            is_over: false,
        }
    }

    /// Whether the stream has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the reply is complete. Token counts may still follow.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_over || self.finish_reason.is_some()
    }

    /// Processes the data of the next event, or the whole response of a server that does not
    /// stream.
    pub(crate) fn apply(
        &mut self,
        data: &str,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<(), ModelError> {
        if data.trim() == DONE_EVENT {
            self.is_over = true;
            return Ok(());
        }
        let chunk: CompletionChunk = serde_json::from_str(data).map_err(|error| {
            let error = failure::clean_line(&error.to_string());
            let message = format!("cannot parse a part of the reply: {error}");
            ModelError::new(ModelErrorKind::Stream, message)
        })?;
        if let Some(error) = chunk.error {
            return Err(failure::from_stream(&error));
        }
        if let Some(model) = chunk.model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
        // Some servers send token counts in each chunk, with zeros in all but the last.
        let usage = chunk.usage.map(|counted| counted.usage());
        self.usage = usage.filter(|usage| usage.total() > 0).or(self.usage);
        // Only one reply was requested.
        let choices = chunk.choices.into_iter();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.take(choice.delta, hear);
            let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
            self.finish_reason = reason.or(self.finish_reason.take());
        }
        Ok(())
    }

    fn take(&mut self, delta: ChoiceDelta, hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send)) {
        let thinking = delta.thinking();
        if !thinking.is_empty() {
            hear(ReplyEvent::Thinking(thinking));
        }
        self.is_refused |= !delta.refusal().is_empty();
        for text in [&delta.text(), delta.refusal()] {
            if !text.is_empty() {
                hear(ReplyEvent::Text(text));
                self.text.push_str(text);
            }
        }
        for piece in &delta.tool_calls {
            self.apply_call_piece(piece, hear);
        }
    }

    fn apply_call_piece(
        &mut self,
        piece: &CallPiece,
        hear: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) {
        let arguments = piece.function.arguments();
        let name = piece.function.name.as_deref().unwrap_or_default();
        let offered = piece.id.as_deref().filter(|id| !id.is_empty());
        let place = self.place(piece.index, offered, name);
        let call = match place {
            Some(place) => &mut self.calls[place],
            None => {
                let call = PartialCall {
                    index: piece.index,
                    offered: offered.map(str::to_owned),
                    id: self.ids.claim(offered),
                    name: String::new(),
                    json: String::new(),
                };
                self.calls.push(call);
                self.calls.last_mut().expect("one was just added")
            }
        };
        let mut tell = |call: &PartialCall, json: &str| {
            hear(ReplyEvent::Input {
                call: &call.id,
                name: &call.name,
                json,
            });
        };
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            tell(call, "");
        }
        if !arguments.is_empty() {
            call.json.push_str(&arguments);
            tell(call, &arguments);
        }
    }

    /// The call that a piece continues; `None` if it starts a new one. In order of trust: the
    /// server's index, its id, the most recent call. A piece with a name starts a new call if the
    /// call that it would continue has another id or is already complete: some servers give every
    /// call the index 0.
    fn place(&self, index: Option<u64>, offered: Option<&str>, name: &str) -> Option<usize> {
        let by_index = || {
            let index = Some(index?);
            self.calls.iter().rposition(|call| call.index == index)
        };
        let by_id = || {
            let offered = Some(offered?);
            let mut calls = self.calls.iter();
            calls.rposition(|call| call.offered.as_deref() == offered)
        };
        let place = match (index, offered) {
            (Some(_), _) => by_index(),
            (None, Some(_)) => by_id().or_else(|| self.calls.len().checked_sub(1)),
            (None, None) => self.calls.len().checked_sub(1),
        }?;
        let call = &self.calls[place];
        let same_id = match (offered, call.offered.as_deref()) {
            (Some(offered), Some(known)) => Some(offered == known),
            _ => None,
        };
        let begins_another = !name.is_empty()
            && match same_id {
                Some(same) => !same,
                None => !call.name.is_empty() && (call.name != name || call.is_whole()),
            };
        (!begins_another).then_some(place)
    }

    /// The reply, if it is complete, and the server's token counts, if it sent any.
    pub(crate) fn finish(self) -> Result<(ModelReply, Option<Usage>), ModelError> {
        if !self.is_whole() {
            let message = "cannot read the whole reply: the stream ended early";
            return Err(ModelError::new(ModelErrorKind::Stream, message));
        }
        let has_calls = !self.calls.is_empty();
        let stop = match self.finish_reason.as_deref() {
            _ if self.is_refused => Stop::Refusal,
            Some("length") => Stop::MaxTokens,
            Some("content_filter") => Stop::Refusal,
            // Some servers say `stop` although there are calls, and `tool_calls` without any.
            _ if has_calls => Stop::ToolUse,
            Some("stop" | "tool_calls" | "function_call") | None => Stop::EndTurn,
            Some(other) => Stop::Other(other.to_owned()),
        };
        let mut content = Vec::new();
        if !self.text.is_empty() {
            content.push(Block::text(self.text));
        }
        let mut broken_calls = BTreeMap::new();
        let last = self.calls.len().saturating_sub(1);
        for (place, call) in self.calls.into_iter().enumerate() {
            let (input, reason) = parse_input(&call.json, place == last && may_truncate(&stop));
            let (name, unknown) = sanitize_tool_name(call.name);
            if let Some(reason) = unknown.or(reason) {
                broken_calls.insert(call.id.clone(), reason);
            }
            content.push(Block::ToolUse {
                id: call.id,
                name,
                input,
            });
        }
        let reply = ModelReply {
            content,
            stop,
            broken_calls,
            usage: self.usage.unwrap_or_default(),
            model: self.model,
        };
        Ok((reply, self.usage))
    }
}

impl PartialCall {
    /// Whether its input is complete JSON.
    fn is_whole(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.json).is_ok()
    }
}

#[cfg(test)]
mod tests;
