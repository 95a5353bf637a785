//! The events that an agent reports.
//!
//! A *lasting* event is stored; the state of a session is the fold over its lasting events. The
//! other events (parts of a reply, live output, spending) only show work in progress. A client that
//! misses them gets the same information from the lasting event that follows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Decision, Question};
use crate::call_summary::CallSummary;
use crate::id::{CallId, SessionId};
use crate::message::{Block, Stop};
use crate::sandbox::SandboxInfo;
use crate::usage::Usage;

/// Version of the JSON form. Fields and kinds may be added within a version, but none is removed.
pub const EVENT_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Version of the JSON form.
    pub v: u32,
    pub session: SessionId,
    /// Position among the session's lasting events, from 1. Absent from events that are not
    /// lasting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    pub time: Timestamp,
    #[serde(flatten)]
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The sandbox is running and commands are accepted. Not stored: the session's record starts
    /// with the first turn.
    Ready {
        model: String,
        /// The model's context window: tokens of a request and its reply together, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        #[serde(flatten)]
        sandbox: SandboxInfo,
        /// Host path of the folder that is `/workspace` in the sandbox, with symlinks resolved.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        /// Whether the user is asked about other hosts.
        asks: bool,
    },
    /// Lasting. The first event of every session.
    SessionStarted {
        /// Release of hotcell.
        release: String,
        /// Host path of the folder that is `/workspace` in the sandbox.
        workspace: String,
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<Fork>,
    },
    /// Lasting. The isolation that applies to the events that follow.
    SandboxStarted {
        #[serde(flatten)]
        sandbox: SandboxInfo,
        /// Why the previous sandbox of the session was lost, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<String>,
    },
    /// Lasting. The user's prompt starts a turn.
    TurnStarted { turn: u32, prompt: Vec<Block> },
    /// Lasting. An interrupted turn continues, without a new prompt.
    TurnContinued { turn: u32 },
    /// A request was sent to the model.
    RequestStarted { turn: u32, request: u32 },
    /// The request failed and will be retried after a delay. What was received of its reply is
    /// void.
    Retrying {
        attempt: u32,
        wait_ms: u64,
        reason: String,
    },
    /// A part of the model's text.
    TextDelta { text: String },
    /// A part of the model's thinking.
    ThinkingDelta { text: String },
    /// A part of a tool call's input, as JSON text.
    InputDelta {
        call: CallId,
        name: String,
        json: String,
    },
    /// Lasting. The model's complete reply.
    Replied {
        turn: u32,
        content: Vec<Block>,
        stop: Stop,
        /// Calls that cannot be run, with the reason.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        broken_calls: BTreeMap<CallId, String>,
        usage: Usage,
        /// Cost in US dollars. Absent when the model's prices are unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        model: String,
    },
    /// A tool starts.
    ToolStarted {
        call: CallId,
        name: String,
        input: Value,
        summary: Box<CallSummary>,
    },
    /// Output of a running tool. Not sanitised: it comes from the sandbox.
    ToolOutput {
        call: CallId,
        text: String,
        is_error: bool,
    },
    /// Lasting. A tool has ended. The content is sent to the model.
    ToolEnded {
        call: CallId,
        name: String,
        content: Vec<Block>,
        is_error: bool,
        /// Output that was too long for the model, stored so that it can be read in parts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
        /// Changes to files, for the user.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        millis: u64,
        /// Absent from sessions of older releases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Box<CallSummary>>,
        /// Whether the call was not run because a rule or the user denied it. Absent from sessions
        /// of older releases, where only the result's text says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<bool>,
    },
    /// Lasting. A note from the agent program to the model, in addition to the results.
    Noted { text: String },
    /// Lasting. The workspace before the first change of a turn, or after the last one.
    CheckpointMade {
        turn: u32,
        moment: Moment,
        checkpoint: Checkpoint,
    },
    /// Lasting. Requests go to another model from now on.
    ModelChanged {
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// Lasting. For the model, this summary replaces the conversation so far.
    Compacted {
        summary: String,
        /// Usage of the request that made the summary.
        usage: Usage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        model: String,
    },
    /// Lasting. An action waits for the user's decision, which is sent with the command `decide`.
    /// After a crash there may be no `decided` event for it.
    Asked { question: Question },
    /// Lasting. A question was answered, or no longer needs an answer.
    Decided {
        question: Question,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// Hosts that can be reached from now on.
    NetworkChanged { network: Vec<String> },
    /// All commands that run in the background, and those that have just ended.
    Background { jobs: Vec<BackgroundJob> },
    /// Files of the workspace, by path, without ignored ones.
    Files { paths: Vec<String>, is_cut: bool },
    /// What the session has changed in the workspace since its start.
    Differs {
        changes: Vec<Change>,
        /// Number of changed files that are not shown.
        left_out: u64,
    },
    /// A command was refused, and nothing was changed.
    CommandRefused { reason: String },
    /// What the session has cost so far, and its budget.
    Spent { spending: Spending },
    /// Lasting. The turn has ended.
    TurnEnded {
        turn: u32,
        outcome: Outcome,
        spending: Spending,
    },
    /// Lasting. This turn and all later ones were reverted: the conversation and the files.
    Undone {
        turn: u32,
        /// The workspace before the undo, so that it can be reverted.
        checkpoint: Checkpoint,
        restored: u64,
        removed: u64,
        /// Files of the turn that were not restored: they were changed by something else since, or
        /// restoring them failed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<String>,
    },
    /// Lasting. An undo was reverted: the turns from this one on count again.
    Redone {
        turn: u32,
        /// The workspace before the redo.
        checkpoint: Checkpoint,
        restored: u64,
        removed: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<String>,
    },
}

/// A command that continues after its call has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundJob {
    pub job: u32,
    /// The call that started it.
    pub call: CallId,
    pub command: String,
    pub since: Timestamp,
    /// The end of its output. Not sanitised: it comes from the sandbox.
    pub tail: String,
    /// A short description of how it ended. Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
}

