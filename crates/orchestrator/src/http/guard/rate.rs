//! Rate limits: an average number of requests per second, with bursts.
//!
//! Stores one timestamp per client, and removes it when it no longer matters.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of clients above which expired entries are removed.
const PRUNE_THRESHOLD: usize = 10_000;

/// A rate limit per client.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    /// Time that one request costs.
    step: Duration,
    /// How far a client may be ahead of its average rate.
    burst: Duration,
    /// The time when a client's past requests are paid off.
    paid: Mutex<HashMap<K, Instant>>,
}

impl<K: Hash + Eq> RateLimiter<K> {
    /// `None` for a rate of 0, which is no limit.
    pub(crate) fn new(rate: u32, burst: u32) -> Option<Self> {
        let step = Duration::from_secs(1).checked_div(rate)?;
        Some(Self {
            step,
            burst: step.saturating_mul(burst.max(1)),
            paid: Mutex::new(HashMap::new()),
        })
    }

    /// Counts a request, or returns how long to wait before it would be accepted.
    pub(crate) fn count<Q>(&self, asker: &Q, now: Instant) -> Result<(), Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = paid.get_mut(asker) {
            let next = (*until).max(now) + self.step;
            let ahead = next.saturating_duration_since(now);
            if ahead > self.burst {
                return Err(ahead - self.burst);
            }
            *until = next;
            return Ok(());
        }
        if paid.len() >= PRUNE_THRESHOLD {
            paid.retain(|_, until| *until > now);
        }
        paid.insert(asker.to_owned(), now + self.step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_burst_then_the_average() {
        let rates: RateLimiter<String> = RateLimiter::new(10, 20).unwrap();
        let begin = Instant::now();
        for _ in 0..20 {
            rates.count("one", begin).unwrap();
        }
        let wait = rates.count("one", begin).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        rates.count("another", begin).unwrap();

        let later = begin + wait;
        rates.count("one", later).unwrap();
        rates.count("one", later).unwrap_err();
        let much_later = later + Duration::from_secs(60);
        for _ in 0..20 {
            rates.count("one", much_later).unwrap();
        }
        rates.count("one", much_later).unwrap_err();
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert!(RateLimiter::<String>::new(0, 10).is_none());
    }

    #[test]
    fn idle_clients_are_removed_from_the_limiter() {
        let rates: RateLimiter<String> = RateLimiter::new(1, 1).unwrap();
        let begin = Instant::now();
        for number in 0..PRUNE_THRESHOLD {
            rates.count(&number.to_string(), begin).unwrap();
        }
        rates.count("late", begin + Duration::from_secs(2)).unwrap();
        assert_eq!(rates.paid.lock().unwrap().len(), 1);
    }
}
