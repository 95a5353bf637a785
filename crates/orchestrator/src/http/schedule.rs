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

/// What became of a task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Scheduled)]
pub(crate) struct ScheduledView {
    job_id: JobId,
}

/// Schedules a task.
///
/// With JSON everything about the job can be said; with plain text the body is the task.
#[utoipa::path(
    post,
    path = "/schedule",
    tag = "jobs",
    operation_id = "schedule",
    params(IdempotencyParameters),
    request_body(content((JobRequest = "application/json"), (String = "text/plain"))),
    responses(
        (status = OK, description = "It is kept, and will be done.", body = ScheduledView),
        (status = TOO_MANY_REQUESTS, description = "The queue is full, or requests come too fast.", body = ProblemDocument, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds."))),
    ),
)]
pub(crate) async fn schedule(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    request: Request,
) -> Result<Json<ScheduledView>, HttpProblem> {
    let order = JobSubmission::read(request).await?;
    let accepted = order.place(&http, &caller).await?;
    Ok(Json(ScheduledView {
        job_id: accepted.id,
    }))
}

/// The status of a job in few words.
#[utoipa::path(
    get,
    path = "/status/{id}",
    tag = "jobs",
    operation_id = "get_status",
    params(("id" = JobId, Path)),
    responses(
        (status = OK, body = StatusView, description = "The status."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job, for this caller."),
    ),
)]
pub(crate) async fn status(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<Json<StatusView>, HttpProblem> {
    Ok(Json(app.job(&caller, id).await?.into()))
}
