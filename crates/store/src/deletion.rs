//! Deletes sessions.

use protocol::SessionId;
use sqlx::SqliteConnection;

use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::journal::find_session_number;
use crate::rows::place;
use crate::store::SessionStore;

const DELETE_SESSION: &str = "
    DELETE FROM words WHERE rowid BETWEEN ?2 AND ?3;
    DELETE FROM outputs WHERE session = ?1;
    DELETE FROM events WHERE session = ?1;
    DELETE FROM sessions WHERE number = ?1";

const OPERATION: &str = "delete a session";

impl SessionStore {
    /// Deletes a session with its outputs and checkpoints, and frees their disk space.
    ///
    /// Contents of files that were looked up in the last minutes stay until the next deletion or checkpoint:
    /// a process may be about to save a checkpoint with them.
    pub async fn delete(&self, session: &SessionId) -> Result<(), StoreError> {
        let lock = self.lock(session)?;
        let store = self.clone();
        let session = session.clone();
        run_to_completion(OPERATION, async move {
            // Checkpoints first: as long as the session is listed, a failed deletion can be repeated.
            if store.has_checkpoints() {
                store.remove_checkpoints(&session).await?;
            }
            let mut transaction = store.sessions_db().begin(OPERATION).await?;
            let removed = delete_rows(transaction.connection(), &session).await;
            transaction.end(removed).await?;
            drop(lock);
            store.sessions_db().shrink().await
        })
        .await
    }
}

async fn delete_rows(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> Result<(), StoreError> {
    let Some(number) = find_session_number(connection, session).await? else {
        return Err(StoreError::Unknown(session.to_string()));
    };
    sqlx::query(DELETE_SESSION)
        .bind(number)
        .bind(place(number, 1))
        .bind(place(number + 1, 0))
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database(OPERATION))
}
