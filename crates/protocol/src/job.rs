//! Jobs: the requests of a server's API and its responses.
//!
//! A job is a task with its own agent session and workspace, managed by the server. Its prompts are
//! its messages: the first is the task, and turn `n` of its session has the `n`th message. So the
//! session alone shows which messages have not been processed yet, even after a crash.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::budget::Budget;
use crate::event::Spending;
use crate::id::SessionId;
use crate::sandbox::{Backend, Limits, Strength};

/// Id of a job. Ids sort by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::try_parse(text).map(Self)
    }
}

/// The request for a job. Everything but the task is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// What to do, in natural language.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 1,
            max_length = 1_048_576,
            pattern = r"[^\s\x00-\x1f\x7f-\x9f]",
            example = "Build me a todo app"
        )
    )]
    pub task: String,
    /// `claude-…`, or `openai/NAME`. The server's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The sandbox backend. The server's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Minimum strength of the isolation. Starting fails if the backend is weaker. The server may
    /// require more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<Strength>,
    #[serde(default)]
    pub limits: Limits,
    /// Hosts that can be reached from the sandbox, such as `pypi.org` or `*.example.com:443`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    #[serde(default)]
    pub budget: Budget,
    /// Time limit in seconds, over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub timeout: Option<u64>,
    /// Initial content of the workspace. Empty when absent. A zip is uploaded with a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RequestedInput>))]
    pub input: Option<JobInput>,
    /// Called when the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// The job stays ready for further messages for a while after each turn, as in a chat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interactive: bool,
}

/// Initial content of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobInput {
    /// A public repository, cloned inside the sandbox.
    Git {
        /// With `https://`.
        url: String,
        /// Branch or tag; the default branch when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    /// The zip uploaded with the request. Set by the server only.
    Upload { bytes: u64 },
}

/// The variants of [`JobInput`] that a request can contain.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum RequestedInput {
    /// A public repository, cloned inside the sandbox.
    Git {
        /// With `https://`.
        url: String,
        /// Branch or tag; the default branch when absent.
        branch: Option<String>,
    },
}

/// Where to report a job's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    /// Signs the webhook's requests. Never shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Summary of a job's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Running,
    Complete,
    Error,
}

/// State in the life cycle of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum JobState {
    /// Not claimed by a worker.
    Queued,
    /// Claimed by a worker.
    Running,
    /// Claimed by a worker and idle: it waits for a message.
    Waiting,
    Complete,
    Failed {
        failure: Failure,
    },
}

impl JobState {
    pub fn status(&self) -> Status {
        match self {
            Self::Queued => Status::Pending,
            Self::Running | Self::Waiting => Status::Running,
            Self::Complete => Status::Complete,
            Self::Failed { .. } => Status::Error,
        }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Complete | Self::Failed { .. })
    }
}

/// Why a job ended without completing its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failure {
    pub cause: Cause,
    /// One line for the user.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent could not continue.
    Agent,
    /// The model's provider failed.
    Provider,
    /// Cost, tokens or requests are exhausted.
    Budget,
    /// It exceeded its time limit.
    Deadline,
    /// It made no progress for too long.
    Stuck,
    /// A user cancelled it.
    Cancelled,
    /// A user interrupted it and sent no further message.
    Interrupted,
    /// Its input could not be placed in the workspace.
    Input,
    /// Its sandbox could not be started.
    Sandbox,
    /// The server crashed repeatedly while running it.
    Crashes,
    /// Its result could not be packed.
    Artifact,
    /// The server's store or disk failed.
    Server,
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    /// The user who owns it.
    pub owner: String,
    pub request: JobRequest,
    pub state: JobState,
    /// How often it was claimed. A worker's write is valid only for the claim under which it was
    /// made.
    pub epoch: u32,
    /// How often its record changed.
    pub revision: u64,
    pub created: Timestamp,
    /// When it was first claimed.
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// How long it ran, over all claims.
    pub ran_millis: u64,
    /// Set from its first claim on.
    pub session: Option<SessionId>,
    /// Number of messages, including the task.
    pub messages: u32,
    /// How many of its claims ended because the server crashed.
    pub crashes: u32,
    /// Set when a temporary failure put it back into the queue; cleared when it continues.
    pub parked: Option<Parked>,
    /// The model's last text.
    pub answer: Option<String>,
    pub artifact: Option<Artifact>,
    pub spending: Spending,
}

/// Why a queued job is not claimed again before a certain time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parked {
    pub cause: Cause,
    /// One line for the user.
    pub reason: String,
    /// When it was last parked.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// The earliest time of the next attempt.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub not_before: Timestamp,
    /// Consecutive failures, without a reply of the model in between.
    pub failures: u32,
    /// How long it has been parked since the first of them, as measured by the server.
    pub waited_millis: u64,
}

impl Job {
    /// A new job.
    pub fn new(id: JobId, owner: String, request: JobRequest, created: Timestamp) -> Self {
        Self {
            id,
            owner,
            request,
            state: JobState::Queued,
            epoch: 0,
            revision: 0,
            created,
            started: None,
            ended: None,
            ran_millis: 0,
            session: None,
            messages: 1,
            crashes: 0,
            parked: None,
            answer: None,
            artifact: None,
            spending: Spending::none(),
        }
    }
}

/// The published zip of a job's workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    pub bytes: u64,
    pub files: u64,
    /// In hexadecimal.
    pub sha256: String,
    /// Files that are missing from it, with the reason; at most a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
}

/// The permissions of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UserRole {
    /// Everything, with all users' jobs.
    Admin,
    /// Everything, with their own jobs.
    User,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    pub id: Uuid,
    pub user: String,
    pub role: UserRole,
    /// What it is for, as described by its creator.
    pub label: String,
    /// The first characters of the token, to tell keys apart.
    pub prefix: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub revoked: Option<Timestamp>,
}
