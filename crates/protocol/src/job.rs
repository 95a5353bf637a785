//! Jobs: what can be asked of a server, and what it tells of each.
//!
//! A job is a task with an agent session and a workspace of its own, and a life that the server
//! looks after. Its prompts are its messages: the first is the task, and the turn with number `n`
//! of its session has the `n`th message. So what was said and not yet heard is known from the
//! session alone, also after a crash.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::Spending;
use crate::id::SessionId;

/// A job, by a name that sorts by age.
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

/// What somebody wants done. Everything but the task may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// What is to be done, in words.
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
    /// `claude-…`, or `openai/NAME`; the server's own choice when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which walls; the server's own choice when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<JobBackend>,
    /// How strong the walls must be: nothing weaker is started. A server may require more by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<JobStrength>,
    #[serde(default)]
    pub limits: JobLimits,
    /// Hosts that can be reached from inside, such as `pypi.org` or `*.example.com:443`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    #[serde(default)]
    pub budget: JobBudget,
    /// Seconds that the job may run, over all its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub timeout: Option<u64>,
    /// What lies in the workspace at the start; nothing when absent. A zip comes in a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<RequestedInput>))]
    pub input: Option<JobInput>,
    /// Told when the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// The job stays ready for further messages for a while after each turn, as in a chat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interactive: bool,
}

/// Which walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobBackend {
    /// The strongest that was proved on the server and that is allowed.
    Auto,
    Native,
    Podman,
    Docker,
    Gvisor,
    Microvm,
    Firecracker,
    Microsandbox,
}

/// What a way out of the sandbox has to break, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobStrength {
    /// The server's kernel, seen through namespaces and filters.
    Namespaces,
    /// A kernel in user space, and then the server's.
    Kernel,
    /// A kernel of its own on a machine of its own, and then the server's.
    Vm,
}

/// What the sandbox may use; the server's own limits where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobLimits {
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 8_388_608))]
    pub memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0.01))]
    pub cpus: Option<f64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<u64>, minimum = 8, maximum = 4_294_967_295_i64)
    )]
    pub pids: Option<u32>,
    /// Bytes by which the workspace may grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1_048_576))]
    pub disk: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 16))]
    pub open_files: Option<u64>,
}

/// Ceilings for all attempts together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobBudget {
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Requests to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<u64>, maximum = 4_294_967_295_i64)
    )]
    pub turns: Option<u32>,
}

/// What lies in the workspace at the start.
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
    /// The zip that came with the request. Set by the server alone.
    Upload { bytes: u64 },
}

/// What a request can name of [`JobInput`].
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

/// Where to tell of a job's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub url: String,
    /// Signs what is sent. Never shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A job in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Running,
    Complete,
    Error,
}

/// Where a job is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Nobody works on it.
    Queued,
    /// A worker has it.
    Running,
    /// A worker has it, and nothing to do: it waits for a message.
    Waiting,
    Complete,
    Failed {
        failure: Failure,
    },
}

impl State {
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

/// Why a job ended without its task done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failure {
    pub cause: Cause,
    /// One line for a person.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent could not go on.
    Agent,
    /// The model's provider failed.
    Provider,
    /// Cost, tokens or requests are used up.
    Budget,
    /// It ran longer than it may.
    Deadline,
    /// It made no progress for too long.
    Stuck,
    /// Somebody cancelled it.
    Cancelled,
    /// Somebody interrupted it, and said nothing more.
    Interrupted,
    /// Its input could not be put into the workspace.
    Input,
    /// Its sandbox could not be started.
    Sandbox,
    /// It was taken up again and again, and the server died each time.
    Crashes,
    /// Its result could not be packed.
    Artifact,
    /// The server's store or disk failed.
    Server,
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    /// The user that it belongs to.
    pub owner: String,
    pub request: JobRequest,
    pub state: State,
    /// How often it was claimed. What a worker writes holds only for the claim it was made under.
    pub epoch: u32,
    /// How often its record changed.
    pub revision: u64,
    pub created: Timestamp,
    /// When it was first claimed.
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// For how long it ran, over all claims.
    pub ran_millis: u64,
    /// From its first claim on.
    pub session: Option<SessionId>,
    /// How many messages it has, the task among them.
    pub messages: u32,
    /// How many of its claims ended with the death of the server.
    pub crashes: u32,
    /// Set when a failure that may pass put it back into the queue; cleared when it goes on.
    pub parked: Option<Parked>,
    /// The model's last words.
    pub answer: Option<String>,
    pub artifact: Option<Artifact>,
    pub spending: Spending,
}

/// Why a queued job is not claimed again before a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parked {
    pub cause: Cause,
    /// One line for a person.
    pub reason: String,
    /// When it was parked last.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// The earliest moment of the next try.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub not_before: Timestamp,
    /// Failures in a row, without a reply of the model in between.
    pub failures: u32,
    /// For how long it has been parked since the first of them, as the server measured it.
    pub waited_millis: u64,
}

impl Job {
    /// A job that was just asked for.
    pub fn new(id: JobId, owner: String, request: JobRequest, created: Timestamp) -> Self {
        Self {
            id,
            owner,
            request,
            state: State::Queued,
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

/// The zip of a job's workspace, as it was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    pub bytes: u64,
    pub files: u64,
    /// In hexadecimal.
    pub sha256: String,
    /// What is not in it, with the reason; at most a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeftOut {
    pub path: String,
    pub reason: String,
}

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UserRole {
    /// Everything, with everybody's jobs.
    Admin,
    /// Everything with their own jobs.
    User,
}

/// A key of the API, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    pub id: Uuid,
    pub user: String,
    pub role: UserRole,
    /// What it is for, in its maker's words.
    pub label: String,
    /// How the token begins, to tell one from another.
    pub prefix: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub revoked: Option<Timestamp>,
}
