//! Prepares a job's workspace from its input: an uploaded zip, or a repository that is cloned
//! inside a sandbox. Never runs git on the host.
//!
//! A workspace appears atomically: it is filled under another name and then renamed.

mod git;
#[cfg(test)]
mod tests;
mod unzip;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use protocol::job::{Job, JobInput};
use sandbox::SandboxSpec;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::folder::JobFolder;
use crate::tree::remove_tree;

/// Why the input cannot be prepared, in one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InputError(pub(crate) String);

impl InputError {
    /// An I/O error of the server.
    fn server(what: &str) -> impl Fn(io::Error) -> Self {
        move |error| Self(format!("cannot {what}: {error}"))
    }
}

/// Creates the job's folder and workspace at its first claim. Skips what is already done, and
/// redoes what was interrupted by a crash. `spec` is the job's own sandbox.
pub(crate) async fn prepare(
    job: &Job,
    folder: &JobFolder,
    spec: &SandboxSpec,
) -> Result<(), InputError> {
    let (task, own) = (job.request.task.clone(), folder.clone());
    let partial = blocking(move || lay_out(&own, &task)).await?;
    let Some(partial) = partial else {
        return Ok(());
    };
    match &job.request.input {
        None => {}
        Some(JobInput::Upload { .. }) => {
            let (zip, into) = (folder.upload(), partial.clone());
            let most = spec.limits.disk;
            blocking(move || unzip::unpack(&zip, &into, most)).await?;
        }
        Some(JobInput::Git { url, branch }) => {
            let source = git::GitSource::check(url, branch.as_deref())?;
            git::clone(&source, &partial, spec).await?;
        }
    }
    let workspace = folder.workspace();
    let publish = InputError::server("make the workspace");
    blocking(move || fs::rename(&partial, &workspace).map_err(publish)).await
}

/// Checking a zip takes a whole CPU.
const MAX_CONCURRENT_CHECKS: usize = 2;
static CHECK_PERMITS: Semaphore = Semaphore::const_new(MAX_CONCURRENT_CHECKS);

/// Checks that an uploaded zip can be unpacked to at most this many bytes. Writes nothing.
pub(crate) async fn check_zip(zip: PathBuf, most: u64) -> Result<(), InputError> {
    let permit = CHECK_PERMITS.acquire().await;
    blocking(move || {
        // Held until the check is done, even if the client disconnects.
        let _permit = permit;
        unzip::check(&zip, most)
    })
    .await
}

/// Checks a repository's address before a job is accepted.
pub(crate) fn check_git(url: &str, branch: Option<&str>) -> Result<(), InputError> {
    git::GitSource::check(url, branch).map(drop)
}

/// Creates the job's folder except for the workspace. Returns the temporary path to fill, or `None`
/// if the workspace exists.
fn lay_out(folder: &JobFolder, task: &str) -> Result<Option<PathBuf>, InputError> {
    let failed = InputError::server("make the job's folder");
    create_private_folder(folder.path()).map_err(&failed)?;
    create_private_folder(&folder.logs()).map_err(&failed)?;
    if !folder.input().exists() {
        write_atomically(&folder.input(), task).map_err(&failed)?;
    }
    // Only the server writes to this folder, so no other process can have created it.
    if folder.workspace().exists() {
        return Ok(None);
    }
    let partial = folder.path().join("workspace.partial");
    remove_tree(&partial).map_err(&failed)?;
    DirBuilder::new()
        .mode(0o755)
        .create(&partial)
        .and_then(|()| fs::set_permissions(&partial, Permissions::from_mode(0o755)))
        .map_err(&failed)?;
    Ok(Some(partial))
}

/// Creates a folder with mode 0700.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    // It may already exist with an upload in it.
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Writes a file that appears atomically.
fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file: File = options.open(&partial)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&partial, path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InputError> + Send + 'static,
) -> Result<T, InputError> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(InputError(format!("cannot make the job's folder: {error}"))),
    }
}
