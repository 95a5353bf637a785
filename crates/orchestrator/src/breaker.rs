//! One circuit breaker for each model provider: while a provider fails, its jobs are not claimed.
//!
//! Closed: jobs are claimed. Open: no job is claimed until a deadline. Half-open: one job is
//! claimed as a probe, and its first response decides. Any response of the provider closes the
//! breaker, even a refusal. Entry type: [`Breakers`].

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::job::JobId;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::config::OutagePolicy;

#[derive(Debug)]
pub(crate) struct Breakers {
    settings: OutagePolicy,
    states: Mutex<BTreeMap<String, BreakerState>>,
}

#[derive(Debug)]
enum BreakerState {
    /// Jobs whose requests failed since the last response. Failures of one job count once: the
    /// provider may fail because of that job's request.
    Closed {
        failed: HashSet<JobId>,
    },
    Open {
        until: Instant,
        wait: Duration,
    },
    HalfOpen {
        probe: JobId,
        /// Number of the claim, since a requeued job may be claimed again before its first worker is gone.
        epoch: u32,
        wait: Duration,
    },
}

/// A provider whose jobs wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) provider: String,
    /// Time until the next probe; zero while one is running.
    pub(crate) wait: Duration,
}

impl Breakers {
    pub(crate) fn new(settings: OutagePolicy) -> Self {
        Self {
            settings,
            states: Mutex::default(),
        }
    }

    /// Providers whose breaker is not closed.
    pub(crate) fn outages(&self) -> Vec<Outage> {
        let now = Instant::now();
        let states = self.states();
        let outages = states.iter().filter_map(|(provider, state)| {
            let wait = match state {
                BreakerState::Closed { .. } => return None,
                BreakerState::Open { until, .. } => until.saturating_duration_since(now),
                BreakerState::HalfOpen { .. } => Duration::ZERO,
            };
            Some(Outage {
                provider: provider.clone(),
                wait,
            })
        });
        outages.collect()
    }

    /// Every provider that was used, and whether its breaker is closed.
    pub(crate) fn providers(&self) -> Vec<(String, bool)> {
        let states = self.states();
        let is_closed = |state: &BreakerState| matches!(state, BreakerState::Closed { .. });
        let all = states
            .iter()
            .map(|(name, state)| (name.clone(), is_closed(state)));
        all.collect()
    }

    pub(crate) fn has_outage(&self) -> bool {
        let states = self.states();
        states
            .values()
            .any(|state| !matches!(state, BreakerState::Closed { .. }))
    }

    /// Whether jobs of this provider must not be claimed now.
    pub(crate) fn is_blocked(&self, provider: &str) -> bool {
        match self.states().get(provider) {
            None | Some(BreakerState::Closed { .. }) => false,
            Some(BreakerState::Open { until, .. }) => *until > Instant::now(),
            Some(BreakerState::HalfOpen { .. }) => true,
        }
    }

