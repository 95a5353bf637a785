//! Authentication by API key or by login cookie.
//!
//! A caller is cached briefly, so that not every request queries the store. Revoking a key or
//! ending a login through this server also invalidates the cache. Tokens are cached as hashes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::app::{App, Caller};
use crate::http::guard::client::ClientAddress;
use crate::http::guard::rate::RateLimiter;
use crate::http::problem::{HttpProblem, ProblemKind};

pub(crate) const LOGIN_COOKIE: &str = "hotcell";

/// How long a caller is cached. A key revoked by another process works for at most this long.
const CALLER_CACHE_TTL: Duration = Duration::from_secs(1);

const MAX_CACHED_CALLERS: usize = 4_096;

/// Wrong keys per second from one address, and the burst. More are answered with 429; valid keys
/// from the same address are not delayed.
const WRONG_KEY_RATE: u32 = 2;
const WRONG_KEY_BURST: u32 = 60;

/// The credentials of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    Key(&'a str),
    Login(&'a str),
}

impl<'a> Credential<'a> {
    /// Finds the credentials; a key takes precedence over a cookie. An error if the key is
    /// malformed.
    pub(crate) fn find(headers: &'a HeaderMap) -> Result<Option<Self>, HttpProblem> {
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
        Ok(login_cookie(headers).map(Self::Login))
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

/// The login token in the cookie, if any.
pub(crate) fn login_cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, token)| (name == LOGIN_COOKIE && !token.is_empty()).then_some(token))
}

/// Authenticates requests, with a cache and a rate limit for wrong keys.
#[derive(Debug)]
pub(crate) struct Authenticator {
    known: Mutex<CallerCache>,
    wrong: RateLimiter<IpAddr>,
}

#[derive(Debug, Default)]
struct CallerCache {
    callers: HashMap<[u8; 32], (Arc<Caller>, Instant)>,
    /// Incremented when entries are invalidated: lookups that began before are not cached.
    round: u64,
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        Self {
            known: Mutex::default(),
            wrong: RateLimiter::new(WRONG_KEY_RATE, WRONG_KEY_BURST).expect("the rate is not zero"),
        }
    }

    /// The caller of a token; `None` for an expired login. A wrong key is an error.
    pub(crate) async fn caller(
        &self,
        app: &App,
        token: Credential<'_>,
        client: ClientAddress,
        now: Instant,
    ) -> Result<Option<Arc<Caller>>, HttpProblem> {
        let hash = token.hash();
        let (remembered, round) = {
            let known = self.known();
            (known.callers.get(&hash).cloned(), known.round)
        };
        if let Some((caller, until)) = remembered
            && now < until
        {
            return Ok(Some(caller));
        }
        let found = match token {
            Credential::Key(token) => app.authenticate(token).await?,
            Credential::Login(token) => app.authenticate_login(token).await?,
        };
        match found {
            Some(caller) => {
                let caller = Arc::new(caller);
                self.remember(hash, Arc::clone(&caller), now + CALLER_CACHE_TTL, round);
                Ok(Some(caller))
            }
            None => {
                self.known().callers.remove(&hash);
                match token {
                    Credential::Key(_) => Err(self.wrong_key_from(client, now)),
                    // Browsers also send expired cookies, even with a login request.
                    Credential::Login(_) => Ok(None),
                }
            }
        }
    }

    fn wrong_key_from(&self, client: ClientAddress, now: Instant) -> HttpProblem {
        match self.wrong.count(&network(client.0), now) {
            Ok(()) => wrong_key(),
            Err(wait) => too_many(wait).hint("too many wrong keys came from this address"),
        }
    }

    /// Invalidates the login of that token only: clients can send arbitrary cookies.
    pub(crate) fn invalidate_login(&self, token: &str) {
        let hash = Credential::Login(token).hash();
        self.forget(|known, _| *known == hash);
    }

    /// Invalidates a key and its logins.
    pub(crate) fn invalidate_key(&self, key: Uuid) {
        self.forget(|_, caller| caller.key == Some(key));
    }

    fn forget(&self, is_over: impl Fn(&[u8; 32], &Caller) -> bool) {
        let mut known = self.known();
        known
            .callers
            .retain(|hash, (caller, _)| !is_over(hash, caller));
        known.round += 1;
    }

    fn remember(&self, hash: [u8; 32], caller: Arc<Caller>, until: Instant, round: u64) {
        let mut known = self.known();
        if known.round != round {
            return;
        }
        if known.callers.len() >= MAX_CACHED_CALLERS {
            let now = Instant::now();
            known.callers.retain(|_, (_, until)| *until > now);
        }
        if known.callers.len() >= MAX_CACHED_CALLERS {
            known.callers.clear();
        }
        known.callers.insert(hash, (caller, until));
    }

    fn known(&self) -> MutexGuard<'_, CallerCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address under which wrong keys are counted. IPv6 addresses are grouped by /64, since one
