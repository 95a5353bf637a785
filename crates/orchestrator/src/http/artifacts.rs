//! Downloads of a job's workspace as a zip: the published one, or the current state of a running
//! job.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::job::{Artifact, Job, JobId, JobState};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::app::{App, AppError};
use crate::artifact::{self, ZipLimits};
use crate::folder::JobFolder;
use crate::http::disposition;
use crate::http::extractors::{AuthenticatedCaller, JobPath};
use crate::http::problem::{HttpProblem, ProblemDocument, ProblemKind};
use crate::http::range::requested_range;

const PARTIAL_HEADER: HeaderName = HeaderName::from_static("hotcell-partial");

/// Downloads the zip of a job's workspace. For a running job it has the current state.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/artifacts",
    tag = "files",
    operation_id = "download_artifacts",
    params(("id" = JobId, Path)),
    responses(
        (status = OK, body = String, content_type = "application/zip", description = "The zip.", headers(("ETag" = Option<String>, description = "Of a published zip: its SHA-256."), ("Hotcell-Partial" = Option<String>, description = "`true` while the job runs."))),
        (status = PARTIAL_CONTENT, body = String, content_type = "application/zip", description = "The part of a published zip that `Range` asks for.", headers(("Content-Range" = String))),
        (status = NOT_MODIFIED, description = "The client has this zip already."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job, or it ended without a zip."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has not started."),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    request: Request,
) -> Result<Response, HttpProblem> {
    let (job, folder) = app.folder(&caller, id).await?;
    let mut response = match (&job.state, &job.artifact) {
        (JobState::Running | JobState::Waiting, _) => partial_response(&app, &folder).await?,
        (_, Some(artifact)) => published_response(&folder, artifact, request.headers()).await?,
        (JobState::Queued, None) => {
            return Err(
                HttpProblem::new(ProblemKind::Conflict, "the job has not begun")
                    .hint("its files come with its first attempt"),
            );
        }
        (JobState::Complete | JobState::Failed { .. }, None) => {
            return Err(HttpProblem::new(
                ProblemKind::NotFound,
                "the job ended without a zip",
            ));
        }
    };
    add_download_headers(&mut response, &job);
    Ok(response)
}

/// Downloads the published zip of a job: the `result` of its status.
#[utoipa::path(
    get,
    path = "/jobs/{id}/output.zip",
    tag = "files",
    operation_id = "download_output",
    params(("id" = JobId, Path)),
    responses(
        (status = OK, body = String, content_type = "application/zip", description = "The zip.", headers(("ETag" = Option<String>, description = "Its SHA-256."))),
        (status = PARTIAL_CONTENT, body = String, content_type = "application/zip", description = "The part that `Range` asks for.", headers(("Content-Range" = String))),
        (status = NOT_MODIFIED, description = "The client has this zip already."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job, or it ended without a zip."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has not ended."),
    ),
)]
pub(crate) async fn output(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    request: Request,
) -> Result<Response, HttpProblem> {
    let (job, folder) = app.folder(&caller, id).await?;
    let artifact = match &job.artifact {
        // A requeued job still has the zip of its last end.
        _ if !job.state.has_ended() => {
            let hint = format!("`/v1/jobs/{id}/artifacts` packs what a running job has so far");
            return Err(
                HttpProblem::new(ProblemKind::Conflict, "the job has not ended").hint(hint),
            );
        }
        Some(artifact) => artifact,
        None => {
            return Err(HttpProblem::new(
                ProblemKind::NotFound,
                "the job ended without a zip",
            ));
        }
    };
    let mut response = published_response(&folder, artifact, request.headers()).await?;
    add_download_headers(&mut response, &job);
    Ok(response)
}

fn add_download_headers(response: &mut Response, job: &Job) {
    if !response.status().is_success() {
        return;
    }
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/zip"),
    );
    let name = format!("hotcell-{}.zip", job.id);
    headers.insert(header::CONTENT_DISPOSITION, disposition::attachment(&name));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
}

async fn published_response(
    folder: &JobFolder,
    artifact: &Artifact,
    asked: &HeaderMap,
) -> Result<Response, HttpProblem> {
    let tag = format!("\"{}\"", artifact.sha256);
    let tag = HeaderValue::try_from(tag).expect("a hash is hexadecimal");
    let known = asked.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| matches(known, &tag)) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().insert(header::ETAG, tag);
        return Ok(response);
    }
    let mut file = File::open(folder.output()).await.map_err(AppError::Files)?;
    let bytes = file.metadata().await.map_err(AppError::Files)?.len();
    if bytes != artifact.bytes {
        // The zip was replaced after the record was read.
        return Ok(file_response(file, bytes));
    }
    let mut response = match requested_range(asked, &tag, bytes) {
        None => file_response(file, bytes),
        Some(part) => {
            let start = std::io::SeekFrom::Start(part.first);
            file.seek(start).await.map_err(AppError::Files)?;
            let mut response = file_response(file.take(part.length()), part.length());
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_RANGE, part.header(bytes));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

fn file_response(file: impl AsyncRead + Send + 'static, bytes: u64) -> Response {
    let body = Body::from_stream(ReaderStream::with_capacity(file, 64 << 10));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, bytes.into());
    response
}

async fn partial_response(app: &App, folder: &JobFolder) -> Result<Response, HttpProblem> {
    let workspace = folder.workspace();
    if !tokio::fs::try_exists(&workspace)
        .await
        .map_err(AppError::Files)?
    {
        return Err(HttpProblem::new(
            ProblemKind::Conflict,
            "the job's input is still being put in place",
        ));
    }
    let bounds = ZipLimits::of(app.config().largest_zip);
    let mut response = Response::new(Body::from_stream(artifact::stream(workspace, bounds)));
    response
        .headers_mut()
        .insert(PARTIAL_HEADER, HeaderValue::from_static("true"));
    Ok(response)
}

/// Whether an `If-None-Match` header contains the tag.
pub(crate) fn matches(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(known), Ok(tag)) = (known.to_str(), tag.to_str()) else {
        return false;
    };
    known
        .split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}
