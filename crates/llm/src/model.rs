//! The port between an agent and a model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use protocol::{Block, CallId, Message, Stop, ToolDefinition, Usage};

use crate::error::ModelError;

/// A language model. Dropping a returned future cancels the request.
pub trait Model: Send + Sync + Debug {
    /// The model's name in Hotcell, such as `claude-sonnet-4-5-20250929` or `openai/qwen3`.
    fn name(&self) -> &str;

    /// Requests one reply. `hear` is called with each piece as it arrives; the reply contains them
    /// all.
    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>>;

    /// The number of input tokens of the request, counted by the provider if it can, else
    /// estimated.
    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>>;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        hear: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        (**self).reply(request, hear)
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        (**self).count(request)
    }
}

/// Everything that is sent to a model. Borrowed, so that a long history is not copied for each
/// request.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The system prompt, in blocks from the most to the least stable.
    pub system: &'a [String],
    pub tools: &'a [ToolDefinition],
    /// Starts with a user message; roles alternate; every tool call has its result.
    pub messages: &'a [Arc<Message>],
    /// Maximum number of tokens of the reply.
    pub max_tokens: u32,
}

/// A part of a reply, or a progress report, emitted as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyEvent<'a> {
    Text(&'a str),
    Thinking(&'a str),
    /// JSON text of a call's input; empty when the call starts.
    Input {
        call: &'a CallId,
        name: &'a str,
        json: &'a str,
    },
    /// The provider's token counts so far, for a reply that may not complete.
    Used(Usage),
    /// The request failed and will be retried; all earlier pieces are void.
    Retrying {
        /// 1 for the first retry.
        attempt: u32,
        wait: Duration,
        reason: &'a ModelError,
    },
}

/// A complete reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// Thinking, text and calls in order. Every call's input is a JSON object.
    pub content: Vec<Block>,
    pub stop: Stop,
    /// Calls that must not run, with a reason for the model: cut off by the token limit (the input
    /// is then empty), or input that is not a JSON object (then under the key `unparsed`).
    pub broken_calls: BTreeMap<CallId, String>,
    pub usage: Usage,
    /// The model that replied, as named by the provider.
    pub model: String,
}