    /// When the next breaker becomes half-open.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        let states = self.states();
        let moments = states.values().filter_map(|state| match state {
            BreakerState::Open { until, .. } => Some(*until),
            _ => None,
        });
        moments.min()
    }

    /// Records a claim. If the breaker is open, this job becomes the probe.
    pub(crate) fn claimed(&self, provider: &str, job: JobId, epoch: u32) {
        let mut states = self.states();
        if let Some(state) = states.get_mut(provider)
            && let BreakerState::Open { wait, .. } = *state
        {
            info!(provider, %job, "asking a failing provider again");
            *state = BreakerState::HalfOpen {
                probe: job,
                epoch,
                wait,
            };
        }
    }

    /// Records a response of the provider. True if that ended an outage.
    pub(crate) fn answered(&self, provider: &str) -> bool {
        let mut states = self.states();
        let closed = BreakerState::Closed {
            failed: HashSet::new(),
        };
        let before = states.insert(provider.to_owned(), closed);
        let has_ended = matches!(
            before,
            Some(BreakerState::Open { .. } | BreakerState::HalfOpen { .. })
        );
        if has_ended {
            info!(provider, "provider answers again");
        }
        has_ended
    }

    /// Records a transient failure of a job's request.
    pub(crate) fn failed(&self, provider: &str, job: JobId) {
        let mut states = self.states();
        let state = states
            .entry(provider.to_owned())
            .or_insert_with(|| BreakerState::Closed {
                failed: HashSet::new(),
            });
        let wait = match state {
            BreakerState::Closed { failed } => {
                failed.insert(job);
                if failed.len() < self.settings.failures_to_open {
                    return;
                }
                self.settings.first_wait
            }
            BreakerState::HalfOpen { probe, wait, .. } if *probe == job => {
                (*wait * 2).min(self.settings.longest_wait)
            }
            // The job was already running when the breaker opened.
            BreakerState::HalfOpen { .. } | BreakerState::Open { .. } => return,
        };
        warn!(provider, ?wait, "provider fails: its jobs wait");
        *state = BreakerState::Open {
            until: Instant::now() + wait,
            wait,
        };
    }

    /// Records that the worker of a job has exited. True if the job was an undecided probe: then a
    /// new probe is due.
    pub(crate) fn worker_exited(&self, job: JobId, epoch: u32) -> bool {
        let mut is_due = false;
        for state in self.states().values_mut() {
            if let BreakerState::HalfOpen {
                probe,
                epoch: claimed,
                wait,
            } = *state
                && (probe, claimed) == (job, epoch)
            {
                let until = Instant::now();
                *state = BreakerState::Open { until, wait };
                is_due = true;
            }
        }
        is_due
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, BreakerState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(number))
    }

    fn breakers() -> Breakers {
        Breakers::new(OutagePolicy {
            first_wait: Duration::from_secs(5),
            longest_wait: Duration::from_secs(12),
            failures_to_open: 2,
            ..OutagePolicy::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_breaker_opens_probes_and_closes() {
        let breakers = breakers();
        breakers.failed("a", job(1));
        breakers.failed("a", job(1));
        assert!(!breakers.is_blocked("a"), "one job's failures count once");
        breakers.answered("a");
        breakers.failed("a", job(2));
        assert!(!breakers.is_blocked("a"), "not in a row");
        breakers.failed("a", job(3));
        assert!(breakers.is_blocked("a"));
        assert!(!breakers.is_blocked("b"));
        let wait = Duration::from_secs(5);
        let outage = |wait| Outage {
            provider: "a".to_owned(),
            wait,
        };
        assert_eq!(breakers.outages(), [outage(wait)]);
        // A failure of a job that was already running.
        breakers.failed("a", job(4));
        assert_eq!(breakers.next_probe(), Some(Instant::now() + wait));

        for seconds in [5, 10, 12, 12] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert!(!breakers.is_blocked("a"), "a probe is due");
            breakers.claimed("a", job(5), 1);
            assert!(breakers.is_blocked("a"), "one at a time");
            assert_eq!(breakers.outages(), [outage(Duration::ZERO)]);
            breakers.failed("a", job(4));
            assert_eq!(breakers.next_probe(), None, "the probe alone decides");
            breakers.failed("a", job(5));
            assert!(!breakers.worker_exited(job(5), 1));
            assert!(breakers.is_blocked("a"));
        }
        tokio::time::advance(Duration::from_secs(12)).await;
        breakers.claimed("a", job(6), 2);
        assert!(
            !breakers.worker_exited(job(6), 1),
            "its earlier claim says nothing"
        );
        assert!(
            breakers.worker_exited(job(6), 2),
            "it was cancelled before it asked"
        );
        assert!(!breakers.is_blocked("a"));
        breakers.claimed("a", job(7), 1);
        assert!(breakers.answered("a"));
        assert!(!breakers.is_blocked("a"));
        assert!(!breakers.has_outage());
        assert_eq!(breakers.providers(), [("a".to_owned(), true)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_any_job_ends_the_outage() {
        let breakers = breakers();
        breakers.failed("a", job(1));
        breakers.failed("a", job(2));
        assert!(breakers.is_blocked("a"));
        assert!(breakers.answered("a"));
        assert!(!breakers.is_blocked("a"));
        assert!(!breakers.answered("a"), "there was none");
    }
}