/// client can own a whole network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

pub(crate) fn wrong_key() -> HttpProblem {
    HttpProblem::new(
        ProblemKind::NoKey,
        "the key is not known, or has been revoked",
    )
}

pub(crate) fn no_key() -> HttpProblem {
    HttpProblem::new(ProblemKind::NoKey, "the request has no key")
        .hint("send it as `Authorization: Bearer KEY`, or log in")
}

pub(crate) fn too_many(wait: Duration) -> HttpProblem {
    HttpProblem::new(
        ProblemKind::TooMany,
        "too many requests came in too little time",
    )
    .retry_after(wait.as_secs_f64().ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tokens_are_found_where_they_may_be() {
        fn check(given: &[(&'static str, &str)], expect: Result<Option<Credential<'_>>, ()>) {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(*name, value.parse().unwrap());
            }
            let found = Credential::find(&headers).map_err(|_| ());
            assert_eq!(found, expect, "{given:?}");
        }
        check(&[], Ok(None));
        check(
            &[("authorization", "Bearer a")],
            Ok(Some(Credential::Key("a"))),
        );
        check(
            &[("authorization", "bearer  a ")],
            Ok(Some(Credential::Key("a"))),
        );
        check(&[("authorization", "Basic a")], Err(()));
        check(&[("authorization", "a")], Err(()));
        check(&[("x-api-key", "b")], Ok(Some(Credential::Key("b"))));
        check(
            &[("x-api-key", "b"), ("authorization", "Bearer a")],
            Ok(Some(Credential::Key("a"))),
        );
        check(
            &[("cookie", "other=1; hotcell=c")],
            Ok(Some(Credential::Login("c"))),
        );
        check(
            &[("cookie", "other=1"), ("cookie", "hotcell=c;x=y")],
            Ok(Some(Credential::Login("c"))),
        );
        check(&[("cookie", "nothotcell=c; hotcell=")], Ok(None));
        check(
            &[("cookie", "hotcell=c"), ("x-api-key", "b")],
            Ok(Some(Credential::Key("b"))),
        );
    }

    #[test]
    fn the_end_of_one_login_or_key_leaves_the_others_known() {
        let authenticator = Authenticator::new();
        let until = Instant::now() + Duration::from_secs(60);
        let key = Uuid::from_u128(1);
        let known = |authenticator: &Authenticator| authenticator.known().callers.len();
        let remember = |token: Credential<'_>, key: Uuid| {
            let round = authenticator.known().round;
            let caller = Caller {
                key: Some(key),
                ..Caller::local()
            };
            authenticator.remember(token.hash(), Arc::new(caller), until, round);
        };
        remember(Credential::Key("a"), key);
        remember(Credential::Login("b"), key);
        remember(Credential::Key("c"), Uuid::from_u128(2));
        authenticator.invalidate_login("made up");
        authenticator.invalidate_login("a");
        assert_eq!(known(&authenticator), 3);
        authenticator.invalidate_login("b");
        assert_eq!(known(&authenticator), 2);
        authenticator.invalidate_key(key);
        assert_eq!(known(&authenticator), 1);
        // A lookup that began before a login ended is not cached.
        let round = authenticator.known().round;
        authenticator.invalidate_login("d");
        let caller = Arc::new(Caller::local());
        authenticator.remember(Credential::Login("d").hash(), caller, until, round);
        assert_eq!(known(&authenticator), 1);
    }

    #[test]
    fn guesses_of_one_network_count_together() {
        let check = |one: &str, other: &str, expect: bool| {
            let [one, other] = [one, other].map(|text| network(text.parse().unwrap()));
            assert_eq!(one == other, expect, "{one} {other}");
        };
        check("2001:db8::1", "2001:db8::ffff:1", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("192.0.2.1", "192.0.2.2", false);
    }

    #[test]
    fn a_key_and_a_login_are_not_the_same() {
        assert_ne!(Credential::Key("a").hash(), Credential::Login("a").hash());
    }
}
