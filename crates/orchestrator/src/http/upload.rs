//! An uploaded file, streamed to the uploads folder.
//!
//! Its name is generated; the client's file name is ignored. Removed on drop unless it was taken
//! over.

use std::path::{Path, PathBuf};

use axum::extract::multipart::Field;
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;

use crate::http::form::{discard, next_piece};
use crate::http::problem::{HttpProblem, ProblemKind};

/// A file in the uploads folder. Removed on drop if it still exists.
#[derive(Debug)]
pub(crate) struct UploadedZip {
    path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) hash: [u8; 32],
}

impl UploadedZip {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn receive(
        path: PathBuf,
        mut field: Field<'_>,
        limit: u64,
    ) -> Result<Self, HttpProblem> {
        let mut file = match create(&path).await {
            Ok(file) => file,
            Err(error) => return refuse(field, failed(error)).await,
        };
        let mut upload = Self {
            path,
            bytes: 0,
            hash: [0; 32],
        };
        let mut hash = Sha256::new();
        while let Some(piece) = next_piece(&mut field).await? {
            upload.bytes += piece.len() as u64;
            if upload.bytes > limit {
                let reason = format!("the zip is larger than {limit} bytes");
                return refuse(field, HttpProblem::new(ProblemKind::TooLarge, reason)).await;
            }
            hash.update(&piece);
            if let Err(error) = file.write_all(&piece).await {
                return refuse(field, failed(error)).await;
            }
        }
        file.sync_all().await.map_err(failed)?;
        upload.hash = hash.finalize().into();
        Ok(upload)
    }
}

impl Drop for UploadedZip {
    fn drop(&mut self) {
        // Fails if the file was taken over, that is, moved.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn create(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).await?;
    }
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(path).await
}

/// Reads the rest of the file first: a client that is still sending when the connection closes sees a
/// broken connection instead of the response.
async fn refuse(field: Field<'_>, problem: HttpProblem) -> Result<UploadedZip, HttpProblem> {
    discard(field).await;
    Err(problem)
}

fn failed(error: std::io::Error) -> HttpProblem {
    HttpProblem::failed(ProblemKind::Server, &UploadError(error))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot keep the upload")]
struct UploadError(#[source] std::io::Error);
