//! API keys: random tokens, stored as hashes, shown once.
//!
//! A token has 256 random bits, so its hash needs neither a salt nor a slow function.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use protocol::job::{ApiKey, UserRole};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use store::{JobStore, StoreError};
use uuid::Uuid;

const TOKEN_PREFIX: &str = "hc_";
/// Characters of a token that are shown to identify it.
const SHOWN_CHARS: usize = TOKEN_PREFIX.len() + 6;

const MAX_NAME_CHARS: usize = 100;

/// Checks the user name or label of a key. An error is one line for the user.
pub fn check_name(field: &str, text: &str) -> Result<(), String> {
    let reason = match () {
        () if text.trim().is_empty() => "it is empty".to_owned(),
        () if text.chars().count() > MAX_NAME_CHARS => {
            format!("it is longer than {MAX_NAME_CHARS} characters")
        }
        () if text.chars().any(char::is_control) => "it has control characters".to_owned(),
        () => return Ok(()),
    };
    Err(format!("{field}: {reason}"))
}

/// Creates a key. The token itself is not stored.
pub async fn create_key(
    jobs: &JobStore,
    user: String,
    role: UserRole,
    label: String,
    now: Timestamp,
) -> Result<(ApiKey, SecretString), StoreError> {
    let (token, hash) = new_token();
    let key = ApiKey {
        id: Uuid::now_v7(),
        user,
        role,
        label,
        prefix: token.expose_secret()[..SHOWN_CHARS].to_owned(),
        created: now,
        revoked: None,
    };
    jobs.add_key(key.clone(), hash).await?;
    Ok((key, token))
}

/// A random token and its hash.
pub(crate) fn new_token() -> (SecretString, [u8; 32]) {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = hash(&token);
    (token.into(), hash)
}

/// The stored form of a token.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_differ_and_have_a_short_prefix() {
        let tokens: Vec<_> = (0..100).map(|_| new_token()).collect();
        let hashes: HashSet<_> = tokens.iter().map(|(_, hash)| *hash).collect();
        assert_eq!(hashes.len(), 100);
        for (token, stored) in tokens {
            let text = token.expose_secret();
            assert_eq!(text.len(), TOKEN_PREFIX.len() + 43);
            assert!(text.starts_with(TOKEN_PREFIX) && text.is_ascii());
            assert_eq!(hash(text), stored);
        }
    }
}
