//! Registry logins, in the file format of Docker and Podman. Reads no file: the caller passes the text.
//!
//! Entry type: [`RegistryLogin`].

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use oci_client::secrets::RegistryAuth;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// Credentials for a registry.
#[derive(Debug, Clone, Default)]
pub enum RegistryLogin {
    #[default]
    Nobody,
    Password {
        user: String,
        password: SecretString,
    },
}

impl RegistryLogin {
    pub(super) fn to_auth(&self) -> RegistryAuth {
        match self {
            Self::Nobody => RegistryAuth::Anonymous,
            Self::Password { user, password } => {
                RegistryAuth::Basic(user.clone(), password.expose_secret().to_owned())
            }
        }
    }
}

#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize)]
struct AuthEntry {
    #[serde(default)]
    auth: String,
}

/// The login for a registry in the text of a `config.json` or `auth.json`. Credential helpers that such a
/// file names are not called.
pub fn logins(text: &str, registry: &str) -> RegistryLogin {
    let Ok(logins) = serde_json::from_str::<AuthFile>(text) else {
        return RegistryLogin::Nobody;
    };
    let is_meant = |key: &str| {
        let host = key.split_once("://").map_or(key, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let is_docker = |host: &str| matches!(host, "docker.io" | "index.docker.io");
        host == registry || is_docker(host) && is_docker(registry)
    };
    let mut entries = logins.auths.iter().filter(|(key, _)| is_meant(key));
    entries
        .find_map(|(_, entry)| {
            let pair = String::from_utf8(BASE64.decode(&entry.auth).ok()?).ok()?;
            let (user, password) = pair.split_once(':')?;
            Some(RegistryLogin::Password {
                user: user.to_owned(),
                password: password.trim_end_matches('\0').into(),
            })
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, registry: &str, expected: Option<(&str, &str)>) {
        let found = match logins(text, registry) {
            RegistryLogin::Nobody => None,
            RegistryLogin::Password { user, password } => {
                Some((user, password.expose_secret().to_owned()))
            }
        };
        let found = found
            .as_ref()
            .map(|(user, password)| (&**user, &**password));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_login_of_a_registry() {
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "bWU6YTpi"},
            "example.com:5000": {"auth": "eW91OnNlY3JldA=="}, "empty.example": {}},
            "credsStore": "desktop"}"#;
        check(text, "example.com:5000", Some(("you", "secret")));
        check(text, "docker.io", Some(("me", "a:b")));
        check(text, "example.com", None);
        check(text, "empty.example", None);
        check("{}", "docker.io", None);
        check("nonsense", "docker.io", None);
    }

    #[test]
    fn a_login_is_not_shown() {
        let login = logins(r#"{"auths": {"a.b": {"auth": "eW91OnNlY3JldA=="}}}"#, "a.b");
        assert!(!format!("{login:?}").contains("secret"), "{login:?}");
    }
}
