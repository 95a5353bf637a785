//! Keys and logins: authentication and its management.

use jiff::Timestamp;
use protocol::job::{ApiKey, UserRole};
use secrecy::SecretString;
use uuid::Uuid;

use super::{App, AppError, Caller};
use crate::keys::{self, check_name};

impl App {
    /// The owner of an API key; `None` if the key is unknown or revoked.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Option<Caller>, AppError> {
        let key = self.parts.jobs.key(keys::hash(token)).await?;
        Ok(key.filter(|key| key.revoked.is_none()).map(caller))
    }

    /// The owner of a login; `None` if it is unknown, expired, or its key is revoked.
    pub(crate) async fn authenticate_login(&self, token: &str) -> Result<Option<Caller>, AppError> {
        let hash = keys::hash(token);
        let key = self.parts.jobs.login(hash, Timestamp::now()).await?;
        Ok(key.filter(|key| key.revoked.is_none()).map(caller))
    }

    /// Creates a browser login for the caller's key. The token is not stored. Callers without a key
    /// are refused.
    pub(crate) async fn log_in(
        &self,
        caller: &Caller,
        until: Timestamp,
    ) -> Result<SecretString, AppError> {
        let Some(key) = caller.key else {
            return Err(AppError::Forbidden("a login needs a key".to_owned()));
        };
        let (token, hash) = keys::new_token();
        self.parts.jobs.add_login(hash, key, until).await?;
        Ok(token)
    }

    /// Ends a login. False if there was none.
    pub(crate) async fn log_out(&self, token: &str) -> Result<bool, AppError> {
        Ok(self.parts.jobs.remove_login(keys::hash(token)).await?)
    }

    /// All keys for an admin; only their own for other users.
    pub(crate) async fn keys(&self, caller: &Caller) -> Result<Vec<ApiKey>, AppError> {
        let mut keys = self.parts.jobs.keys().await?;
        keys.retain(|key| caller.can_see(&key.user));
        Ok(keys)
    }

    /// Creates a key. Users who are not admins can create only keys of their own without admin
    /// rights.
    pub(crate) async fn create_key(
        &self,
        caller: &Caller,
        user: String,
        role: UserRole,
        label: String,
    ) -> Result<(ApiKey, SecretString), AppError> {
        check_name("user", &user).map_err(AppError::Invalid)?;
        if !label.is_empty() {
            check_name("label", &label).map_err(AppError::Invalid)?;
        }
        let is_own = caller.user == user && role == UserRole::User;
        if caller.role != UserRole::Admin && !is_own {
            let reason = "only an admin can make keys for others, or keys of an admin";
            return Err(AppError::Forbidden(reason.to_owned()));
        }
        let now = Timestamp::now();
        Ok(keys::create_key(&self.parts.jobs, user, role, label, now).await?)
    }

    /// Revokes a key. Keys of other users do not exist for callers who are not admins.
    pub(crate) async fn revoke_key(&self, caller: &Caller, id: Uuid) -> Result<(), AppError> {
        let keys = self.keys(caller).await?;
        if !keys.iter().any(|key| key.id == id) {
            return Err(AppError::NoKey(id));
        }
        if self.parts.jobs.revoke_key(id, Timestamp::now()).await? {
            Ok(())
        } else {
            Err(AppError::Conflict("the key was revoked before".to_owned()))
        }
    }
}

fn caller(key: ApiKey) -> Caller {
    Caller {
        user: key.user,
        role: key.role,
        key: Some(key.id),
    }
}
