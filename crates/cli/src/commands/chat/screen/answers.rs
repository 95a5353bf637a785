//! Converts results to the UI's types.

use std::path::PathBuf;

use store::Found;
use tui::{Attachment, JobRow, Notice, SessionRow};

use super::super::picture;
use super::super::remote::RemoteJob;
use crate::complaint::Complaint;

pub(super) fn session_row(found: Found) -> SessionRow {
    let Found { summary, excerpt } = found;
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

pub(super) async fn picture(path: PathBuf, workspace: PathBuf) -> Result<Notice, Complaint> {
    let read = tokio::task::spawn_blocking(move || picture::read(&path, &workspace));
    let read = read
        .await
        .unwrap_or_else(|lost| Err(Complaint::from_error(1, &lost)))?;
    Ok(Notice::Attached(Attachment {
        path: read.path,
        image: read.image,
        bytes: read.bytes,
    }))
}

pub(super) fn failed(complaint: Complaint) -> Notice {
    let (what, hint) = complaint.into_parts();
    Notice::Failed { what, hint }
}

/// A note as it would be printed on the terminal, split from its hint.
pub(super) fn note(text: &str) -> Notice {
    let (what, hint) = match text.split_once("\nhint: ") {
        Some((what, hint)) => (what, Some(hint.to_owned())),
        None => (text, None),
    };
    Notice::Failed {
        what: what.to_owned(),
        hint,
    }
}
