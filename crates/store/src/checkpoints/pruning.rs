//! Frees space for checkpoints by removing the oldest.

use sqlx::SqliteConnection;

use super::manifest::{self, CheckpointKey};
use crate::error::StoreError;
use crate::rows::unsigned;

// Contents that no checkpoint holds do not count: they are about to be used or removed.
const SELECT_SIZES: &str = "
    SELECT (SELECT coalesce(sum(size), 0) FROM contents WHERE runs > 0),
           (SELECT coalesce(sum(size), 0) FROM checkpoints)";

const SELECT_OLDEST: &str = "
    SELECT session, number FROM checkpoints WHERE NOT (session = ?1 AND number = ?2)
    ORDER BY saved, id LIMIT 1";

const OPERATION: &str = "make room for a checkpoint";

pub(super) async fn prune(
    connection: &mut SqliteConnection,
    most: u64,
    spare: &CheckpointKey,
) -> Result<(), StoreError> {
    while is_over_limit(connection, most).await? {
        let Some(oldest) = oldest(connection, spare).await? else {
            break;
        };
        manifest::remove(connection, &oldest).await?;
    }
    Ok(())
}

async fn is_over_limit(connection: &mut SqliteConnection, most: u64) -> Result<bool, StoreError> {
    let (contents, manifests): (i64, i64) = sqlx::query_as(SELECT_SIZES)
        .fetch_one(connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    Ok(unsigned(contents.max(manifests)) > most)
}

async fn oldest(
    connection: &mut SqliteConnection,
    spare: &CheckpointKey,
) -> Result<Option<CheckpointKey>, StoreError> {
    let row: Option<(String, u32)> = sqlx::query_as(SELECT_OLDEST)
        .bind(&spare.session)
        .bind(spare.number)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    Ok(row.map(|(session, number)| CheckpointKey { session, number }))
}
