//! The order of queued jobs, the load of each user, and ended jobs.

use futures_util::future::join_all;
use protocol::job::{Artifact, Cause, Job};
use store::jobs::{ChangeExtras, OwnerLoad};

use super::{JobState, JobsFixture, failed, id, new, numbers, saved, time};

impl JobsFixture {
    /// Claims the next job until there is none.
    async fn drain(&self, owner: &str) -> Vec<u128> {
        let mut order = Vec::new();
        while let Some(job) = self.jobs.oldest_queued(owner).await.unwrap() {
            let number = job.id.0.as_u128();
            self.set_state(number, JobState::Running).await;
            order.push(number);
        }
        order
    }
}

#[tokio::test]
async fn jobs_are_taken_in_the_order_in_which_they_were_queued() {
    let world = JobsFixture::new().await;
    // Ids and times depend on clocks, which may be set back.
    for number in [5, 3, 9] {
        world.schedule(number).await;
    }
    world.schedule_for("else", 1).await;
    assert_eq!(world.drain("somebody").await, [5, 3, 9]);
    assert_eq!(world.drain("else").await, [1]);
    assert_eq!(world.drain("nobody").await, [0; 0]);

    // Jobs that are put back keep their places, before a job that was scheduled meanwhile.
    world.schedule(4).await;
    for number in [9, 5] {
        world.set_state(number, JobState::Queued).await;
    }
    assert_eq!(world.drain("somebody").await, [5, 9, 4]);

    // A job that ended and is queued again goes to the end.
    world.set_state(5, JobState::Complete).await;
    world.set_state(3, failed(Cause::Agent)).await;
    for number in [4, 9] {
        world.set_state(number, JobState::Queued).await;
    }
    world.set_state(5, JobState::Queued).await;
    world.schedule(2).await;
    world.set_state(3, JobState::Queued).await;
    let place = world.job(5).await;
    world
        .jobs
        .change(place, ChangeExtras::default())
        .await
        .unwrap();
    assert_eq!(world.drain("somebody").await, [9, 4, 5, 2, 3]);

    // When all jobs have ended, places start from the beginning.
    for number in [9, 4, 5, 2, 3] {
        world.set_state(number, JobState::Complete).await;
    }
    world.schedule(7).await;
    world.set_state(9, JobState::Queued).await;
    assert_eq!(world.drain("somebody").await, [7, 9]);
}

#[tokio::test]
async fn of_jobs_that_come_at_once_the_older_is_first() {
    let world = JobsFixture::new().await;
    world.schedule(500).await;
    join_all(
        (1..=150)
            .rev()
            .map(|number| world.jobs.schedule(new(number), None)),
    )
    .await;
    let order = world.drain("somebody").await;
    assert_eq!(order[0], 500);
    let (first, rest) = order[1..].split_at(64);
    let (second, third) = rest.split_at(64);
    // Jobs that are inserted by one statement have the same place.
    for part in [first, second, third] {
        assert!(part.is_sorted(), "{part:?}");
    }
    assert_eq!(order.len(), 151);
}

#[tokio::test]
async fn a_load_counts_what_has_not_ended() {
    let world = JobsFixture::new().await;
    for number in 1..=5 {
        world.schedule_for("one", number).await;
    }
    for number in 6..=8 {
        world.schedule_for("two", number).await;
    }
    world.schedule_for("three", 9).await;
    world.set_state(1, JobState::Running).await;
    world.set_state(2, JobState::Waiting).await;
    world.set_state(3, JobState::Complete).await;
    world.set_state(9, failed(Cause::Agent)).await;
    let mut loads = world.jobs.loads().await.unwrap();
    loads.sort_by(|one, other| one.owner.cmp(&other.owner));
    let load = |owner: &str, queued, running| OwnerLoad {
        owner: owner.into(),
        queued,
        running,
    };
    assert_eq!(loads, [load("one", 2, 2), load("two", 3, 0)]);
    assert_eq!(numbers(&world.jobs.claimed().await.unwrap()), [1, 2]);
}

#[tokio::test]
async fn the_longest_ended_are_the_first_to_go() {
    let world = JobsFixture::new().await;
    let artifact = |bytes| Artifact {
        bytes,
        files: 1,
        sha256: String::new(),
        left_out: vec![],
    };
    for (number, ended) in [(1, 30), (2, 10), (3, 20), (4, 20), (5, 5)] {
        let job = world.schedule(number).await;
        let ended = Job {
            state: JobState::Complete,
            ended: Some(time(ended)),
            artifact: Some(artifact(1 << number)),
            ..job
        };
        saved(
            world
                .jobs
                .change(ended, ChangeExtras::default())
                .await
                .unwrap(),
        );
    }
    world.schedule(6).await;
    // A job that is queued again has not ended, and keeps its artifact until there is a new one.
    let woken = Job {
        state: JobState::Queued,
        ended: None,
        ..world.job(5).await
    };
    saved(
        world
            .jobs
            .change(woken, ChangeExtras::default())
            .await
            .unwrap(),
    );
    let ended = async |limit| numbers(&world.jobs.longest_ended(limit).await.unwrap());
    assert_eq!(ended(10).await, [2, 3, 4, 1]);
    assert_eq!(ended(2).await, [2, 3]);
    assert_eq!(
        world.jobs.artifact_bytes().await.unwrap(),
        2 + 4 + 8 + 16 + 32
    );
    assert!(world.jobs.forget(id(4), 1).await.unwrap());
    assert_eq!(world.jobs.artifact_bytes().await.unwrap(), 2 + 4 + 8 + 32);
    assert_eq!(ended(10).await, [2, 3, 1]);
}
