//! Converts results to the UI's types.

use std::path::PathBuf;

use store::SearchHit;
use tui::{ImageAttachment, JobRow, SessionRow, UiNotice};

use super::super::picture;
use super::super::remote::RemoteJob;
use crate::cli_error::CliError;

pub(super) fn session_row(found: SearchHit) -> SessionRow {
    let SearchHit { summary, excerpt } = found;
    SessionRow {
        session: summary.session,
        changed: summary.changed,
        title: summary.title,
        workspace: summary.workspace,
        model: summary.model,
        turns: summary.turns,
        cost: summary.cost,
        outcome: summary.outcome,
        excerpt: Some(excerpt).filter(|excerpt| !excerpt.is_empty()),
    }
}

pub(super) fn job_row(job: RemoteJob) -> JobRow {
    JobRow {
        changed: job.changed(),
        job: job.id,
        state: job.state,
        title: job.task,
    }
}

pub(super) async fn picture(path: PathBuf, workspace: PathBuf) -> Result<UiNotice, CliError> {
    let read = tokio::task::spawn_blocking(move || picture::read(&path, &workspace));
    let read = read
        .await
        .unwrap_or_else(|lost| Err(CliError::from_error(1, &lost)))?;
    Ok(UiNotice::Attached(ImageAttachment {
        path: read.path,
        image: read.image,
        bytes: read.bytes,
    }))
}

pub(super) fn error_notice(complaint: CliError) -> UiNotice {
    let (what, hint) = complaint.into_parts();
    UiNotice::Failed { what, hint }
}

/// A note as it would be printed on the terminal, split from its hint.
pub(super) fn note_notice(text: &str) -> UiNotice {
    let (what, hint) = match text.split_once("\nhint: ") {
        Some((what, hint)) => (what, Some(hint.to_owned())),
        None => (text, None),
    };
    UiNotice::Failed {
        what: what.to_owned(),
        hint,
    }
}
