//! The logs of a job: the human-readable log and the sandbox's audit log.

use std::io::SeekFrom;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use protocol::job::JobId;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

use crate::app::{App, AppError};
use crate::http::extractors::{AuthenticatedCaller, JobPath, QueryParameters, non_negative};
use crate::http::problem::HttpProblem;

/// The log to read.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogName {
    /// The human-readable log.
    #[default]
    Job,
    /// The audit log of the sandbox: one JSON object per line, hash-chained.
    Audit,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParameters {
    #[param(inline)]
    name: Option<LogName>,
    /// Only the last bytes, from the start of a character.
    #[param(minimum = 0)]
    tail: Option<i64>,
}

/// Returns a log of a job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/logs",
    tag = "files",
    operation_id = "read_log",
    params(("id" = JobId, Path), LogParameters),
    responses((status = OK, body = String, content_type = "text/plain; charset=utf-8", description = "The log; empty before the job's first attempt.")),
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    QueryParameters(parameters): QueryParameters<LogParameters>,
) -> Result<Response, HttpProblem> {
    let (_, folder) = app.folder(&caller, id).await?;
    let path = match parameters.name.unwrap_or_default() {
        LogName::Job => folder.log(),
        LogName::Audit => folder.audit(),
    };
    let most = non_negative("tail", parameters.tail)?;
    let (bytes, body) = match File::open(&path).await {
        Ok(file) => tail(file, most).await.map_err(AppError::Files)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (0, Body::empty()),
        Err(error) => return Err(AppError::Files(error).into()),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, bytes.into());
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    Ok(response)
}

/// The last bytes of a log. Logs are append-only.
async fn tail(mut file: File, most: Option<u64>) -> std::io::Result<(u64, Body)> {
    let length = file.metadata().await?.len();
    let mut begin = length.saturating_sub(most.unwrap_or(u64::MAX));
    if begin > 0 {
        begin += continuation_bytes(&mut file, begin).await?;
    }
    file.seek(SeekFrom::Start(begin)).await?;
    let bytes = length.saturating_sub(begin);
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(bytes), 64 << 10));
    Ok((bytes, body))
}

/// Number of bytes at this position that continue a UTF-8 character that starts earlier.
async fn continuation_bytes(file: &mut File, offset: u64) -> std::io::Result<u64> {
    file.seek(SeekFrom::Start(offset)).await?;
    let mut next = Vec::with_capacity(3);
    file.take(3).read_to_end(&mut next).await?;
    let within = next.iter().take_while(|byte| **byte & 0xC0 == 0x80);
    Ok(within.count() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn the_tail_begins_with_a_whole_character() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text = "aé€😀z";
        std::fs::write(&path, text).unwrap();
        for (most, expect) in [
            (None, text),
            (Some(0), ""),
            (Some(1), "z"),
            (Some(2), "z"),
            (Some(4), "z"),
            (Some(5), "😀z"),
            (Some(7), "😀z"),
            (Some(8), "€😀z"),
            (Some(100), text),
        ] {
            let file = File::open(&path).await.unwrap();
            let (bytes, body) = tail(file, most).await.unwrap();
            let body = to_bytes(body, 100).await.unwrap();
            assert_eq!(
                (bytes, &body[..]),
                (expect.len() as u64, expect.as_bytes()),
                "{most:?}"
            );
        }
    }
}
