//! Who asks: by key, by the cookie of a login, or whoever is at this machine.
//!
//! A key that was found is remembered for a moment, so that not every request asks the store; what
//! ends a key or a login through this server ends that memory too. Tokens are remembered as hashes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

use crate::app::{App, Caller};
use crate::http::guard::rate::Rates;
use crate::http::problem::{Kind, Problem};

pub(crate) const COOKIE: &str = "hotcell";

/// A key that was ended by another process still works for so long.
const FRESH: Duration = Duration::from_secs(1);

/// Callers that are remembered.
const MOST_KNOWN: usize = 4_096;

/// Wrong keys of one address in a second, and at once.
const WRONG_RATE: u32 = 2;
const WRONG_BURST: u32 = 60;

/// What a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Key(&'a str),
    Login(&'a str),
}

impl<'a> Token<'a> {
    /// A key goes before a cookie. An error when there is one that cannot be any.
    pub(crate) fn find(headers: &'a HeaderMap) -> Result<Option<Self>, Problem> {
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            let value = value.to_str().unwrap_or_default();
            return match value.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    Ok(Some(Self::Key(token.trim())))
                }
                _ => Err(wrong_key()),
            };
        }
        if let Some(value) = headers.get("x-api-key") {
            return value
                .to_str()
                .map(|token| Some(Self::Key(token)))
                .map_err(|_| wrong_key());
        }
        Ok(login(headers).map(Self::Login))
    }

    fn hash(self) -> [u8; 32] {
        let (kind, token) = match self {
            Self::Key(token) => ("key", token),
            Self::Login(token) => ("login", token),
        };
        let hash = Sha256::new().chain_update(kind).chain_update(token);
        hash.finalize().into()
    }
}

/// The token of a login, in a cookie.
pub(crate) fn login(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, token)| (name == COOKIE && !token.is_empty()).then_some(token))
}

/// Finds out who asks.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    known: Mutex<Known>,
    wrong: Rates<IpAddr>,
}

#[derive(Debug, Default)]
struct Known {
    callers: HashMap<[u8; 32], (Arc<Caller>, Instant)>,
    /// Raised when all is forgotten: what was looked up before that counts no more.
    round: u64,
}

impl Doorkeeper {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::default(),
            wrong: Rates::new(WRONG_RATE, WRONG_BURST).expect("the rate is not 0"),
        }
    }

    /// Whose token it is; `None` for a login that does not hold any more. A wrong key is a problem.
    pub(crate) async fn caller(
        &self,
        app: &App,
        token: Token<'_>,
        peer: IpAddr,
        now: Instant,
    ) -> Result<Option<Arc<Caller>>, Problem> {
        let hash = token.hash();
        let (remembered, round) = {
            let known = self.known();
            (known.callers.get(&hash).cloned(), known.round)
        };
        match remembered {
            Some((caller, until)) if now < until => return Ok(Some(caller)),
            Some(_) => {}
            // Guesses cost the guesser time; who is known is not held up by them.
            None => {
                if let Some(wait) = self.wrong.wait(&peer, now) {
                    return Err(too_many(wait).hint("too many wrong keys came from this address"));
                }
            }
        }
        let found = match token {
            Token::Key(token) => app.authenticate(token).await?,
            Token::Login(token) => app.authenticate_login(token).await?,
        };
        match found {
            Some(caller) => {
                let caller = Arc::new(caller);
                self.remember(hash, Arc::clone(&caller), now + FRESH, round);
                Ok(Some(caller))
            }
            None => {
                self.known().callers.remove(&hash);
                // The first beyond the burst is told so by the next request.
                let _ = self.wrong.count(&peer, now);
                match token {
                    Token::Key(_) => Err(wrong_key()),
                    Token::Login(_) => Ok(None),
                }
            }
        }
    }

    /// A key or a login has ended.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.callers.clear();
        known.round += 1;
    }

    fn remember(&self, hash: [u8; 32], caller: Arc<Caller>, until: Instant, round: u64) {
        let mut known = self.known();
        if known.round != round {
            return;
        }
        if known.callers.len() >= MOST_KNOWN {
            known.callers.clear();
        }
        known.callers.insert(hash, (caller, until));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn wrong_key() -> Problem {
    Problem::new(Kind::NoKey, "the key is not known, or has been revoked")
}

pub(crate) fn no_key() -> Problem {
    Problem::new(Kind::NoKey, "the request has no key")
        .hint("send it as `Authorization: Bearer KEY`, or log in")
}

pub(crate) fn too_many(wait: Duration) -> Problem {
    Problem::new(Kind::TooMany, "too many requests came in too little time")
        .retry_after(wait.as_secs_f64().ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tokens_are_found_where_they_may_be() {
        fn check(given: &[(&'static str, &str)], expect: Result<Option<Token<'_>>, ()>) {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(*name, value.parse().unwrap());
            }
            let found = Token::find(&headers).map_err(|_| ());
            assert_eq!(found, expect, "{given:?}");
        }
        check(&[], Ok(None));
        check(&[("authorization", "Bearer a")], Ok(Some(Token::Key("a"))));
        check(
            &[("authorization", "bearer  a ")],
            Ok(Some(Token::Key("a"))),
        );
        check(&[("authorization", "Basic a")], Err(()));
        check(&[("authorization", "a")], Err(()));
        check(&[("x-api-key", "b")], Ok(Some(Token::Key("b"))));
        check(
            &[("x-api-key", "b"), ("authorization", "Bearer a")],
            Ok(Some(Token::Key("a"))),
        );
        check(
            &[("cookie", "other=1; hotcell=c")],
            Ok(Some(Token::Login("c"))),
        );
        check(
            &[("cookie", "other=1"), ("cookie", "hotcell=c;x=y")],
            Ok(Some(Token::Login("c"))),
        );
        check(&[("cookie", "nothotcell=c; hotcell=")], Ok(None));
        check(
            &[("cookie", "hotcell=c"), ("x-api-key", "b")],
            Ok(Some(Token::Key("b"))),
        );
    }

    #[test]
    fn a_key_and_a_login_are_not_the_same() {
        assert_ne!(Token::Key("a").hash(), Token::Login("a").hash());
    }
}
