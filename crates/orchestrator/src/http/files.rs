//! The files of a job's workspace. Their contents are untrusted: a browser must never render them
//! as a page of this server.

use std::io::Read;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use protocol::job::JobId;
use serde::{Deserialize, Serialize};
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::disposition;
use crate::http::extractors::{AuthenticatedCaller, JobPath, QueryParameters};
use crate::http::problem::{HttpProblem, ProblemDocument, ProblemKind};
use crate::tree::{Entry, TreeError, UntrustedTree};

const MAX_LISTED_ENTRIES: usize = 10_000;

const MAX_PREVIEW_BYTES: u64 = 1 << 20;

/// Bytes that are inspected to detect text.
const TEXT_SNIFF_BYTES: usize = 8_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FolderParameters {
    /// A folder inside the workspace; the workspace itself when absent.
    #[serde(default)]
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileParameters {
    /// A file inside the workspace.
    #[param(min_length = 1)]
    path: String,
}

/// The entries of a folder.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Folder)]
pub(crate) struct FolderView {
    path: String,
    entries: Vec<Entry>,
    /// Whether the folder has more entries.
    is_truncated: bool,
}

/// The contents of a file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileView {
    path: String,
    bytes: u64,
    is_text: bool,
    /// Whether the text is cut.
    is_truncated: bool,
    /// The beginning of a text file; absent for other files.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Lists a folder of the workspace.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/files",
    tag = "files",
    operation_id = "list_files",
    params(("id" = JobId, Path), FolderParameters),
    responses(
        (status = OK, body = FolderView, description = "The folder."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job or folder."),
    ),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    QueryParameters(FolderParameters { path }): QueryParameters<FolderParameters>,
) -> Result<Json<FolderView>, HttpProblem> {
    let view = with_workspace(&app, &caller, id, move |tree| {
        let Some(tree) = tree else {
            // A job has no files before its first attempt.
            return if path.is_empty() {
                Ok(FolderView {
                    path,
                    entries: Vec::new(),
                    is_truncated: false,
                })
            } else {
                Err(TreeError::Absent(path).into())
            };
        };
        let listing = tree.list(&path, MAX_LISTED_ENTRIES)?;
        Ok(FolderView {
            path,
            entries: listing.entries,
            is_truncated: listing.is_truncated,
        })
    });
    Ok(Json(view.await?))
}

/// Returns the beginning of a text file of the workspace.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/files/content",
    tag = "files",
    operation_id = "read_file",
    params(("id" = JobId, Path), FileParameters),
    responses(
        (status = OK, body = FileView, description = "The file."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job or file."),
    ),
)]
pub(crate) async fn content(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    QueryParameters(FileParameters { path }): QueryParameters<FileParameters>,
) -> Result<Json<FileView>, HttpProblem> {
    let view = with_workspace(&app, &caller, id, move |tree| {
        let tree = tree.ok_or_else(|| TreeError::Absent(path.clone()))?;
        let (file, bytes) = tree.open_file(&path)?;
        let mut beginning = Vec::new();
        file.take(MAX_PREVIEW_BYTES)
            .read_to_end(&mut beginning)
            .map_err(|source| TreeError::Io {
                path: path.clone(),
                source,
            })?;
        Ok(preview(path, bytes, beginning))
    });
    Ok(Json(view.await?))
}

/// Downloads a file of the workspace.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/files/raw",
    tag = "files",
    operation_id = "download_file",
    params(("id" = JobId, Path), FileParameters),
    responses(
        (status = OK, body = String, content_type = "application/octet-stream", description = "The bytes of the file.", headers(("Content-Disposition" = String))),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such job or file."),
    ),
)]
pub(crate) async fn raw(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    QueryParameters(FileParameters { path }): QueryParameters<FileParameters>,
) -> Result<Response, HttpProblem> {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let (file, bytes) = with_workspace(&app, &caller, id, move |tree| {
        let tree = tree.ok_or_else(|| TreeError::Absent(path.clone()))?;
        Ok(tree.open_file(&path)?)
    })
    .await?;
    // No `Content-Length`: the file may change meanwhile.
    let file = tokio::io::AsyncReadExt::take(tokio::fs::File::from_std(file), bytes);
    let mut response = Response::new(Body::from_stream(ReaderStream::new(file)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::CONTENT_DISPOSITION, disposition::attachment(&name));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    Ok(response)
}

/// Runs a closure on a job's workspace in a blocking thread; the tree is `None` before the
/// workspace exists.
pub(crate) async fn with_workspace<T: Send + 'static>(
    app: &App,
    caller: &AuthenticatedCaller,
    id: JobId,
    work: impl FnOnce(Option<UntrustedTree>) -> Result<T, HttpProblem> + Send + 'static,
) -> Result<T, HttpProblem> {
    let (_, folder) = app.folder(caller, id).await?;
    let workspace = folder.workspace();
    let done = tokio::task::spawn_blocking(move || match UntrustedTree::open(&workspace) {
        Ok(tree) => work(Some(tree)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => work(None),
        Err(source) => Err(TreeError::Io {
            path: String::new(),
            source,
        }
        .into()),
    });
    match done.await {
        Ok(done) => done,
        Err(panic) => Err(HttpProblem::failed(ProblemKind::Server, &panic)),
    }
}

impl From<TreeError> for HttpProblem {
    fn from(error: TreeError) -> Self {
        let text = error.to_string();
        match &error {
            TreeError::Absent(_) => Self::new(ProblemKind::NotFound, text),
            TreeError::BadPath(_)
            | TreeError::Link(_)
            | TreeError::NotFile(_)
            | TreeError::NotFolder(_) => Self::new(ProblemKind::Invalid, text),
            // Programs in the sandbox can remove read permission; this is not a server error.
            TreeError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::new(ProblemKind::Forbidden, text)
            }
            TreeError::Io { .. } => Self::failed(ProblemKind::Server, &error),
        }
    }
}

fn preview(path: String, bytes: u64, mut beginning: Vec<u8>) -> FileView {
    let is_truncated = bytes > beginning.len() as u64;
    if is_truncated {
        // A character cut in the middle does not make the file binary.
        let whole = match std::str::from_utf8(&beginning) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => beginning.len(),
        };
        beginning.truncate(whole);
    }
    let looked_at = &beginning[..beginning.len().min(TEXT_SNIFF_BYTES)];
    let text = if looked_at.contains(&0) {
        None
    } else {
        String::from_utf8(beginning).ok()
    };
    FileView {
        path,
        bytes,
        is_text: text.is_some(),
        is_truncated,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_detected() {
        let check = |bytes: u64, beginning: &[u8], text: Option<&str>, is_truncated: bool| {
            let view = preview("a".to_owned(), bytes, beginning.to_vec());
            assert_eq!(
                (view.text.as_deref(), view.is_text, view.is_truncated),
                (text, text.is_some(), is_truncated),
                "{beginning:?}"
            );
        };
        check(0, b"", Some(""), false);
        check(2, b"hi", Some("hi"), false);
        check(2, b"h\0", None, false);
        check(2, b"h\xff", None, false);
        check(9, "h\u{e9}".as_bytes(), Some("h\u{e9}"), true);
        check(9, b"h\xc3", Some("h"), true);
        check(2, b"h\xc3", None, false);
    }
}
