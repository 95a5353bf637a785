//! How much space a session takes in the databases.

use std::collections::HashMap;

use protocol::SessionId;

use crate::checkpoints::{ContentHash, RecordedKind};
use crate::error::StoreError;
use crate::rows::unsigned;
use crate::store::SessionStore;

const SELECT_EVENT_AND_OUTPUT_SIZES: &str = "
    SELECT
        (SELECT coalesce(sum(length(e.body)), 0) FROM events e WHERE e.session = s.number),
        (SELECT coalesce(sum(length(o.bytes)), 0) FROM outputs o WHERE o.session = s.number)
    FROM sessions s WHERE s.name = ?1";

const SELECT_CHECKPOINT_SIZES: &str = "
    SELECT count(*), coalesce(sum(size), 0) FROM checkpoints WHERE session = ?1";

const OPERATION: &str = "measure a session";

/// Bytes of a session in the databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionSize {
    pub events: u64,
    pub outputs: u64,
    /// Including the contents of their files, each counted once. A content that other sessions have too is
    /// counted for each session.
    pub checkpoints: u64,
}

impl SessionSize {
    pub fn total(self) -> u64 {
        let sum = self.events.saturating_add(self.outputs);
        sum.saturating_add(self.checkpoints)
    }
}

impl SessionStore {
    /// All zero for an unknown session.
    pub async fn size(&self, session: &SessionId) -> Result<SessionSize, StoreError> {
        let mut reader = self.sessions_db().slow_reader().await?;
        let row: Option<(i64, i64)> = sqlx::query_as(SELECT_EVENT_AND_OUTPUT_SIZES)
            .bind(session.as_str())
            .fetch_optional(&mut *reader)
            .await
            .map_err(StoreError::database(OPERATION))?;
        drop(reader);
        let (events, outputs) = row.unwrap_or_default();
        Ok(SessionSize {
            events: unsigned(events),
            outputs: unsigned(outputs),
            checkpoints: self.checkpoints_size(session).await?,
        })
    }

    /// How many checkpoints a session has. Old ones may have been removed to free space.
    pub async fn checkpoint_count(&self, session: &SessionId) -> Result<u64, StoreError> {
        Ok(self.manifest_totals(session).await?.0)
    }

    /// The number of a session's checkpoints, and the bytes of their lists of files.
    async fn manifest_totals(&self, session: &SessionId) -> Result<(u64, u64), StoreError> {
        if !self.has_checkpoints() {
            return Ok((0, 0));
        }
        let mut reader = self.checkpoints_db().await?.slow_reader().await?;
        let (count, size): (i64, i64) = sqlx::query_as(SELECT_CHECKPOINT_SIZES)
            .bind(session.as_str())
            .fetch_one(&mut *reader)
            .await
            .map_err(StoreError::database(OPERATION))?;
        Ok((unsigned(count), unsigned(size)))
    }

    async fn checkpoints_size(&self, session: &SessionId) -> Result<u64, StoreError> {
        let (count, lists) = self.manifest_totals(session).await?;
        if count == 0 {
            return Ok(0);
        }
        let mut contents: HashMap<ContentHash, u64> = HashMap::new();
        for number in self.checkpoint_numbers(session).await? {
            let files = match self.checkpoint(session, number).await {
                // The contents of a damaged checkpoint are unknown.
                Err(StoreError::DamagedCheckpoint { .. }) => continue,
                files => files?.unwrap_or_default(),
            };
            contents.extend(files.iter().filter_map(|file| match file.kind {
                RecordedKind::File { size, content } => Some((content, size)),
                RecordedKind::Folder | RecordedKind::Symlink { .. } => None,
            }));
        }
        let bytes = contents
            .values()
            .fold(0, |sum: u64, size| sum.saturating_add(*size));
        Ok(bytes.saturating_add(lists))
    }
}
