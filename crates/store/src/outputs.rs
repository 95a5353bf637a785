//! Tool outputs that are too long for a model, stored in full. They are not compressed: their size is
//! limited, and they are mostly read back in pieces within the same turn.

use protocol::{Kept, SessionId};
use sqlx::SqliteConnection;

use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::journal::find_session_number as session_number;
use crate::store::SessionStore;

/// In bytes, for each session. The oldest outputs are removed first.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

const HANDLE_PREFIX: &str = "output:";

const INSERT_OUTPUT: &str = "
    INSERT INTO outputs (session, number, bytes)
    VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM outputs WHERE session = ?1), ?2)
    RETURNING number";

// Removes an output if it and all newer ones together are too large. The newest one stays, so that numbers
// are not used again.
const DELETE_OLD_OUTPUTS: &str = "
    DELETE FROM outputs WHERE session = ?1 AND number <= (
        SELECT max(number) FROM (
            SELECT number, sum(length(bytes)) OVER (ORDER BY number DESC) AS bytes
            FROM outputs WHERE session = ?1
        ) WHERE bytes > ?2
    )";

const SELECT_OUTPUT: &str = "
    SELECT o.bytes FROM outputs o JOIN sessions s ON s.number = o.session
    WHERE s.name = ?1 AND o.number = ?2";

const OPERATION: &str = "keep output";

impl SessionStore {
    /// Stores an output under the session's next handle: `output:1`, `output:2` and so on.
    ///
    /// A session stores up to 64 MiB. Older outputs are removed for newer ones, and a single output that is
    /// larger is cut to its first 64 MiB.
    pub async fn store_output(
        &self,
        session: &SessionId,
        mut output: Vec<u8>,
    ) -> Result<Kept, StoreError> {
        output.truncate(MAX_OUTPUT_BYTES);
        let bytes = output.len() as u64;
        let store = self.clone();
        let session = session.clone();
        let number = run_to_completion(OPERATION, async move {
            let mut transaction = store.sessions_db().begin(OPERATION).await?;
            let kept = insert_output(transaction.connection(), &session, output).await;
            transaction.end(kept).await
        })
        .await?;
        Ok(Kept {
            handle: format!("{HANDLE_PREFIX}{number}"),
            bytes,
        })
    }

    /// `None` if it does not exist or was removed to free space.
    pub async fn output(
        &self,
        session: &SessionId,
        handle: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(number) = handle_number(handle) else {
            return Ok(None);
        };
        let mut reader = self.sessions_db().reader().await?;
        sqlx::query_scalar(SELECT_OUTPUT)
            .bind(session.as_str())
            .bind(number)
            .fetch_optional(&mut *reader)
            .await
            .map_err(StoreError::database("read output"))
    }
}

async fn insert_output(
    connection: &mut SqliteConnection,
    session: &SessionId,
    output: Vec<u8>,
) -> Result<i64, StoreError> {
    let Some(session) = session_number(connection, session).await? else {
        return Err(StoreError::Unknown(session.to_string()));
    };
    let number = sqlx::query_scalar(INSERT_OUTPUT)
        .bind(session)
        .bind(output)
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    sqlx::query(DELETE_OLD_OUTPUTS)
        .bind(session)
        .bind(MAX_OUTPUT_BYTES as i64)
        .execute(connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    Ok(number)
}

/// The number in a handle; `None` if it is not a handle.
pub(crate) fn handle_number(handle: &str) -> Option<i64> {
    let digits = handle.strip_prefix(HANDLE_PREFIX)?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}
