//! A job that is requested twice is scheduled once.

use futures_util::future::join_all;
use protocol::job::Job;
use store::StoreError;
use store::jobs::{IdempotencyKey, ScheduleResult};

use super::{JobState, JobsFixture, id, new};

fn key(key: &str, fingerprint: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey {
        key: key.into(),
        fingerprint: [fingerprint; 32],
    })
}

#[tokio::test]
async fn a_key_stands_for_one_request_of_one_user() {
    let world = JobsFixture::new().await;
    let check = async |owner: &str, number, key, expect| {
        let job = Job {
            owner: owner.into(),
            ..new(number)
        };
        let scheduled = world.jobs.schedule(job, key).await.unwrap();
        assert_eq!(scheduled, expect, "{owner} {number}");
        let is_there = world.jobs.job(id(number)).await.unwrap().is_some();
        assert_eq!(is_there, expect == ScheduleResult::New, "{owner} {number}");
    };
    check("one", 1, key("a", 1), ScheduleResult::New).await;
    check("one", 2, key("a", 1), ScheduleResult::Before(id(1))).await;
    check("one", 3, key("a", 2), ScheduleResult::KeyTaken(id(1))).await;
    check("one", 4, key("A", 1), ScheduleResult::New).await;
    check("one", 5, key("", 1), ScheduleResult::New).await;
    check("two", 6, key("a", 2), ScheduleResult::New).await;
    check("two", 7, key("a", 1), ScheduleResult::KeyTaken(id(6))).await;
    check("one", 8, None, ScheduleResult::New).await;
    check("one", 9, None, ScheduleResult::New).await;

    // A key is deleted with its job.
    let job = world.set_state(1, JobState::Complete).await;
    check("one", 2, key("a", 1), ScheduleResult::Before(id(1))).await;
    assert!(world.jobs.forget(id(1), job.revision).await.unwrap());
    check("one", 2, key("a", 3), ScheduleResult::New).await;
}

#[tokio::test]
async fn an_id_is_given_once() {
    let world = JobsFixture::new().await;
    let job = world.schedule(1).await;
    for key in [None, key("a", 1)] {
        let other = Job {
            owner: "else".into(),
            ..new(1)
        };
        let error = world.jobs.schedule(other, key).await.unwrap_err();
        assert!(matches!(error, StoreError::JobExists(_)), "{error:?}");
    }
    assert_eq!(world.job(1).await, job);
    // The failed attempt did not use up the key.
    let other = Job {
        owner: "else".into(),
        ..new(2)
    };
    let scheduled = world.jobs.schedule(other, key("a", 2)).await.unwrap();
    assert_eq!(scheduled, ScheduleResult::New);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_use_a_key_at_once_one_is_first() {
    let world = JobsFixture::new().await;
    let others = [world.again().await, world.again().await];
    for round in 0..20_u128 {
        let name = format!("key {round}");
        let tasks = (0..40_u128).map(|number| {
            // Also through other connections.
            let jobs = match number % 4 {
                0 => others[0].clone(),
                1 => others[1].clone(),
                _ => world.jobs.clone(),
            };
            let key = key(&name, (number % 2) as u8);
            let number = round * 100 + number;
            tokio::spawn(async move {
                let scheduled = jobs.schedule(new(number), key).await.unwrap();
                (number, scheduled)
            })
        });
        let outcomes: Vec<_> = join_all(tasks)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let is_new = |(_, scheduled): &&(u128, ScheduleResult)| *scheduled == ScheduleResult::New;
        let winners: Vec<u128> = outcomes
            .iter()
            .filter(is_new)
            .map(|(number, _)| *number)
            .collect();
        let [winner] = winners[..] else {
            panic!("{outcomes:?}")
        };
        for (number, scheduled) in outcomes {
            let expect = match number {
                _ if number == winner => ScheduleResult::New,
                _ if number % 2 == winner % 2 => ScheduleResult::Before(id(winner)),
                _ => ScheduleResult::KeyTaken(id(winner)),
            };
            assert_eq!(scheduled, expect, "{number}");
        }
    }
    assert_eq!(world.number("SELECT count(*) FROM jobs").await, 20);
}