/// The session and event that a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fork {
    pub session: SessionId,
    /// The last event that both sessions have in common.
    pub seq: u64,
}

/// Output that was stored completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Path for `read_file`, such as `output:3`.
    pub handle: String,
    pub bytes: u64,
}

/// A change of one file, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub path: String,
    /// Unified diff. Absent when there is nothing to show, as for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Whether a checkpoint was made before or after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Before,
    After,
}

/// A snapshot of the workspace's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Number within the session, from 1.
    pub number: u32,
    pub files: u64,
    pub bytes: u64,
    /// Files left out, by path with the reason. They will not be restored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, String>,
}

/// What was used, and the limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spending {
    pub usage: Usage,
    /// Cost in US dollars. Absent when any part of it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Requests sent to the model.
    pub requests: u32,
    pub seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
}

impl Spending {
    /// No usage, at no cost.
    pub fn none() -> Self {
        Self {
            cost: Some(0.0),
            ..Self::default()
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The model ended its turn.
    Done,
    /// The task cannot continue, for a reason other than the provider.
    Failed {
        reason: String,
    },
    /// A budget is exhausted.
    Budget {
        budget: BudgetKind,
        reason: String,
    },
    /// The provider failed, even after retries.
    Provider {
        reason: String,
        /// The failure may be temporary: no connection, 429, 5xx. The turn can be continued.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        transient: bool,
    },
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    Cost,
    Tokens,
    Turns,
    Time,
}

impl EventKind {
    /// Whether the event is stored.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::SessionStarted { .. }
            | Self::SandboxStarted { .. }
            | Self::TurnStarted { .. }
            | Self::TurnContinued { .. }
            | Self::Replied { .. }
            | Self::ToolEnded { .. }
            | Self::Noted { .. }
            | Self::CheckpointMade { .. }
            | Self::TurnEnded { .. }
            | Self::ModelChanged { .. }
            | Self::Compacted { .. }
            | Self::Asked { .. }
            | Self::Decided { .. }
            | Self::Undone { .. }
            | Self::Redone { .. } => true,
            Self::Ready { .. }
            | Self::NetworkChanged { .. }
            | Self::Background { .. }
            | Self::Files { .. }
            | Self::Differs { .. }
            | Self::RequestStarted { .. }
            | Self::Retrying { .. }
            | Self::TextDelta { .. }
            | Self::ThinkingDelta { .. }
            | Self::InputDelta { .. }
            | Self::ToolStarted { .. }
            | Self::ToolOutput { .. }
            | Self::CommandRefused { .. }
            | Self::Spent { .. } => false,
        }
    }
}

/// The JSON Schema of [`Event`].
pub fn schema() -> Schema {
    schemars::schema_for!(Event)
}
