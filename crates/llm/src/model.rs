//! The port: what an agent asks of a model, and what it gets.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use protocol::{Block, CallId, Message, Stop, ToolDefinition, Usage};

use crate::error::ModelError;

/// A model that can be asked. Dropping a returned future stops the request.
pub trait Model: Send + Sync + Debug {
    /// The name that people chose it by, such as `claude-sonnet-4-5-20250929` or `openai/qwen3`.
    fn name(&self) -> &str;

    /// Asks for one reply. `hear` is told of each piece as it comes; the reply has them all.
    fn reply<'a>(
        &'a self,
        request: Request<'a>,
        hear: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;

    /// How many input tokens the request has: counted by the provider where it can, estimated
    /// where not.
    fn count<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>>;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reply<'a>(
        &'a self,
        request: Request<'a>,
        hear: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        (**self).reply(request, hear)
    }

    fn count<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        (**self).count(request)
    }
}

/// Everything that a model is told. Borrowed, so that a long history costs nothing to ask with.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system prompt, in blocks from the most to the least stable.
    pub system: &'a [String],
    pub tools: &'a [ToolDefinition],
    /// Begins with a user message; roles alternate; every tool call has its result.
    pub messages: &'a [Arc<Message>],
    /// Most tokens of the reply.
    pub max_tokens: u32,
}

/// A part of a reply, or news of it, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece<'a> {
    Text(&'a str),
    Thinking(&'a str),
    /// JSON text of a call's input; empty when the call begins.
    Input {
        call: &'a CallId,
        name: &'a str,
        json: &'a str,
    },
    /// What the provider has counted so far, for a reply that may not come to its end.
    Used(Usage),
    /// The request failed and is made again; all pieces so far are void.
    Retrying {
        /// 1 for the first try after the first failure.
        attempt: u32,
        wait: Duration,
        reason: &'a ModelError,
    },
}

/// A reply, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Thinking, text and calls in their order. Every call's input is a JSON object.
    pub content: Vec<Block>,
    pub stop: Stop,
    /// Calls that must not be run, with a reason for the model: cut by the token limit (their
    /// input is then empty), or input that is no JSON object (then under the key `unparsed`).
    pub broken_calls: BTreeMap<CallId, String>,
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: String,
}
