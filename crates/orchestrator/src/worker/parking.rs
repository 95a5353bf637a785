//! Computes how long a job is parked after a transient failure. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::job::{Cause, Parked};

use crate::config::OutagePolicy;

/// Maximum wait that a provider may request.
const MAX_REQUESTED_WAIT: Duration = Duration::from_secs(3600);

/// A transient failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransientFailure {
    pub(crate) cause: Cause,
    pub(crate) reason: String,
    /// Minimum wait, if the provider requested one.
    pub(crate) requested_wait: Option<Duration>,
}

impl TransientFailure {
    /// A resource of the server is exhausted.
    pub(crate) fn starved(what: &str, message: &str) -> Self {
        Self {
            cause: Cause::Server,
            reason: format!("the server is short of {what}: {message}"),
            requested_wait: None,
        }
    }
}

/// The parking record of a job; `None` if it was parked for too long already.
///
/// `before` is the record of the previous consecutive failure. `random` is between 0 and 1: waits
/// are spread over the upper half of their range, so that jobs that failed together do not resume
/// together.
pub(crate) fn park(
    failure: &TransientFailure,
    before: Option<&Parked>,
    settings: &OutagePolicy,
    now: Timestamp,
    random: f64,
) -> Option<Parked> {
    let failures = before.map_or(0, |parked| parked.failures).saturating_add(1);
    let waited_millis = before.map_or(0, |parked| parked.waited_millis);
    if Duration::from_millis(waited_millis) >= settings.longest_parked {
        return None;
    }
    let doubled = 2_u32.saturating_pow(failures - 1);
    let full = settings.first_wait.saturating_mul(doubled);
    let full = full.min(settings.longest_wait);
    let own = full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0);
    let asked = failure
        .requested_wait
        .unwrap_or_default()
        .min(MAX_REQUESTED_WAIT);
    let wait = SignedDuration::try_from(own.max(asked)).unwrap_or(SignedDuration::MAX);
    Some(Parked {
        cause: failure.cause,
        reason: failure.reason.clone(),
        since: now,
        not_before: now.checked_add(wait).unwrap_or(Timestamp::MAX),
        failures,
        waited_millis,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SETTINGS: OutagePolicy = OutagePolicy {
        first_wait: Duration::from_secs(5),
        longest_wait: Duration::from_secs(300),
        longest_parked: Duration::from_secs(86_400),
        failures_to_open: 3,
    };

    fn failure(asked: Option<u64>) -> TransientFailure {
        TransientFailure {
            cause: Cause::Provider,
            reason: "status 529".to_owned(),
            requested_wait: asked.map(Duration::from_secs),
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let now = Timestamp::UNIX_EPOCH;
        for (random, expect) in [
            (1.0, [5, 10, 20, 40, 80, 160, 300, 300]),
            (0.0, [2, 5, 10, 20, 40, 80, 150, 150]),
        ] {
            let mut before = None;
            let waits = [(); 8].map(|()| {
                let parked = park(&failure(None), before.as_ref(), &SETTINGS, now, random).unwrap();
                let wait = (parked.not_before - parked.since).get_seconds();
                before = Some(parked);
                wait
            });
            assert_eq!(waits, expect);
            assert_eq!(before.unwrap().failures, 8);
        }
    }

    #[test]
    fn a_requested_wait_is_limited() {
        for (asked, expect) in [(1, 5), (77, 77), (1_000_000, 3600)] {
            let parked = park(
                &failure(Some(asked)),
                None,
                &SETTINGS,
                Timestamp::UNIX_EPOCH,
                1.0,
            );
            assert_eq!(parked.unwrap().not_before.as_second(), expect);
        }
    }

    #[test]
    fn a_job_is_not_parked_forever() {
        let now = Timestamp::UNIX_EPOCH;
        let mut parked = park(&failure(None), None, &SETTINGS, now, 1.0).unwrap();
        parked.waited_millis = 86_399_999;
        assert!(park(&failure(None), Some(&parked), &SETTINGS, now, 1.0).is_some());
        parked.waited_millis += 1;
        assert!(park(&failure(None), Some(&parked), &SETTINGS, now, 1.0).is_none());
    }
}
