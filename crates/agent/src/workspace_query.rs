//! Queries about the workspace, answered during and between turns. Changes nothing and records nothing.
//! Entry type: [`WorkspaceQueries`].

use std::sync::Arc;

use protocol::EventKind;
use sandbox::request::{ByteString, FileKind, ListRequest};
use sandbox::{Sandbox, SandboxError};
use store::SessionStore;
use tokio::task::JoinSet;

use crate::baseline::Baseline;
use crate::checkpoint::MAX_CHECKPOINT_FILES;
use crate::differences::WorkspaceComparison;
use crate::error::AgentError;
use crate::event_log::EventSender;
use crate::sandbox_access::SandboxAccess;
use crate::session_checkpoints::SessionCheckpoints;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceQuery {
    /// The files of the workspace.
    Files,
    /// What the session has changed.
    Differences,
}

/// The queries that are being answered.
#[derive(Debug)]
pub(crate) struct WorkspaceQueries {
    context: QueryContext,
    tasks: JoinSet<()>,
}

/// What a query needs.
#[derive(Debug, Clone)]
struct QueryContext {
    sender: EventSender,
    store: SessionStore,
    baseline: Arc<Baseline>,
    access: SandboxAccess,
}

impl WorkspaceQueries {
    pub(crate) fn new(
        sender: EventSender,
        checkpoints: &SessionCheckpoints,
        access: SandboxAccess,
    ) -> Self {
        Self {
            context: QueryContext {
                sender,
                store: checkpoints.store.clone(),
                baseline: checkpoints.baseline.clone(),
                access,
            },
            tasks: JoinSet::new(),
        }
    }

    pub(crate) fn start(&mut self, query: WorkspaceQuery) {
        // Reaps finished tasks.
        while self.tasks.try_join_next().is_some() {}
        let context = self.context.clone();
        self.tasks.spawn(context.answer(query));
    }

    /// Waits for all answers. Cancel safe.
    pub(crate) async fn wait_answered(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

impl QueryContext {
    async fn answer(mut self, query: WorkspaceQuery) {
        while let Some(lease) = self.access.acquire().await {
            let result = lease.run(async |sandbox| match query {
                WorkspaceQuery::Files => Ok(files(sandbox).await?),
                WorkspaceQuery::Differences => self.differences(sandbox).await,
            });
            match result.await {
                Some(Ok(answer)) => return self.sender.send(answer).await,
                Some(Err(error)) => {
                    let reason = format!("{}: {error}", query.failure_text());
                    return self.sender.send(EventKind::CommandRefused { reason }).await;
                }
                // The sandbox ended: retry in its replacement, if there is one.
                None => {}
            }
        }
    }

    async fn differences(&self, sandbox: &Sandbox) -> Result<EventKind, AgentError> {
        let Some(first) = self.baseline.first() else {
            return Ok(EventKind::Differs {
                changes: Vec::new(),
                left_out: 0,
            });
        };
        let comparison = WorkspaceComparison {
            sandbox,
            store: &self.store,
            session: self.sender.session(),
            known: self.baseline.known(),
        };
        let (changes, left_out) = comparison.with(&first).await?;
        Ok(EventKind::Differs { changes, left_out })
    }
}

impl WorkspaceQuery {
    fn failure_text(self) -> &'static str {
        match self {
            Self::Files => "cannot list the files",
            Self::Differences => "cannot compare the files",
        }
    }
}

async fn files(sandbox: &Sandbox) -> Result<EventKind, SandboxError> {
    let request = ListRequest {
        path: ByteString::from(""),
        depth: u32::MAX,
        ignore: true,
        hidden: true,
        // With a glob, folders are left out.
        globs: vec!["*".to_owned()],
        limit: MAX_CHECKPOINT_FILES,
    };
    let (entries, is_cut) = sandbox.list(request).await?.collect().await?;
    let files = entries.iter().filter(|entry| entry.kind != FileKind::Other);
    // A guest may send more entries than requested.
    let paths = files.take(MAX_CHECKPOINT_FILES as usize);
    Ok(EventKind::Files {
        paths: paths.map(|entry| entry.path.to_string()).collect(),
        is_cut,
    })
}
