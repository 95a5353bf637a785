//! Job routes under `/v1`: list, create, get, delete, cancel, retry, message, interrupt.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use protocol::job::{JobBackend, JobId, JobRequest, JobStrength, Status};
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

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParameters {
    status: Option<Status>,
    /// Words of the task, found by how they begin.
    q: Option<String>,
    /// `next_cursor` of the page before.
    cursor: Option<JobId>,
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// Some jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobList {
    jobs: Vec<JobView>,
    /// For the page that follows; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<JobId>,
}

/// A form, with a zip perhaps: `request`, or its simple fields one by one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobForm)]
#[allow(dead_code, reason = "it only describes the form")]
pub(crate) struct FormView {
    /// A job request in JSON; no field but `input` goes with it.
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
    backend: Option<JobBackend>,
    #[schema(nullable = false)]
    require: Option<JobStrength>,
    /// Hosts; the field may come many times.
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
        (status = CREATED, body = JobView, description = "It is kept, and will be done.", headers(("Location" = String))),
        (status = OK, body = JobView, description = "It was scheduled before under the same key.", headers(("Location" = String))),
        (status = TOO_MANY_REQUESTS, description = "The queue is full, or requests come too fast.", body = ProblemDocument, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds."))),
    ),
)]
pub(crate) async fn create(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<JobView>), HttpProblem> {
    let order = JobSubmission::read_any(&http.app, request).await?;
    let accepted = order.place(&http, &caller).await?;
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
    let walls = app.walls(&job).await?;
    let delivery = app.delivery(&job).await?;
    Ok(Json(
        JobView::from(job)
            .with_sandbox(walls)
            .with_delivery(delivery),
    ))
}

/// Forgets a job that has ended, with its files and its session.
#[utoipa::path(
    delete,
    path = "/v1/jobs/{id}",
    tag = "jobs",
    operation_id = "delete_job",
    params(("id" = JobId, Path)),
    responses(
        (status = NO_CONTENT, description = "It is gone."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "It has not ended."),
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

/// Ends a job; what there is of its work is packed.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    tag = "jobs",
    operation_id = "cancel_job",
    params(("id" = JobId, Path)),
    responses(
        (status = ACCEPTED, body = JobView, description = "It ends."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "It has ended already."),
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

/// Schedules the same task anew, as another job.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/retry",
    tag = "jobs",
    operation_id = "retry_job",
    params(("id" = JobId, Path)),
    responses(
        (status = CREATED, body = JobView, description = "The new job.", headers(("Location" = String))),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "It has not ended."),
    ),
)]
pub(crate) async fn retry(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<JobView>), HttpProblem> {
    let job = http.app.retry(&caller, id).await?;
    http.meters.scheduled();
    Ok(with_location(StatusCode::CREATED, job.into()))
}

/// Something to say to a job.
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

/// Says something to a job: it is its next turn. Wakes up a job that has ended.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/messages",
    tag = "jobs",
    operation_id = "say_to_job",
    params(("id" = JobId, Path)),
    request_body = NewMessage,
    responses((status = ACCEPTED, body = JobView, description = "It will be heard.")),
)]
pub(crate) async fn say(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    JsonBody(message): JsonBody<NewMessage>,
) -> Result<(StatusCode, Json<JobView>), HttpProblem> {
    let job = app.say(&caller, id, message.text).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// Stops the turn that is under way; the job waits for a message.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/interrupt",
    tag = "jobs",
    operation_id = "interrupt_job",
    params(("id" = JobId, Path)),
    responses(
        (status = ACCEPTED, body = JobView, description = "It stops."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "Nothing is under way."),
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
