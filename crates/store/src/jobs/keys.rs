//! API keys and logins of browsers. Stores only hashes of tokens, never the tokens.

use jiff::Timestamp;
use protocol::job::{ApiKey, UserRole};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use super::JobStore;
use super::commit::BatchedWrite;
use super::record::{bytes, read_uuid, time};
use crate::error::StoreError;
use crate::rows::{nanoseconds, time_of};

/// The columns of a key, in the order in which [`key`] reads them.
macro_rules! key_columns {
    () => {
        "id, user, role, label, prefix, created, revoked"
    };
}

const INSERT_KEY: &str = "
    INSERT INTO keys (id, hash, user, role, label, prefix, created, revoked)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

const SELECT_KEY_BY_HASH: &str = concat!("SELECT ", key_columns!(), " FROM keys WHERE hash = ?1");

const SELECT_KEYS: &str = concat!("SELECT ", key_columns!(), " FROM keys ORDER BY created, id");

const REVOKE: &str = "UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";

const DELETE_KEY_LOGINS: &str = "DELETE FROM logins WHERE key = ?1";

// Adds nothing if the key was revoked meanwhile.
const ADD_LOGIN: &str = "
    INSERT OR REPLACE INTO logins (hash, key, until)
    SELECT ?1, id, ?3 FROM keys WHERE id = ?2 AND revoked IS NULL";

const SELECT_LOGIN_KEY: &str = concat!(
    "SELECT ",
    key_columns!(),
    " FROM logins JOIN keys ON keys.id = logins.key
    WHERE logins.hash = ?1 AND until > ?2 AND revoked IS NULL"
);

const REMOVE_LOGIN: &str = "DELETE FROM logins WHERE hash = ?1";

const REMOVE_OLD_LOGINS: &str = "DELETE FROM logins WHERE until <= ?1";

impl JobStore {
    /// Stores a key by the hash of its token.
    pub async fn add_key(&self, key: ApiKey, hash: [u8; 32]) -> Result<(), StoreError> {
        self.write(AddKey { key, hash }).await
    }

    /// The key with that hash, even if it is revoked.
    pub async fn key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, StoreError> {
        const WHAT: &str = "look up a key";
        let rows = self
            .rows(WHAT, sqlx::query(SELECT_KEY_BY_HASH).bind(&hash[..]))
            .await?;
        let found = rows.first().map(key).transpose();
        found.map_err(StoreError::database(WHAT))
    }

    /// All keys, the oldest first.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        const WHAT: &str = "list keys";
        let rows = self.rows(WHAT, sqlx::query(SELECT_KEYS)).await?;
        let keys = rows.iter().map(key).collect::<Result<_, _>>();
        keys.map_err(StoreError::database(WHAT))
    }

    /// Revokes a key and its logins. Returns whether the key existed and was not revoked yet.
    pub async fn revoke_key(&self, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
        self.write(RevokeKey { id, now }).await
    }

    /// Stores a browser's login, made with a key, by the hash of its token.
    pub async fn add_login(
        &self,
        hash: [u8; 32],
        key: Uuid,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(AddLogin { hash, key, until }).await
    }

    /// The key of a login, if the login has not expired and the key is not revoked.
    pub async fn login(
        &self,
        hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<ApiKey>, StoreError> {
        const WHAT: &str = "look up a login";
        let statement = sqlx::query(SELECT_LOGIN_KEY)
            .bind(&hash[..])
            .bind(nanoseconds(now));
        let rows = self.rows(WHAT, statement).await?;
        let found = rows.first().map(key).transpose();
        found.map_err(StoreError::database(WHAT))
    }

    /// Returns whether the login existed.
    pub async fn remove_login(&self, hash: [u8; 32]) -> Result<bool, StoreError> {
        self.write(RemoveLogin(hash)).await
    }

    /// Removes expired logins.
    pub async fn remove_old_logins(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write(RemoveOldLogins(now)).await
    }
}

fn key(row: &SqliteRow) -> Result<ApiKey, sqlx::Error> {
    let role = match row.try_get(2)? {
        "admin" => UserRole::Admin,
        "user" => UserRole::User,
        other => {
            let text = format!("`{other}` is not a role");
            return Err(sqlx::Error::Decode(text.into()));
        }
    };
    Ok(ApiKey {
        id: read_uuid(row, 0)?,
        user: row.try_get(1)?,
        role,
        label: row.try_get(3)?,
        prefix: row.try_get(4)?,
        created: time_of(row.try_get(5)?),
        revoked: row.try_get::<Option<i64>, _>(6)?.map(time_of),
    })
}

struct AddKey {
    key: ApiKey,
    hash: [u8; 32],
}

impl BatchedWrite for AddKey {
    type Outcome = ();

    const WHAT: &'static str = "add a key";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let key = &self.key;
        let role = match key.role {
            UserRole::Admin => "admin",
            UserRole::User => "user",
        };
        sqlx::query(INSERT_KEY)
            .bind(bytes(&key.id))
            .bind(&self.hash[..])
            .bind(&key.user)
            .bind(role)
            .bind(&key.label)
            .bind(&key.prefix)
            .bind(nanoseconds(key.created))
            .bind(time(key.revoked))
            .execute(connection)
            .await
            .map(drop)
    }
}

struct RevokeKey {
    id: Uuid,
    now: Timestamp,
}

impl BatchedWrite for RevokeKey {
    type Outcome = bool;

    const WHAT: &'static str = "revoke a key";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(REVOKE)
            .bind(bytes(&self.id))
            .bind(nanoseconds(self.now))
            .execute(&mut *connection)
            .await?;
        sqlx::query(DELETE_KEY_LOGINS)
            .bind(bytes(&self.id))
            .execute(connection)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}

struct AddLogin {
    hash: [u8; 32],
    key: Uuid,
    until: Timestamp,
}

impl BatchedWrite for AddLogin {
    type Outcome = ();

    const WHAT: &'static str = "add a login";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(ADD_LOGIN)
            .bind(&self.hash[..])
            .bind(bytes(&self.key))
            .bind(nanoseconds(self.until))
            .execute(connection)
            .await
            .map(drop)
    }
}

struct RemoveLogin([u8; 32]);

impl BatchedWrite for RemoveLogin {
    type Outcome = bool;

    const WHAT: &'static str = "remove a login";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let statement = sqlx::query(REMOVE_LOGIN).bind(&self.0[..]);
        let done = statement.execute(connection).await?;
        Ok(done.rows_affected() == 1)
    }
}

struct RemoveOldLogins(Timestamp);

impl BatchedWrite for RemoveOldLogins {
    type Outcome = ();

    const WHAT: &'static str = "remove old logins";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let statement = sqlx::query(REMOVE_OLD_LOGINS).bind(nanoseconds(self.0));
        statement.execute(connection).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [
            (SELECT_KEY_BY_HASH, "(hash=?)"),
            (REVOKE, "(id=?)"),
            (DELETE_KEY_LOGINS, "INDEX logins_of_key (key=?)"),
            (SELECT_LOGIN_KEY, "SEARCH logins USING PRIMARY KEY (hash=?)"),
            (REMOVE_LOGIN, "(hash=?)"),
            (REMOVE_OLD_LOGINS, "INDEX logins_by_end (until<?)"),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
