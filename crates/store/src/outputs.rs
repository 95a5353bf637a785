//! Tool outputs that are too long for a model, stored in full. They are not compressed: their size is
//! limited, and they are mostly read back in pieces within the same turn.

use protocol::{Kept, SessionId};
use sqlx::SqliteConnection;

use crate::database::carry_out;
use crate::error::StoreError;
use crate::journal::number_of as session_number;
use crate::store::Store;

/// In bytes, for each session. The oldest outputs are removed first.
const MOST: usize = 64 << 20;

const PREFIX: &str = "output:";

const KEEP: &str = "
    INSERT INTO outputs (session, number, bytes)
    VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM outputs WHERE session = ?1), ?2)
    RETURNING number";

// Removes an output if it and all newer ones together are too large. The newest one stays, so that numbers
// are not used again.
const MAKE_ROOM: &str = "
    DELETE FROM outputs WHERE session = ?1 AND number <= (
        SELECT max(number) FROM (
            SELECT number, sum(length(bytes)) OVER (ORDER BY number DESC) AS bytes
            FROM outputs WHERE session = ?1
        ) WHERE bytes > ?2
    )";

const READ: &str = "
    SELECT o.bytes FROM outputs o JOIN sessions s ON s.number = o.session
    WHERE s.name = ?1 AND o.number = ?2";

const WHAT: &str = "keep output";

impl Store {
    /// Stores an output under the session's next handle: `output:1`, `output:2` and so on.
    ///
    /// A session stores up to 64 MiB. Older outputs are removed for newer ones, and a single output that is
    /// larger is cut to its first 64 MiB.
    pub async fn keep_output(
        &self,
        session: &SessionId,
        mut output: Vec<u8>,
    ) -> Result<Kept, StoreError> {
        output.truncate(MOST);
        let bytes = output.len() as u64;
        let store = self.clone();
        let session = session.clone();
        let number = carry_out(WHAT, async move {
            let mut transaction = store.sessions_db().begin(WHAT).await?;
            let kept = keep(transaction.connection(), &session, output).await;
            transaction.end(kept).await
        })
        .await?;
        Ok(Kept {
            handle: format!("{PREFIX}{number}"),
            bytes,
        })
    }

    /// `None` if it does not exist or was removed to free space.
    pub async fn output(
        &self,
        session: &SessionId,
        handle: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(number) = number_of(handle) else {
            return Ok(None);
        };
        let mut reader = self.sessions_db().reader().await?;
        sqlx::query_scalar(READ)
            .bind(session.as_str())
            .bind(number)
            .fetch_optional(&mut *reader)
            .await
            .map_err(StoreError::database("read output"))
    }
}

async fn keep(
    connection: &mut SqliteConnection,
    session: &SessionId,
    output: Vec<u8>,
) -> Result<i64, StoreError> {
    let Some(session) = session_number(connection, session).await? else {
        return Err(StoreError::Unknown(session.to_string()));
    };
    let number = sqlx::query_scalar(KEEP)
        .bind(session)
        .bind(output)
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::database(WHAT))?;
    sqlx::query(MAKE_ROOM)
        .bind(session)
        .bind(MOST as i64)
        .execute(connection)
        .await
        .map_err(StoreError::database(WHAT))?;
    Ok(number)
}

/// The number in a handle; `None` if it is not a handle.
pub(crate) fn number_of(handle: &str) -> Option<i64> {
    let digits = handle.strip_prefix(PREFIX)?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}
