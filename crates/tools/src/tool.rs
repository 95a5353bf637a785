//! The port: what a tool is, what it is given, and what it answers.

use futures_util::future::BoxFuture;
use protocol::{Block, Change, Kept, ToolDefinition};
use sandbox::{Sandbox, SandboxError};
use serde_json::Value;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// Something that a model can ask for.
pub trait Tool: Send + Sync {
    fn definition(&self) -> &ToolDefinition;

    /// Calls that only read run side by side, and never wait for a checkpoint.
    fn access(&self) -> Access;

    /// One line for a person, such as `$ cargo test` or `read src/main.rs`.
    fn summary(&self, input: &Value) -> String;

    fn run<'a>(
        &'a self,
        input: Value,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Reads,
    Changes,
}

/// What a call may use.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub sandbox: &'a Sandbox,
    /// Once cancelled, the tool stops what it started and answers with what it has.
    pub cancel: &'a CancellationToken,
    /// Hears what a command prints while it runs; the flag marks standard error.
    pub print: &'a (dyn Fn(&[u8], bool) + Send + Sync),
    /// Hears of a command that goes on after the call: the number of its job, and the command.
    pub background: &'a (dyn Fn(u32, &str) + Send + Sync),
    pub outputs: &'a dyn Outputs,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").finish_non_exhaustive()
    }
}

/// Where output that is too long for a model is kept.
pub trait Outputs: Send + Sync {
    /// Keeps it, and says by which handle it can be read again.
    fn keep(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>>;

    /// All of it; `None` when there is no such handle.
    fn read<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, ToolError>>;
}

/// What a call came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model: text and images.
    pub content: Vec<Block>,
    /// The tool did its work and has bad news, such as an exit code other than 0.
    pub is_error: bool,
    pub kept: Option<Kept>,
    pub changes: Vec<Change>,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            ..Self::default()
        }
    }
}

/// Why a call came to nothing. The text is for the model.
#[derive(Debug, Error)]
pub enum ToolError {
    /// The input is not what the schema says.
    #[error("bad arguments for `{tool}`: {why}")]
    Arguments { tool: String, why: String },
    /// The tool could not do what was asked; the message says what and why.
    #[error("{0}")]
    Refused(String),
    /// The sandbox is gone or does not answer: nothing in it can be used any more.
    #[error("the sandbox broke")]
    Broken(#[source] SandboxError),
}
