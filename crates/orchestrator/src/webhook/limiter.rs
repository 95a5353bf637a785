//! Limits concurrent deliveries, so that no owner and no endpoint delays the others.
//!
//! Each owner and each host has a limited number of concurrent requests. An endpoint whose request
//! timed out gets a shorter timeout from then on; after several in a row it is skipped for a while,
//! and its deliveries count as failed tries at once. This is tracked per owner, so other owners'
//! requests to the same host are not affected. Decides only.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum concurrent requests: in total, per owner, per host.
const MAX_CONCURRENT: usize = 64;
pub(super) const MAX_PER_OWNER: usize = 4;
const MAX_PER_HOST: usize = 8;

/// Timeout of a request; shorter if the last one was too slow.
pub(super) const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
const SHORT_DELIVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// A failure that took this long means that the endpoint does not respond.
const SLOW_FAILURE_TIME: Duration = Duration::from_secs(1);

/// Consecutive slow failures after which an endpoint is skipped, and for how long.
const MAX_SLOW_FAILURES: u32 = 3;
const SKIP_TIME: Duration = Duration::from_secs(30);

/// Number of endpoints above which recovered ones are removed.
const MAX_ENDPOINTS: usize = 10_000;

/// A host and port, per owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    owner: String,
    host: String,
}

impl Endpoint {
    pub(super) fn new(owner: &str, url: &str) -> Self {
        let url = reqwest::Url::parse(url).ok();
        let host = url.as_ref().and_then(|url| {
            let port = url.port_or_known_default().unwrap_or_default();
            url.host_str().map(|host| format!("{host}:{port}"))
        });
        Self {
            owner: owner.to_owned(),
            // An invalid URL fails when it is tried.
            host: host.unwrap_or_default(),
        }
    }
}

/// The decision on a due delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryDecision {
    /// Try it, with this timeout.
    Try(Duration),
    /// Not yet: the limit of its owner, its host or the total is reached.
    Wait,
    /// Its endpoint does not respond and is skipped.
    Skip,
}

#[derive(Debug, Default)]
pub(super) struct DeliveryLimiter {
    under_way: usize,
    by_owner: HashMap<String, usize>,
    by_host: HashMap<String, usize>,
    slow: HashMap<Endpoint, SlowFailures>,
}

#[derive(Debug, Clone, Copy)]
struct SlowFailures {
    count: u32,
    last: Instant,
}

impl DeliveryLimiter {
    /// Decides on a delivery; counts it as in progress if it is to be tried.
    pub(super) fn admit(&mut self, endpoint: &Endpoint, now: Instant) -> DeliveryDecision {
        let slow = self.slow.get(endpoint);
        if slow.is_some_and(|slow| {
            slow.count >= MAX_SLOW_FAILURES && now.duration_since(slow.last) < SKIP_TIME
        }) {
            return DeliveryDecision::Skip;
        }
        let owner = self.by_owner.get(&endpoint.owner).copied().unwrap_or(0);
        let host = self.by_host.get(&endpoint.host).copied().unwrap_or(0);
        // After being skipped, an endpoint gets a single request as a probe.
        let per_owner = match slow {
            Some(slow) if slow.count >= MAX_SLOW_FAILURES => 1,
            _ => MAX_PER_OWNER,
        };
        if self.under_way >= MAX_CONCURRENT || owner >= per_owner || host >= MAX_PER_HOST {
            return DeliveryDecision::Wait;
        }
        let timeout = if slow.is_some() {
            SHORT_DELIVERY_TIMEOUT
        } else {
            DELIVERY_TIMEOUT
        };
        self.under_way += 1;
        *self.by_owner.entry(endpoint.owner.clone()).or_default() += 1;
        *self.by_host.entry(endpoint.host.clone()).or_default() += 1;
        DeliveryDecision::Try(timeout)
    }

    /// Records the end of an admitted try.
    pub(super) fn ended(&mut self, endpoint: &Endpoint, failed: bool, took: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        decrement(&mut self.by_owner, &endpoint.owner);
        decrement(&mut self.by_host, &endpoint.host);
        if !failed || took < SLOW_FAILURE_TIME {
            self.slow.remove(endpoint);
            return;
        }
        let last = Instant::now();
        if self.slow.len() >= MAX_ENDPOINTS {
            self.slow
                .retain(|_, slow| last.duration_since(slow.last) < SKIP_TIME);
        }
        let first = SlowFailures { count: 0, last };
        let slow = self.slow.entry(endpoint.clone()).or_insert(first);
        slow.count += 1;
        slow.last = last;
    }
}

