//! Recounts the runs of all contents. Needed to remove a checkpoint whose list of files cannot be decoded,
//! because its part of the counts is unknown.

use sqlx::SqliteConnection;

use super::manifest::{self, CheckpointKey};
use super::{contents, runs::runs_added};
use crate::error::StoreError;

const SELECT_SESSIONS: &str = "SELECT DISTINCT session FROM checkpoints";

const OPERATION: &str = "count the contents of checkpoints";

/// Removes a session's checkpoints, and all others that cannot be decoded.
pub(super) async fn remove_and_recount(
    connection: &mut SqliteConnection,
    session: &str,
) -> Result<(), StoreError> {
    contents::reset_runs(connection).await?;
    let sessions: Vec<String> = sqlx::query_scalar(SELECT_SESSIONS)
        .fetch_all(&mut *connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    for known in sessions {
        let mut before = None;
        for number in manifest::numbers(connection, &known).await? {
            let place = CheckpointKey {
                session: known.clone(),
                number,
            };
            let files = match manifest::read(connection, &place).await {
                Ok(Some(files)) if known != session => files,
                Ok(_) | Err(StoreError::DamagedCheckpoint { .. }) => {
                    manifest::remove_row(connection, &place).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let held = manifest::hashes(&files);
            let added = runs_added(before.as_ref(), &held, None);
            contents::change_runs(connection, &added, 1).await?;
            before = Some(held);
        }
    }
    Ok(())
}
