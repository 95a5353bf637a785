//! Records the files before and after a turn, and undoes a turn: its files and its part of the
//! conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Checkpoint, EventKind, Moment};
use sandbox::Sandbox;
use store::FileRecord;
use tracing::warn;

use crate::checkpoint::{self, RestoreResult, RestoreTarget, SnapshotTask, WorkspaceSnapshot};
use crate::error::AgentError;
use crate::session::Session;
use crate::stopper::TurnStopper;

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

impl Session {
    /// Waits until the files are recorded, before the first of them is changed. Returns whether they
    /// are.
    pub(crate) async fn checkpoint(
        &mut self,
        turn: u32,
        snapshot: SnapshotTask,
        stopper: &TurnStopper,
    ) -> Result<bool, AgentError> {
        let sandbox = self.ensure_sandbox(None).await?;
        let snapshot = tokio::select! {
            snapshot = snapshot.finish(&sandbox, &self.store) => snapshot,
            () = stopper.token().cancelled() => None,
        };
        let Some(snapshot) = snapshot else {
            return Ok(false);
        };
        self.save_checkpoint(turn, Moment::Before, snapshot).await?;
        Ok(true)
    }

    /// Records the files after the turn, so that an undo can tell its changes from later ones.
    pub(crate) async fn checkpoint_after_turn(&mut self, turn: u32) -> Result<(), AgentError> {
        match self.recorder.conversation.checkpoints(turn) {
            Some((_, None)) => {}
            _ => return Ok(()),
        }
        let sandbox = self.ensure_sandbox(None).await?;
        match checkpoint::take_snapshot(&sandbox, &self.store, &self.baseline.known()).await {
            Ok(snapshot) => self.save_checkpoint(turn, Moment::After, snapshot).await,
            Err(error) => {
                warn!(%error, "cannot make a checkpoint");
                Ok(())
            }
        }
    }

    async fn save_checkpoint(
        &mut self,
        turn: u32,
        moment: Moment,
        snapshot: WorkspaceSnapshot,
    ) -> Result<(), AgentError> {
        let number = self.recorder.conversation.last_checkpoint() + 1;
        let session = self.sender.session();
        let checkpoint = snapshot.save(&self.store, session, number).await?;
        self.baseline.add(&checkpoint, snapshot.into_known());
        self.recorder
            .record(EventKind::CheckpointMade {
                turn,
                moment,
                checkpoint,
            })
            .await
    }

    /// Undoes the last turn.
    pub(crate) async fn undo(&mut self) -> Result<(), AgentError> {
        let Some(turn) = self.recorder.conversation.undoable() else {
            return Err(AgentError::NothingToUndo);
        };
        // Everything that can fail cleanly comes before the first change.
        let record = self.turn_files(turn).await?;
        let (sandbox, snapshot) = self.snapshot_now().await?;
        let number = self.recorder.conversation.last_checkpoint() + 1;
        let now = snapshot
            .save(&self.store, self.sender.session(), number)
            .await?;
        let restored = match &record {
            Some(record) => {
                let target = record.target(Some(&snapshot));
                checkpoint::restore(&sandbox, &self.store, target).await?
            }
            None => RestoreResult::default(),
        };
        self.recorder
            .record(EventKind::Undone {
                turn,
                checkpoint: now,
                restored: restored.written,
                removed: restored.removed,
                left: restored.left,
            })
            .await
    }

    /// The recorded files of a turn, if it changed anything.
    pub(crate) async fn turn_files(&self, turn: u32) -> Result<Option<TurnFiles>, AgentError> {
        let Some((before, after)) = self.recorder.conversation.checkpoints(turn) else {
            return Ok(None);
        };
        let after = match after {
            Some(after) => Some((
                self.checkpoint_files(turn, after).await?,
                after.skipped.clone(),
            )),
            None => None,
        };
        Ok(Some(TurnFiles {
            before: self.checkpoint_files(turn, before).await?,
            skipped: before.skipped.clone(),
            after,
        }))
    }

    /// A snapshot of the current files. Replaces the sandbox if it has died unnoticed since the last turn.
    pub(crate) async fn snapshot_now(
        &mut self,
    ) -> Result<(Arc<Sandbox>, WorkspaceSnapshot), AgentError> {
        let sandbox = self.ensure_sandbox(None).await?;
        let known = self.baseline.known();
        match checkpoint::take_snapshot(&sandbox, &self.store, &known).await {
            Err(AgentError::Sandbox(error)) if error.is_final() => {
                drop(sandbox);
                let reason = self.sandbox.replace(&error).await;
                warn!(%reason, "sandbox replaced");
                let sandbox = self.ensure_sandbox(Some(reason)).await?;
                let snapshot = checkpoint::take_snapshot(&sandbox, &self.store, &known).await?;
                Ok((sandbox, snapshot))
            }
            snapshot => Ok((sandbox, snapshot?)),
        }
    }

    pub(crate) async fn checkpoint_files(
        &self,
        turn: u32,
        checkpoint: &Checkpoint,
    ) -> Result<Vec<FileRecord>, AgentError> {
        let session = self.sender.session();
        let files = self.store.checkpoint(session, checkpoint.number).await?;
        files.ok_or(AgentError::CheckpointGone { turn })
    }
}
