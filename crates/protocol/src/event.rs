//! What an agent tells the world, one event at a time.
//!
//! A *lasting* event is stored, and what a session is, is the fold over its lasting events. The
//! others (pieces of a reply, live output, spending) only show work under way; whoever misses
//! them learns the same from the lasting event that follows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Decision, Question};
use crate::id::{CallId, SessionId};
use crate::message::{Block, Stop};
use crate::usage::Usage;

/// Of the JSON form. Fields and kinds may be added under one version; none is taken away.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// [`VERSION`].
    pub v: u32,
    pub session: SessionId,
    /// Place among the session's lasting events, from 1 on; absent from those that do not last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    pub time: Timestamp,
    #[serde(flatten)]
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The sandbox stands and commands are listened to. Nothing of it is recorded before the first
    /// turn.
    Ready {
        model: String,
        /// Tokens of a request and its reply together that the model can take, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        backend: String,
        /// What a way out of the sandbox has to break: `namespaces`, `kernel` or `vm`; `none` without
        /// walls.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        strength: String,
        /// Why this backend and no other.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        walls: Vec<String>,
        /// The real path of the folder on the host that is `/workspace` inside.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        workspace: String,
        /// Hosts that can be reached; none when the network is off.
        network: Vec<String>,
        /// Other hosts are asked about.
        asks: bool,
    },
    /// Lasting. The first event of every session.
    SessionStarted {
        /// Release of hotcell.
        release: String,
        /// The folder on the host that is `/workspace` inside.
        workspace: String,
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<Fork>,
    },
    /// Lasting. What protects the machine from what follows.
    SandboxStarted {
        backend: String,
        /// What a way out of the sandbox has to break: `namespaces`, `kernel` or `vm`; `none` without
        /// walls.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        strength: String,
        /// Why this backend and no other.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        walls: Vec<String>,
        /// Hosts that can be reached; none when the network is off.
        network: Vec<String>,
        /// Limit by name, with its value and what enforces it.
        limits: BTreeMap<String, String>,
        /// Why the sandbox before this one is gone, if the session had one and lost it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<String>,
    },
    /// Lasting. A person's words.
    TurnStarted { turn: u32, prompt: Vec<Block> },
    /// Lasting. A turn that was cut short is taken up again, with no new words.
    TurnContinued { turn: u32 },
    /// A request is on its way to the model.
    RequestStarted { turn: u32, request: u32 },
    /// The request failed and is made again after a while. What came of its reply is void.
    Retrying {
        attempt: u32,
        wait_ms: u64,
        reason: String,
    },
    /// A piece of the model's words.
    TextDelta { text: String },
    /// A piece of the model's thinking.
    ThinkingDelta { text: String },
    /// A piece of a tool call's input, as JSON text.
    InputDelta {
        call: CallId,
        name: String,
        json: String,
    },
    /// Lasting. The model's reply, whole.
    Replied {
        turn: u32,
        content: Vec<Block>,
        stop: Stop,
        /// Calls that cannot be run as they came, with the reason.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        broken_calls: BTreeMap<CallId, String>,
        usage: Usage,
        /// In US dollars; absent when the model's prices are unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        model: String,
    },
    /// A tool begins to work.
    ToolStarted {
        call: CallId,
        name: String,
        input: Value,
        /// One line for a person.
        summary: String,
    },
    /// What a tool prints while it works. Cleaned of nothing: it came from the sandbox.
    ToolOutput {
        call: CallId,
        text: String,
        is_error: bool,
    },
    /// Lasting. A tool has ended; the content is what the model gets.
    ToolEnded {
        call: CallId,
        name: String,
        content: Vec<Block>,
        is_error: bool,
        /// Output that was too long for the model, kept to be read in pieces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<Kept>,
        /// What it did to files, for people.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        millis: u64,
        /// Whether the call was not run because a rule or the person denied it. Absent from sessions
        /// of older releases, whose results say so in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<bool>,
    },
    /// Lasting. Words of the harness itself to the model, beside the results.
    Noted { text: String },
    /// Lasting. The workspace as it was before the first change of a turn, or after the last.
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
    /// Lasting. For the model, this summary stands in the place of the conversation so far.
    Compacted {
        summary: String,
        /// Of the request that made it.
        usage: Usage,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        model: String,
    },
    /// Lasting. Something waits for a person's word, and goes on with [`crate::Command::Decide`].
    /// After a crash there may be no [`Self::Decided`] for it.
    Asked { question: Question },
    /// Lasting. A question is answered, or nobody needs the answer any more.
    Decided {
        question: Question,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// Hosts that can be reached from now on.
    NetworkChanged { network: Vec<String> },
    /// All commands that go on in the background, and those that have just ended.
    Background { jobs: Vec<BackgroundJob> },
    /// Files of the workspace, by path, without those that are ignored.
    Files { paths: Vec<String>, is_cut: bool },
    /// What the session has changed, against how it found the workspace.
    Differs {
        changes: Vec<Change>,
        /// Changed files that are not shown.
        left_out: u64,
    },
    /// A command could not be done, and nothing was changed.
    CommandRefused { reason: String },
    /// What the session has cost so far, against its budget.
    Spent { spending: Spending },
    /// Lasting. The turn is over.
    TurnEnded {
        turn: u32,
        outcome: Outcome,
        spending: Spending,
    },
    /// Lasting. This turn and all later ones are taken back, the conversation with the files.
    Undone {
        turn: u32,
        /// The workspace as it was before, for taking the undo back.
        checkpoint: Checkpoint,
        restored: u64,
        removed: u64,
        /// Files of the turn that are left as they are: somebody else has changed them since, or
        /// they could not be put back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<String>,
    },
    /// Lasting. An undo is taken back: the turns from this one on count again.
    Redone {
        turn: u32,
        /// The workspace as it was before.
        checkpoint: Checkpoint,
        restored: u64,
        removed: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<String>,
    },
}

/// A command that goes on after its call has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundJob {
    pub job: u32,
    /// The call that started it.
    pub call: CallId,
    pub command: String,
    pub since: Timestamp,
    /// The end of what it printed. Cleaned of nothing: it came from the sandbox.
    pub tail: String,
    /// How it ended, in a few words; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
}

/// Where a session branched off another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fork {
    pub session: SessionId,
    /// The last event that both have in common.
    pub seq: u64,
}

/// Output that was kept whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// What `read_file` takes as a path, such as `output:3`.
    pub handle: String,
    pub bytes: u64,
}

/// A change of one file, for people to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub path: String,
    /// In unified form; absent when there is nothing to show, as for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Which end of a turn a checkpoint stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Before,
    After,
}

/// A record of the workspace's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Number within the session, from 1 on.
    pub number: u32,
    pub files: u64,
    pub bytes: u64,
    /// Files left out, by path with the reason: they will not be restored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, String>,
}

/// What was used up, and of how much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spending {
    pub usage: Usage,
    /// In US dollars; absent when any part of it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Requests made to the model.
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
    /// Nothing, at no cost.
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
    /// The task cannot go on, for a reason that is not the provider's.
    Failed {
        reason: String,
    },
    /// A budget is used up.
    Budget {
        budget: BudgetKind,
        reason: String,
    },
    /// The provider failed, also when asked again.
    Provider {
        reason: String,
        /// The failure may pass by itself: no connection, 429, 5xx. The turn can be continued.
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
    /// Whether it is stored.
    pub fn lasts(&self) -> bool {
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