fn decrement(counts: &mut HashMap<String, usize>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(owner: &str, host: &str) -> Endpoint {
        Endpoint::new(owner, &format!("https://{host}/hook?token=x"))
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_and_a_host_have_their_share() {
        let mut limiter = DeliveryLimiter::default();
        let now = Instant::now();
        let one = at("ann", "one.example");
        for _ in 0..MAX_PER_OWNER {
            assert_eq!(
                limiter.admit(&one, now),
                DeliveryDecision::Try(DELIVERY_TIMEOUT)
            );
        }
        assert_eq!(limiter.admit(&one, now), DeliveryDecision::Wait);
        assert_eq!(
            limiter.admit(&at("ann", "two.example"), now),
            DeliveryDecision::Wait
        );
        // Other owners continue, up to the limit of the host.
        for _ in MAX_PER_OWNER..MAX_PER_HOST {
            let other = limiter.admit(&at("ben", "one.example"), now);
            assert_eq!(other, DeliveryDecision::Try(DELIVERY_TIMEOUT));
        }
        let full = limiter.admit(&at("cleo", "one.example"), now);
        assert_eq!(full, DeliveryDecision::Wait);
        let free = limiter.admit(&at("cleo", "two.example"), now);
        assert_eq!(free, DeliveryDecision::Try(DELIVERY_TIMEOUT));
        limiter.ended(&one, false, Duration::ZERO);
        assert_eq!(
            limiter.admit(&one, now),
            DeliveryDecision::Try(DELIVERY_TIMEOUT)
        );
        let other_port = limiter.admit(&at("cleo", "one.example:8443"), now);
        assert_eq!(other_port, DeliveryDecision::Try(DELIVERY_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_does_not_answer_gets_less_time_and_then_a_rest() {
        let mut limiter = DeliveryLimiter::default();
        let dead = at("ann", "dead.example");
        let mut timeouts = Vec::new();
        for _ in 0..MAX_SLOW_FAILURES {
            let DeliveryDecision::Try(timeout) = limiter.admit(&dead, Instant::now()) else {
                panic!("expected a try");
            };
            timeouts.push(timeout);
            limiter.ended(&dead, true, timeout);
        }
        assert_eq!(
            timeouts,
            [
                DELIVERY_TIMEOUT,
                SHORT_DELIVERY_TIMEOUT,
                SHORT_DELIVERY_TIMEOUT
            ]
        );
        assert_eq!(limiter.admit(&dead, Instant::now()), DeliveryDecision::Skip);
        // Other owners of the host are not affected, nor are other hosts of the owner.
        let other = limiter.admit(&at("ben", "dead.example"), Instant::now());
        assert_eq!(other, DeliveryDecision::Try(DELIVERY_TIMEOUT));
        // A single request probes the endpoint.
        tokio::time::advance(SKIP_TIME).await;
        let probe = limiter.admit(&dead, Instant::now());
        assert_eq!(probe, DeliveryDecision::Try(SHORT_DELIVERY_TIMEOUT));
        assert_eq!(limiter.admit(&dead, Instant::now()), DeliveryDecision::Wait);
        limiter.ended(&dead, true, SHORT_DELIVERY_TIMEOUT);
        assert_eq!(limiter.admit(&dead, Instant::now()), DeliveryDecision::Skip);
        tokio::time::advance(SKIP_TIME).await;
        assert_eq!(limiter.admit(&dead, Instant::now()), probe);
        limiter.ended(&dead, false, Duration::ZERO);
        assert_eq!(
            limiter.admit(&dead, Instant::now()),
            DeliveryDecision::Try(DELIVERY_TIMEOUT)
        );
        // A quick failure does not count as slow.
        limiter.ended(&dead, true, Duration::ZERO);
        assert_eq!(
            limiter.admit(&dead, Instant::now()),
            DeliveryDecision::Try(DELIVERY_TIMEOUT)
        );
    }
}
