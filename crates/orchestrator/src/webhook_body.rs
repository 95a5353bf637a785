//! The body of a webhook delivery. Pure.

use protocol::job::{Job, JobState};
use serde_json::json;

use crate::job::result_url;

/// The JSON for a job's webhook; `None` if it has no webhook or has not ended.
pub(crate) fn notice(job: &Job) -> Option<String> {
    job.request.webhook.as_ref()?;
    let failure = match &job.state {
        JobState::Complete => None,
        JobState::Failed { failure } => Some(failure),
        JobState::Queued | JobState::Running | JobState::Waiting => return None,
    };
    let notice = json!({
        "event": "job.ended",
        "job_id": job.id,
        "status": job.state.status(),
        "cause": failure.map(|failure| failure.cause),
        "error": failure.map(|failure| &failure.message),
        "result": result_url(job),
        "answer": job.answer,
        "created": job.created,
        "ended": job.ended,
        "artifact": job.artifact.as_ref().map(|artifact| json!({
            "bytes": artifact.bytes,
            "files": artifact.files,
            "sha256": artifact.sha256,
            "url": format!("/v1/jobs/{}/artifacts", job.id),
        })),
    });
    Some(notice.to_string())
}
