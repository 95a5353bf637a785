//! Job routes under `/v1`: list, create, get, delete, cancel, retry, message, interrupt.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use protocol::job::{JobId, JobRequest, Status};
use protocol::{Backend, Strength};
use serde::{Deserialize, Serialize};
use store::jobs::JobQuery;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::SharedHttp;
use crate::http::extractors::{AuthenticatedCaller, JobPath, JsonBody, QueryParameters};
use crate::http::problem::{HttpProblem, ProblemDocument};
use crate::http::submission::{IdempotencyParameters, JobSubmission};
use crate::http::view::JobView;

/// Page size when the request does not specify one.
const DEFAULT_PAGE_SIZE: u32 = 50;
const MAX_PAGE_SIZE: u32 = 200;

/// Filters and the page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParameters {
    status: Option<Status>,
    /// Words of the task; a prefix of a word is enough.
    q: Option<String>,
    /// `next_cursor` of the previous page.
    cursor: Option<JobId>,
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobList {
    jobs: Vec<JobView>,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<JobId>,
}

/// A form: `request` or its simple fields, and optionally a zip.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobForm)]
#[allow(dead_code, reason = "it only describes the form")]
pub(crate) struct FormView {
    /// A job request in JSON. Only `input` may be sent with it.
    #[schema(nullable = false)]
    request: Option<JobRequest>,
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 1_048_576,
        pattern = r"[^\s\x00-\x1f\x7f-\x9f]"
    )]
    task: Option<String>,
    #[schema(nullable = false)]
    model: Option<String>,
    #[schema(nullable = false)]
    backend: Option<Backend>,
    #[schema(nullable = false)]
    require: Option<Strength>,
    /// Allowed hosts; the field can be repeated.
    #[schema(nullable = false)]
    network: Option<Vec<String>>,
    #[schema(nullable = false, minimum = 1)]
    timeout: Option<u64>,
    #[schema(nullable = false)]
    interactive: Option<bool>,
    /// The zip that is unpacked into the workspace.
    #[schema(nullable = false, value_type = Option<String>, format = Binary, content_media_type = "application/zip")]
    input: Option<Vec<u8>>,
}

/// Lists jobs, newest first; long tasks and results are cut.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "jobs",
    operation_id = "list_jobs",
    params(ListParameters),
    responses((status = OK, body = JobList, description = "A page of jobs.")),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    QueryParameters(parameters): QueryParameters<ListParameters>,
) -> Result<Json<JobList>, HttpProblem> {
    let limit = parameters.limit.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&limit) {
        return Err(HttpProblem::bad(format!(
            "limit: {limit} is not from 1 to {MAX_PAGE_SIZE}"
        )));
    }
    let query = JobQuery {
        owner: None,
        status: parameters.status,
        words: parameters.q.filter(|words| !words.trim().is_empty()),
        before: parameters.cursor,
        // One more, to detect a following page.
        limit: limit + 1,
    };
    let mut jobs = app.list(&caller, query).await?;
    let has_more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let next_cursor = jobs.last().filter(|_| has_more).map(|job| job.id);
    Ok(Json(JobList {
        jobs: jobs.into_iter().map(JobView::abridged).collect(),
        next_cursor,
    }))
}

/// Schedules a job: in JSON, as plain text, or as a form with a zip for its workspace.
#[utoipa::path(
    post,
    path = "/v1/jobs",
    tag = "jobs",
    operation_id = "create_job",
    params(IdempotencyParameters),
    request_body(content((JobRequest = "application/json"), (String = "text/plain"), (FormView = "multipart/form-data"))),
    responses(
        (status = CREATED, body = JobView, description = "The job is stored and will be run.", headers(("Location" = String))),
        (status = OK, body = JobView, description = "The job was already scheduled under the same idempotency key.", headers(("Location" = String))),
        (status = TOO_MANY_REQUESTS, description = "The queue is full, or there are too many requests.", body = ProblemDocument, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds."))),
    ),
)]
pub(crate) async fn create(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<JobView>), HttpProblem> {
    let submission = JobSubmission::read_any(&http.app, request).await?;
    let accepted = submission.schedule(&http, &caller).await?;
    let view = JobView::from(http.app.job(&caller, accepted.id).await?);
    let status = if accepted.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(with_location(status, view))
}

/// One job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    tag = "jobs",
    operation_id = "get_job",
    params(("id" = JobId, Path)),
    responses((status = OK, body = JobView, description = "The job.")),
)]
pub(crate) async fn get(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<Json<JobView>, HttpProblem> {
    let job = app.job(&caller, id).await?;
    let sandbox = app.last_sandbox(&job).await?;
    let delivery = app.delivery(&job).await?;
    Ok(Json(
        JobView::from(job)
            .with_sandbox(sandbox)
            .with_delivery(delivery),
    ))
}

/// Deletes a job that has ended, with its files and its session.
#[utoipa::path(
    delete,
    path = "/v1/jobs/{id}",
    tag = "jobs",
    operation_id = "delete_job",
    params(("id" = JobId, Path)),
    responses(
        (status = NO_CONTENT, description = "The job is deleted."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has not ended."),
    ),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<StatusCode, HttpProblem> {
    app.delete(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels a job. Its workspace is packed as it is.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    tag = "jobs",
    operation_id = "cancel_job",
    params(("id" = JobId, Path)),
    responses(
        (status = ACCEPTED, body = JobView, description = "The job is cancelled."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has already ended."),
    ),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<(StatusCode, Json<JobView>), HttpProblem> {
    let job = app.cancel(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// Schedules the same request again, as a new job.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/retry",
    tag = "jobs",
    operation_id = "retry_job",
    params(("id" = JobId, Path)),
    responses(
        (status = CREATED, body = JobView, description = "The new job.", headers(("Location" = String))),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has not ended."),
    ),
)]
pub(crate) async fn retry(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<JobView>), HttpProblem> {
    let job = http.app.retry(&caller, id).await?;
    http.metrics.scheduled();
    Ok(with_location(StatusCode::CREATED, job.into()))
}

/// A message to a job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    #[schema(
        min_length = 1,
        max_length = 1_048_576,
        pattern = r"[^\s\x00-\x1f\x7f-\x9f]"
    )]
    text: String,
}

/// Sends a message to a job: its next turn. Requeues a job that has ended.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/messages",
    tag = "jobs",
    operation_id = "say_to_job",
    params(("id" = JobId, Path)),
    request_body = NewMessage,
    responses((status = ACCEPTED, body = JobView, description = "The message is stored and will be a turn.")),
)]
pub(crate) async fn send_message(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    JsonBody(message): JsonBody<NewMessage>,
) -> Result<(StatusCode, Json<JobView>), HttpProblem> {
    let job = app.send_message(&caller, id, message.text).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// Stops the current turn. The job then waits for a message.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/interrupt",
    tag = "jobs",
    operation_id = "interrupt_job",
    params(("id" = JobId, Path)),
    responses(
        (status = ACCEPTED, body = JobView, description = "The turn is being stopped."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has no current turn."),
    ),
)]
pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<(StatusCode, Json<JobView>), HttpProblem> {
    let job = app.interrupt(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

fn with_location(
    status: StatusCode,
    view: JobView,
) -> (StatusCode, [(HeaderName, String); 1], Json<JobView>) {
    let location = view.location().to_owned();
    (status, [(header::LOCATION, location)], Json(view))
}
