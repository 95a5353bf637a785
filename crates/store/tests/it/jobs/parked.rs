//! Jobs that wait until a time, with a clock that may be set.

use std::time::Duration;

use jiff::Timestamp;
use protocol::job::{Cause, Job, JobRequest, Parked};
use store::jobs::{ChangeExtras, ClaimFilter, ScheduleResult};

use super::{JobState, JobsFixture, new, saved, time};

const DAY: Duration = Duration::from_secs(86_400);

fn claim_filter_at(now: i64) -> ClaimFilter {
    ClaimFilter {
        now: time(now),
        blocked: Vec::new(),
        longest_parked: DAY,
    }
}

fn parked(since: i64, not_before: i64) -> Option<Parked> {
    Some(Parked {
        cause: Cause::Provider,
        reason: "status 529".to_owned(),
        since: time(since),
        not_before: time(not_before),
        failures: 1,
        waited_millis: 0,
    })
}

impl JobsFixture {
    async fn park(&self, number: u128, since: i64, not_before: i64) -> Job {
        let mut job = self.job(number).await;
        job.state = JobState::Queued;
        job.parked = parked(since, not_before);
        saved(
            self.jobs
                .change(job, ChangeExtras::default())
                .await
                .unwrap(),
        )
    }

    async fn next(&self, claimable: &ClaimFilter) -> Option<u128> {
        let job = self.jobs.next_queued("somebody", claimable).await.unwrap();
        job.map(|job| job.id.0.as_u128())
    }
}

#[tokio::test]
async fn a_parked_job_is_passed_over_until_it_is_due() {
    let world = JobsFixture::new().await;
    for number in [1, 2] {
        world.schedule(number).await;
    }
    let job = world.park(1, 100, 200).await;
    assert_eq!(job.parked, parked(100, 200));
    // Also after the store is opened again.
    let jobs = world.again().await;
    assert_eq!(jobs.job(job.id).await.unwrap(), Some(job));
    assert_eq!(world.next(&claim_filter_at(150)).await, Some(2));
    world.set_state(2, JobState::Running).await;
    assert_eq!(world.next(&claim_filter_at(150)).await, None);
    assert_eq!(
        jobs.next_unparked(time(150)).await.unwrap(),
        Some(time(200))
    );
    assert_eq!(jobs.parked().await.unwrap(), 1);
    assert_eq!(world.next(&claim_filter_at(200)).await, Some(1));
    assert_eq!(jobs.next_unparked(time(200)).await.unwrap(), None);
    // The clock was set to before the job was parked, so the remaining time is unknown.
    assert_eq!(world.next(&claim_filter_at(99)).await, Some(1));

    // A job that is tried again is not parked any more, but keeps the record of its failures.
    let job = world.set_state(1, JobState::Running).await;
    assert_eq!(job.parked, parked(100, 200));
    assert_eq!(jobs.parked().await.unwrap(), 0);
}

#[tokio::test]
async fn models_that_are_blocked_are_passed_over() {
    let world = JobsFixture::new().await;
    for (number, model) in [(1, Some("a")), (2, None), (3, Some("b"))] {
        let request = JobRequest {
            model: model.map(str::to_owned),
            ..new(number).request
        };
        let job = Job {
            request,
            ..new(number)
        };
        let scheduled = world.jobs.schedule(job, None).await.unwrap();
        assert_eq!(scheduled, ScheduleResult::New);
    }
    let mut models = world.jobs.queued_models("somebody").await.unwrap();
    models.sort();
    assert_eq!(models, [None, Some("a".to_owned()), Some("b".to_owned())]);
    let blocked = |models: &[Option<&str>]| ClaimFilter {
        blocked: models
            .iter()
            .map(|model| model.map(str::to_owned))
            .collect(),
        ..claim_filter_at(0)
    };
    assert_eq!(world.next(&blocked(&[])).await, Some(1));
    assert_eq!(world.next(&blocked(&[Some("a")])).await, Some(2));
    assert_eq!(world.next(&blocked(&[Some("a"), None])).await, Some(3));
    let all = blocked(&[Some("a"), None, Some("b")]);
    assert_eq!(world.next(&all).await, None);

    // A job that was parked for too long gets its last try.
    let now = Timestamp::UNIX_EPOCH.as_second();
    world.park(3, now, now + 1_000).await;
    assert_eq!(world.next(&all).await, None);
    world.jobs.add_parked_time(DAY).await.unwrap();
    assert_eq!(world.next(&all).await, Some(3));
    let waited = world.job(3).await.parked.unwrap().waited_millis;
    assert_eq!(u128::from(waited), DAY.as_millis());
}
