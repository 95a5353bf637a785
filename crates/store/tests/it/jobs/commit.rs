//! Writes that are committed together, each with its own outcome.

use futures_util::future::{join, join_all, join3};
use store::StoreError;
use store::jobs::{
    ChangeExtras, ChangeResult, Heartbeat, IdempotencyKey, JobQuery, ScheduleResult,
};

use super::{JobState, JobsFixture, id, new, saved};

/// The number of commits in the WAL. The frame header of a commit's last page has the size of the database,
/// that of other pages has 0.
fn commit_count(world: &JobsFixture) -> usize {
    let log = std::fs::read(world.folder.join("jobs.db-wal")).unwrap();
    let frames = log.get(32..).unwrap_or_default().chunks_exact(24 + 4096);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn who_comes_at_the_same_time_waits_for_the_disk_once() {
    let world = JobsFixture::new().await;
    world.schedule(1000).await;
    let before = commit_count(&world);
    // As there is only one thread, all of them are queued before the first is processed.
    let outcomes = join_all((1..=200).map(|number| world.jobs.schedule(new(number), None))).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Ok(ScheduleResult::New)))
    );
    assert_eq!(commit_count(&world), before + 1);
    for number in 201..=210 {
        world.schedule(number).await;
    }
    assert_eq!(commit_count(&world), before + 11, "and one at a time");
    assert_eq!(
        world.jobs.list(&JobQuery::default()).await.unwrap().len(),
        211
    );
}

#[tokio::test]
async fn what_is_refused_to_one_is_not_refused_to_others() {
    let world = JobsFixture::new().await;
    let old = world.schedule(1).await;
    let current = world.set_state(1, JobState::Running).await;
    world.schedule(2).await;
    let ended = world.set_state(2, JobState::Complete).await;
    let key = |fingerprint| {
        Some(IdempotencyKey {
            key: "k".into(),
            fingerprint: [fingerprint; 32],
        })
    };
    let before = commit_count(&world);
    let jobs = &world.jobs;

    let schedules = join_all([
        jobs.schedule(new(10), None),
        jobs.schedule(new(10), None),
        jobs.schedule(new(11), key(1)),
        jobs.schedule(new(12), key(1)),
        jobs.schedule(new(13), key(2)),
        jobs.schedule(new(1), None),
        jobs.schedule(new(14), None),
    ]);
    let uncounted = ChangeExtras {
        message: Some("not counted".into()),
        delivery: Some("lost".into()),
    };
    let changes = join3(
        jobs.change(old.clone(), ChangeExtras::default()),
        jobs.change(current.clone(), uncounted),
        jobs.change(current.clone(), ChangeExtras::default()),
    );
    let rest = join3(
        jobs.forget(id(1), current.revision),
        jobs.forget(id(2), ended.revision),
        jobs.beat(vec![Heartbeat {
            job: id(77),
            epoch: 1,
            ran_millis: 5,
        }]),
    );
    let (schedules, (changes, rest)) = join(schedules, join(changes, rest)).await;
    assert_eq!(commit_count(&world), before + 1);

    use ScheduleResult::{Before, KeyTaken, New};
    let [ten, again, eleven, twelve, thirteen, one, fourteen] =
        <[_; 7]>::try_from(schedules).unwrap();
    assert_eq!(ten.unwrap(), New);
    assert!(matches!(again, Err(StoreError::JobExists(_))), "{again:?}");
    assert_eq!(eleven.unwrap(), New);
    assert_eq!(twelve.unwrap(), Before(id(11)));
    assert_eq!(thirteen.unwrap(), KeyTaken(id(11)));
    assert!(matches!(one, Err(StoreError::JobExists(_))), "{one:?}");
    assert_eq!(fourteen.unwrap(), New);
    let (stale, uncounted, good) = changes;
    assert_eq!(stale.unwrap(), ChangeResult::Stale);
    assert!(
        matches!(uncounted, Err(StoreError::MessageCount(_))),
        "{uncounted:?}"
    );
    assert_eq!(saved(good.unwrap()).revision, current.revision + 1);
    let (running, ended, beat) = rest;
    assert!(!running.unwrap(), "it has not ended");
    assert!(ended.unwrap());
    beat.unwrap();

    let list = jobs.list(&JobQuery::default()).await.unwrap();
    assert_eq!(super::numbers(&list), [14, 11, 10, 1]);
    assert_eq!(world.number("SELECT count(*) FROM messages").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM deliveries").await, 0);
}

#[tokio::test]
async fn who_no_longer_waits_is_served_all_the_same() {
    let world = JobsFixture::new().await;
    for number in (1..100).step_by(2) {
        tokio::select! {
            biased;
            _ = world.jobs.schedule(new(number), None) => panic!("nobody was served yet"),
            () = async {} => {}
        }
        tokio::select! {
            biased;
            _ = world.jobs.job(id(number)) => panic!("nobody was served yet"),
            () = async {} => {}
        }
        // Later requests are not processed earlier.
        world.schedule(number + 1).await;
        assert_eq!(world.job(number).await, new(number));
    }
}

#[test]
fn a_runtime_that_ends_half_way_leaves_nothing_half_done() {
    let parent = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let jobs = runtime()
        .block_on(store::JobStore::open(parent.path()))
        .unwrap();
    let mut count = 0;
    for round in 0..30_u64 {
        let brief = runtime();
        for number in 0..100 {
            let jobs = jobs.clone();
            let number = u128::from(round) * 1000 + number;
            brief.spawn(async move { jobs.schedule(new(number), None).await });
        }
        // How far they get meanwhile is random.
        brief.block_on(async {
            for _ in 0..round {
                jobs.job(id(1)).await.unwrap();
            }
        });
        drop(brief);
        runtime().block_on(async {
            let scheduled = jobs.schedule(new(1 << 40 | u128::from(round)), None).await;
            assert_eq!(scheduled.unwrap(), ScheduleResult::New);
            let all = jobs.list(&JobQuery::default()).await.unwrap();
            assert!(all.len() > count);
            count = all.len();
            for job in all {
                assert_eq!(jobs.job(job.id).await.unwrap(), Some(job));
            }
        });
    }
}
