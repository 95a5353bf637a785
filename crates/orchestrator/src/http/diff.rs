//! What a job has changed in its workspace since its start.

use axum::Json;
use axum::extract::State;
use protocol::job::JobId;

use crate::app::{App, AppError};
use crate::changes::{Changes, ChangesError, changes};
use crate::http::extractors::{AuthenticatedCaller, JobPath};
use crate::http::problem::HttpProblem;

/// Returns what the job has changed in its workspace since its start.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/diff",
    tag = "files",
    operation_id = "diff_job",
    params(("id" = JobId, Path)),
    responses((status = OK, body = Changes, description = "The changes, file by file.")),
)]
pub(crate) async fn diff(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<Json<Changes>, HttpProblem> {
    let (job, folder) = app.folder(&caller, id).await?;
    let changes = changes(app.store(), &job, &folder.workspace()).await;
    changes.map(Json).map_err(|error| match error {
        ChangesError::Store(error) => AppError::Store(error).into(),
        ChangesError::Files(error) => AppError::Files(error).into(),
    })
}
