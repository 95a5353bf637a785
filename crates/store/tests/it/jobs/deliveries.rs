//! Deliveries to webhooks, and sending them again.

use jiff::Timestamp;
use store::jobs::{
    ChangeExtras, DeliveryAttempt, DeliveryOutcome, DeliveryState, DueDelivery, Redelivery,
};

use super::{JobState, JobsFixture, id, saved, time};

#[tokio::test]
async fn a_delivery_is_due_until_it_is_done_with() {
    let world = JobsFixture::new().await;
    for number in 1..=3 {
        let mut job = world.schedule(number).await;
        job.state = JobState::Complete;
        let along = ChangeExtras {
            message: None,
            delivery: (number != 2).then(|| format!("{{\"job\": {number}}}")),
        };
        saved(world.jobs.change(job, along).await.unwrap());
    }
    let now = Timestamp::now();
    let due =
        async |now, limit| -> Vec<DueDelivery> { world.jobs.due(now, 100, limit).await.unwrap() };
    let all = due(now, 10).await;
    let seen: Vec<_> = all.iter().map(|one| (one.job, one.tries)).collect();
    assert_eq!(seen, [(id(1), 0), (id(3), 0)]);
    let first = world.jobs.delivery(all[0].number).await.unwrap().unwrap();
    assert_eq!(first.body, "{\"job\": 1}");
    assert_eq!(due(now, 1).await, all[..1]);
    assert_eq!(due(now, 0).await, []);
    assert_eq!(due(time(-1_000_000_000), 10).await, []);

    let later = now + jiff::SignedDuration::from_secs(60);
    let again = DeliveryAttempt::Again {
        at: later,
        error: "it answers 500".to_owned(),
    };
    world.jobs.tried(all[0].number, again, now).await.unwrap();
    assert_eq!(due(now, 10).await, all[1..]);
    let again = DueDelivery {
        tries: 1,
        ..all[0].clone()
    };
    assert_eq!(due(later, 10).await, [all[1].clone(), again.clone()]);
    for _ in 0..2 {
        let delivered = world
            .jobs
            .tried(all[1].number, DeliveryAttempt::Delivered, now);
        delivered.await.unwrap();
    }
    let restarted = world.again().await;
    assert_eq!(restarted.due(later, 100, 10).await.unwrap(), [again]);

    // The deliveries of a deleted job are deleted too.
    let revision = world.job(1).await.revision;
    assert!(world.jobs.forget(id(1), revision).await.unwrap());
    assert_eq!(due(later, 10).await, []);
    // A number is never used again: a late result of the old delivery would end the new one.
    world.schedule(4).await;
    let job = world.set_state(4, JobState::Complete).await;
    let along = ChangeExtras {
        message: None,
        delivery: Some("new".into()),
    };
    saved(world.jobs.change(job, along).await.unwrap());
    assert!(due(Timestamp::now(), 10).await[0].number > all[1].number);
}

#[tokio::test]
async fn a_job_says_what_became_of_its_delivery_and_sends_it_again() {
    let world = JobsFixture::new().await;
    let mut job = world.schedule(1).await;
    assert_eq!(world.jobs.last_delivery(id(1)).await.unwrap(), None);
    job.state = JobState::Complete;
    let along = ChangeExtras {
        message: None,
        delivery: Some("body".into()),
    };
    saved(world.jobs.change(job, along).await.unwrap());
    let now = Timestamp::now();
    let number = world.jobs.due(now, 1, 1).await.unwrap()[0].number;
    let state = async || world.jobs.last_delivery(id(1)).await.unwrap().unwrap();
    let redeliver = async |job| {
        let redelivered = world.jobs.redeliver(job, "other".to_owned(), now);
        redelivered.await.unwrap()
    };
    assert!(matches!(state().await.outcome, DeliveryOutcome::Pending { due } if due <= now));
    assert_eq!(redeliver(id(1)).await, Redelivery::UnderWay);

    let later = now + jiff::SignedDuration::from_secs(60);
    let error = "it answers 500".to_owned();
    let again = DeliveryAttempt::Again {
        at: later,
        error: error.clone(),
    };
    world.jobs.tried(number, again, now).await.unwrap();
    let pending = DeliveryState {
        outcome: DeliveryOutcome::Pending { due: later },
        tries: 1,
        last_try: Some(now),
        last_error: Some(error.clone()),
    };
    assert_eq!(state().await, pending);
    // It is due at once, not at the time of the next attempt.
    assert_eq!(redeliver(id(1)).await, Redelivery::Due);
    assert_eq!(world.jobs.due(now, 1, 1).await.unwrap()[0].number, number);

    let failed = DeliveryAttempt::Failed { error };
    world.jobs.tried(number, failed, now).await.unwrap();
    assert_eq!(state().await.outcome, DeliveryOutcome::Failed);
    assert_eq!(world.jobs.due(Timestamp::MAX, 1, 1).await.unwrap(), []);
    assert_eq!(redeliver(id(1)).await, Redelivery::Due);
    let sent = world.jobs.delivery(number).await.unwrap().unwrap();
    assert_eq!((sent.body.as_str(), sent.tries), ("body", 0));
    world
        .jobs
        .tried(number, DeliveryAttempt::Delivered, now)
        .await
        .unwrap();
    let delivered = state().await;
    assert_eq!(delivered.outcome, DeliveryOutcome::Delivered);
    assert_eq!(delivered.last_error, None);

    // A job that ended before deliveries were stored, and a job that does not exist.
    world.schedule(2).await;
    assert_eq!(redeliver(id(2)).await, Redelivery::Due);
    assert_eq!(redeliver(id(3)).await, Redelivery::NoJob);
    let due = world.jobs.due(now, 1, 1).await.unwrap();
    let sent = world.jobs.delivery(due[0].number).await.unwrap().unwrap();
    assert_eq!((sent.job, sent.body.as_str()), (id(2), "other"));
}
