//! An uploaded file, streamed to the uploads folder.
//!
//! Its name is generated; the client's file name is ignored. Removed on drop unless it was taken
//! over.

use std::path::{Path, PathBuf};

use axum::extract::multipart::Field;
use sha2::{Digest, Sha256};
use tokio::fs::{self, OpenOptions};
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
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).await.map_err(failed)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .await
            .map_err(failed)?;
        let mut upload = Self {
            path,
            bytes: 0,
            hash: [0; 32],
        };
        let mut hash = Sha256::new();
        while let Some(piece) = next_piece(&mut field).await? {
            upload.bytes += piece.len() as u64;
            if upload.bytes > limit {
                discard(field).await;
                return Err(HttpProblem::new(
                    ProblemKind::TooLarge,
                    format!("the zip is larger than {limit} bytes"),
                ));
            }
            hash.update(&piece);
            file.write_all(&piece).await.map_err(failed)?;
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

fn failed(error: std::io::Error) -> HttpProblem {
    HttpProblem::failed(ProblemKind::Server, &UploadError(error))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot keep the upload")]
struct UploadError(#[source] std::io::Error);
