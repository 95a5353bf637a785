//! The port between the agent and its tools.

use futures_util::future::BoxFuture;
use protocol::{Block, CallSummary, Change, Kept, ToolDefinition};
use sandbox::{Sandbox, SandboxError};
use serde_json::Value;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    fn definition(&self) -> &ToolDefinition;

    /// Read-only calls run in parallel and never wait for a checkpoint.
    fn access(&self) -> ToolAccess;

    /// Checks the input of a call. Nothing else parses it.
    fn prepare<'a>(&'a self, input: &Value) -> Result<Box<dyn PreparedCall + 'a>, ToolError>;
}

/// A call whose input is valid.
pub trait PreparedCall: Send {
    /// The arguments as the tool understands them; rules are matched against them.
    fn arguments(&self) -> &Value;

    /// What the user sees of the call, everywhere.
    fn summary(&self) -> CallSummary;

    fn run<'a>(
        self: Box<Self>,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
    where
        Self: 'a;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolAccess {
    Reads,
    Changes,
}

/// What a call has access to.
#[derive(Clone, Copy)]
pub struct ToolContext<'a> {
    pub sandbox: &'a Sandbox,
    /// When cancelled, the tool stops what it started and returns what it has.
    pub cancel: &'a CancellationToken,
    /// Called with a command's output while it runs; the flag marks standard error.
    pub print: &'a (dyn Fn(&[u8], bool) + Send + Sync),
    /// Called with the job number and the command if it continues after the call.
    pub background: &'a (dyn Fn(u32, &str) + Send + Sync),
    pub outputs: &'a dyn OutputStore,
}

impl std::fmt::Debug for ToolContext<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").finish_non_exhaustive()
    }
}

/// Stores output that is too long for a model.
pub trait OutputStore: Send + Sync {
    /// Stores the output and returns the handle to read it with.
    fn store(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>>;

    /// The whole output; `None` if there is no such handle.
    fn read<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, ToolError>>;
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model: text and images.
    pub content: Vec<Block>,
    /// The tool worked but reports a failure, such as an exit code other than 0.
    pub is_error: bool,
    pub kept: Option<Kept>,
    pub changes: Vec<Change>,
    /// What came of the call, in a few words for the user: [`CallSummary::detail`].
    pub detail: String,
    /// The background job in which the command continues: [`CallSummary::job`].
    pub job: Option<u32>,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            ..Self::default()
        }
    }
}

/// Why a call failed. The text is for the model.
#[derive(Debug, Error)]
pub enum ToolError {
    /// The input does not match the schema.
    #[error("bad arguments for `{tool}`: {why}")]
    Arguments { tool: String, why: String },
    /// The tool could not do what was asked; the message says why.
    #[error("{0}")]
    Refused(String),
    /// The sandbox is gone or does not respond, so it can no longer be used.
    #[error("the sandbox broke")]
    Broken(#[source] SandboxError),
}
