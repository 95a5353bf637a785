//! Jobs as the API returns them. Never contains the secret of a webhook.

use jiff::Timestamp;
use protocol::job::{Cause, Failure, Job, JobId, JobInput, JobState, LeftOut, Parked, Status};
use protocol::{Backend, Budget, EventKind, Limits, SandboxInfo, Spending, Strength};
use serde::Serialize;
use store::jobs::DeliveryState;
use utoipa::ToSchema;

use crate::http::webhooks::DeliveryView;
use crate::job::result_url;

/// Maximum characters of a task or answer in a list.
const MAX_ABRIDGED_CHARS: usize = 1_000;

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobView {
    id: JobId,
    /// The user who scheduled it.
    owner: String,
    status: Status,
    state: StateName,
    /// Why the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Backend>,
    /// Minimum strength of the walls.
    #[serde(skip_serializing_if = "Option::is_none")]
    require: Option<Strength>,
    limits: Limits,
    network: Vec<String>,
    budget: Budget,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<JobInput>,
    has_webhook: bool,
    /// Delivery of the webhook; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<DeliveryView>,
    interactive: bool,
    #[schema(value_type = String, format = DateTime)]
    created: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ended: Option<Timestamp>,
    /// Run time of all attempts.
    ran_seconds: f64,
    /// The agent's session; absent before the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session: Option<protocol::SessionId>,
    /// Number of messages, including the task.
    messages: u32,
    /// Number of attempts: how often a worker has started it.
    attempts: u32,
    /// How often the server died while it ran.
    crashes: u32,
    /// Why it was requeued; only while it is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<Parked>,
    /// The address of `output.zip` when the job is complete, null otherwise.
    result: Option<String>,
    /// The text of the model's last reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Whether task or answer is cut. Lists cut long ones.
    is_abridged: bool,
    spending: Spending,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<ArtifactView>,
    /// Its current or last sandbox; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxInfo>,
    links: Links,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = JobState)]
pub(crate) enum StateName {
    Queued,
    Running,
    /// Waiting for the next message.
    Waiting,
    Complete,
    Failed,
}

/// The zip of a job's workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactView {
    bytes: u64,
    files: u64,
    /// In hexadecimal.
    sha256: String,
    /// Entries that are not in the zip, with the reason; at most a hundred.
    left_out: Vec<LeftOut>,
    url: String,
}

/// Paths of related resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Links {
    #[serde(rename = "self")]
    itself: String,
    events: String,
    files: String,
    diff: String,
    logs: String,
    artifacts: String,
}

impl From<Job> for JobView {
    fn from(job: Job) -> Self {
        let id = job.id;
        let status = job.state.status();
        let result = result_url(&job);
        let (state, failure) = match job.state {
            JobState::Queued => (StateName::Queued, None),
            JobState::Running => (StateName::Running, None),
            JobState::Waiting => (StateName::Waiting, None),
            JobState::Complete => (StateName::Complete, None),
            JobState::Failed { failure } => (StateName::Failed, Some(failure)),
        };
        let request = job.request;
        Self {
            id,
            owner: job.owner,
            status,
            state,
            failure,
            task: request.task,
            model: request.model,
            backend: request.backend,
            require: request.require,
            limits: request.limits,
            network: request.network,
            budget: request.budget,
            timeout: request.timeout,
            input: request.input,
            has_webhook: request.webhook.is_some(),
            webhook: None,
            interactive: request.interactive,
            created: job.created,
            started: job.started,
            ended: job.ended,
            ran_seconds: job.ran_millis as f64 / 1_000.0,
            session: job.session,
            messages: job.messages,
            attempts: job.epoch,
            crashes: job.crashes,
            parked: job.parked.filter(|_| status == Status::Pending),
            result,
            answer: job.answer,
            is_abridged: false,
            spending: job.spending,
            artifact: job.artifact.map(|artifact| ArtifactView {
                bytes: artifact.bytes,
                files: artifact.files,
                sha256: artifact.sha256,
                left_out: artifact.left_out,
                url: artifact_url(id),
            }),
            sandbox: None,
            links: Links {
                itself: format!("/v1/jobs/{id}"),
                events: format!("/v1/jobs/{id}/events"),
                files: format!("/v1/jobs/{id}/files"),
                diff: format!("/v1/jobs/{id}/diff"),
                logs: format!("/v1/jobs/{id}/logs"),
                artifacts: artifact_url(id),
            },
        }
    }
}

impl JobView {
    /// The form used in lists: long texts are cut.
    pub(crate) fn abridged(job: Job) -> Self {
        let mut view = Self::from(job);
        let is_answer_cut = view.answer.as_mut().is_some_and(abridge);
        view.is_abridged = abridge(&mut view.task) || is_answer_cut;
        view
    }

    /// Adds the sandbox of a `sandbox_started` event.
    pub(crate) fn with_sandbox(mut self, started: Option<EventKind>) -> Self {
        if let Some(EventKind::SandboxStarted { mut sandbox, .. }) = started {
            // An older release did not store it.
            let strength = sandbox.backend.strength();
            sandbox.strength.get_or_insert(strength);
            self.sandbox = Some(sandbox);
        }
        self
    }

    /// Adds the delivery state of the job's webhook.
    pub(crate) fn with_delivery(mut self, delivery: Option<DeliveryState>) -> Self {
        self.webhook = delivery.map(DeliveryView::from);
        self
    }

    pub(crate) fn location(&self) -> &str {
        &self.links.itself
    }
}

fn abridge(text: &mut String) -> bool {
    let Some((end, _)) = text.char_indices().nth(MAX_ABRIDGED_CHARS) else {
        return false;
    };
    text.truncate(end);
    text.push('…');
    true
}

fn artifact_url(id: JobId) -> String {
    format!("/v1/jobs/{id}/artifacts")
}

/// A short form of a job.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = JobStatus)]
pub(crate) struct StatusView {
    job_id: JobId,
    status: Status,
    /// The address of `output.zip` when the job is complete, null otherwise.
    result: Option<String>,
    /// Why the task was not done, in one line; null unless the status is `error`.
    error: Option<String>,
    /// The text of the model's last reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The kind of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    /// The zip of the workspace, after the end of a job that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_url: Option<String>,
    /// Number of files in the zip.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[schema(value_type = String, format = DateTime)]
    created: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ended: Option<Timestamp>,
}

impl From<Job> for StatusView {
    fn from(job: Job) -> Self {
        let status = job.state.status();
        let result = result_url(&job);
        let failure = match job.state {
            JobState::Failed { failure } => Some(failure),
            _ => None,
        };
        let (error, cause) = failure
            .map(|failure| (failure.message, failure.cause))
            .unzip();
        // A requeued job still has the zip of its last end.
        let artifact = job.artifact.filter(|_| job.ended.is_some());
        Self {
            job_id: job.id,
            status,
            result,
            error,
            answer: job.answer,
            cause,
            artifact_url: artifact.as_ref().map(|_| artifact_url(job.id)),
            files: artifact.map(|artifact| artifact.files),
            created: job.created,
            started: job.started,
            ended: job.ended,
        }
    }
}
