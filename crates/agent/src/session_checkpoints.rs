//! The checkpoints of a session: recorded before the first change of a turn and after its last, loaded
//! again for an undo. Entry type: [`SessionCheckpoints`].

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Checkpoint, EventKind, Moment, SessionId};
use sandbox::Sandbox;
use store::{FileRecord, SessionStore};
use tracing::warn;

use crate::baseline::Baseline;
use crate::checkpoint::{
    KnownFiles, RestoreTarget, SnapshotTask, WorkspaceSnapshot, take_snapshot,
};
use crate::conversation::Conversation;
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::stopper::TurnStopper;

#[derive(Debug)]
pub(crate) struct SessionCheckpoints {
    pub(crate) store: SessionStore,
    session: SessionId,
    /// The files as recorded by the first and the last checkpoint.
    pub(crate) baseline: Arc<Baseline>,
}

/// The files before and after a turn.
#[derive(Debug)]
pub(crate) struct TurnFiles {
    before: Vec<FileRecord>,
    skipped: BTreeMap<String, String>,
    after: Option<(Vec<FileRecord>, BTreeMap<String, String>)>,
}

impl TurnFiles {
    /// What an undo of the turn restores.
    pub(crate) fn target<'a>(&'a self, now: Option<&'a WorkspaceSnapshot>) -> RestoreTarget<'a> {
        RestoreTarget {
            before: &self.before,
            skipped: &self.skipped,
            after: self
                .after
                .as_ref()
                .map(|(files, skipped)| (&files[..], skipped)),
            now,
        }
    }
}

impl SessionCheckpoints {
    pub(crate) async fn open(
        store: SessionStore,
        session: SessionId,
        conversation: &Conversation,
    ) -> Result<Self, AgentError> {
        let known = match conversation.last_checkpoint() {
            0 => KnownFiles::default(),
            number => KnownFiles::load(&store, &session, number).await?,
        };
        let first = conversation.first_checkpoint().cloned();
        Ok(Self {
            store,
            session,
            baseline: Arc::new(Baseline::new(first, known)),
        })
    }

    /// Starts a snapshot, so that little is left to read when the model wants to change something.
    pub(crate) fn start_snapshot(&self, sandbox: Arc<Sandbox>) -> SnapshotTask {
        SnapshotTask::start(sandbox, self.store.clone(), self.baseline.known())
    }

    /// A snapshot of the current files. Reads only those that changed since the last checkpoint.
    pub(crate) async fn take_snapshot(
        &self,
        sandbox: &Sandbox,
    ) -> Result<WorkspaceSnapshot, AgentError> {
        take_snapshot(sandbox, &self.store, &self.baseline.known()).await
    }

    /// Waits until the files are recorded, before the first of them is changed. Returns whether they
    /// are.
    pub(crate) async fn record_before(
        &self,
        turn: u32,
        snapshot: SnapshotTask,
        sandbox: &Sandbox,
        recorder: &mut EventRecorder,
        stopper: &TurnStopper,
    ) -> Result<bool, AgentError> {
        let snapshot = tokio::select! {
            snapshot = snapshot.finish(sandbox, &self.store) => snapshot,
            () = stopper.token().cancelled() => None,
        };
        let Some(snapshot) = snapshot else {
            return Ok(false);
        };
        self.record(turn, Moment::Before, snapshot, recorder)
            .await?;
        Ok(true)
    }

    /// Records the files after a turn that changed any, so that an undo can tell its changes from later
    /// ones.
    pub(crate) async fn record_after(
        &self,
        turn: u32,
        sandbox: &Sandbox,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        match recorder.conversation.checkpoints(turn) {
            Some((_, None)) => {}
            _ => return Ok(()),
        }
        match self.take_snapshot(sandbox).await {
            Ok(snapshot) => self.record(turn, Moment::After, snapshot, recorder).await,
            Err(error) => {
                warn!(%error, "cannot make a checkpoint");
                Ok(())
            }
        }
    }

    async fn record(
        &self,
        turn: u32,
        moment: Moment,
        snapshot: WorkspaceSnapshot,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        let checkpoint = self.save(&snapshot, &recorder.conversation).await?;
        self.baseline.add(&checkpoint, snapshot.into_known());
        recorder
            .record(EventKind::CheckpointMade {
                turn,
                moment,
                checkpoint,
            })
            .await
    }

    /// Stores a snapshot as the next checkpoint.
    pub(crate) async fn save(
        &self,
        snapshot: &WorkspaceSnapshot,
        conversation: &Conversation,
    ) -> Result<Checkpoint, AgentError> {
        let number = conversation.last_checkpoint() + 1;
        Ok(snapshot.save(&self.store, &self.session, number).await?)
    }

    /// The recorded files of a turn, if it changed anything.
    pub(crate) async fn turn_files(
        &self,
        turn: u32,
        conversation: &Conversation,
    ) -> Result<Option<TurnFiles>, AgentError> {
        let Some((before, after)) = conversation.checkpoints(turn) else {
            return Ok(None);
        };
        let after = match after {
            Some(after) => Some((self.files(turn, after).await?, after.skipped.clone())),
            None => None,
        };
        Ok(Some(TurnFiles {
            before: self.files(turn, before).await?,
            skipped: before.skipped.clone(),
            after,
        }))
    }

    /// The files of a checkpoint of a turn.
    pub(crate) async fn files(
        &self,
        turn: u32,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<FileRecord>, AgentError> {
        let files = self.store.checkpoint(&self.session, checkpoint.number);
        files.await?.ok_or(AgentError::CheckpointGone { turn })
    }
}
