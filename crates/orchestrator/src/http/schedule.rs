//! The two routes at the root: schedule a task, get its status.

use axum::Json;
use axum::extract::{Request, State};
use protocol::job::{JobId, JobRequest};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::SharedHttp;
use crate::http::extractors::{AuthenticatedCaller, JobPath};
use crate::http::problem::{HttpProblem, ProblemDocument};
use crate::http::submission::{IdempotencyParameters, JobSubmission};
use crate::http::view::StatusView;

/// The scheduled job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Scheduled)]
pub(crate) struct ScheduledView {
    job_id: JobId,
}

/// Schedules a task.
///
/// A JSON body is a job request; a plain text body is the task.
#[utoipa::path(
    post,
    path = "/schedule",
    tag = "jobs",
    operation_id = "schedule",
    params(IdempotencyParameters),
    request_body(content((JobRequest = "application/json"), (String = "text/plain"))),
    responses(
        (status = OK, description = "The job is stored and will be run.", body = ScheduledView),
        (status = TOO_MANY_REQUESTS, description = "The queue is full, or there are too many requests.", body = ProblemDocument, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds."))),
    ),
)]
pub(crate) async fn schedule(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    request: Request,
) -> Result<Json<ScheduledView>, HttpProblem> {
    let submission = JobSubmission::read(request).await?;
    let accepted = submission.schedule(&http, &caller).await?;
    Ok(Json(ScheduledView {
        job_id: accepted.id,
    }))
}

/// Gets the status of a job in a short form.
#[utoipa::path(
    get,
    path = "/status/{id}",
    tag = "jobs",
    operation_id = "get_status",
    params(("id" = JobId, Path)),
    responses(
        (status = OK, body = StatusView, description = "The status."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job, or the caller may not see it."),
    ),
)]
pub(crate) async fn status(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<Json<StatusView>, HttpProblem> {
    Ok(Json(app.job(&caller, id).await?.into()))
}
