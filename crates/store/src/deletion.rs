//! Deletes sessions.

use protocol::SessionId;
use sqlx::SqliteConnection;

use crate::database::carry_out;
use crate::error::StoreError;
use crate::journal::number_of;
use crate::rows::place;
use crate::store::Store;

const DELETE: &str = "
    DELETE FROM words WHERE rowid BETWEEN ?2 AND ?3;
    DELETE FROM outputs WHERE session = ?1;
    DELETE FROM events WHERE session = ?1;
    DELETE FROM sessions WHERE number = ?1";

const WHAT: &str = "delete a session";

impl Store {
    /// Deletes a session with its outputs and checkpoints, and frees their disk space.
    ///
    /// Contents of files that were looked up in the last minutes stay until the next deletion or checkpoint:
    /// a process may be about to save a checkpoint with them.
    pub async fn delete(&self, session: &SessionId) -> Result<(), StoreError> {
        let lock = self.lock(session)?;
        let store = self.clone();
        let session = session.clone();
        carry_out(WHAT, async move {
            // Checkpoints first: as long as the session is listed, a failed deletion can be repeated.
            if store.has_checkpoints() {
                store.forget_checkpoints(&session).await?;
            }
            let mut transaction = store.sessions_db().begin(WHAT).await?;
            let removed = remove(transaction.connection(), &session).await;
            transaction.end(removed).await?;
            drop(lock);
            store.sessions_db().shrink().await
        })
        .await
    }
}

async fn remove(connection: &mut SqliteConnection, session: &SessionId) -> Result<(), StoreError> {
    let Some(number) = number_of(connection, session).await? else {
        return Err(StoreError::Unknown(session.to_string()));
    };
    sqlx::query(DELETE)
        .bind(number)
        .bind(place(number, 1))
        .bind(place(number + 1, 0))
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database(WHAT))
}
