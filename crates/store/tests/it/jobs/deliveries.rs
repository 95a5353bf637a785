//! What webhooks are told, and told again.

use jiff::Timestamp;
use store::jobs::{Along, Delivery};

use super::{State, World, id, saved, time};

#[tokio::test]
async fn a_delivery_is_due_until_it_is_done_with() {
    let world = World::new().await;
    for number in 1..=3 {
        let mut job = world.schedule(number).await;
        job.state = State::Complete;
        let along = Along {
            message: None,
            delivery: (number != 2).then(|| format!("{{\"job\": {number}}}")),
        };
        saved(world.jobs.change(job, along).await.unwrap());
    }
    let now = Timestamp::now();
    let due = async |now, limit| -> Vec<Delivery> { world.jobs.due(now, limit).await.unwrap() };
    let all = due(now, 10).await;
    let seen: Vec<_> = all
        .iter()
        .map(|one| (one.job, one.body.as_str(), one.tries))
        .collect();
    assert_eq!(
        seen,
        [(id(1), "{\"job\": 1}", 0), (id(3), "{\"job\": 3}", 0)]
    );
    assert_eq!(due(now, 1).await, all[..1]);
    assert_eq!(due(now, 0).await, []);
    assert_eq!(due(time(-1_000_000_000), 10).await, []);

    let later = now + jiff::SignedDuration::from_secs(60);
    world.jobs.tried(all[0].number, Some(later)).await.unwrap();
    assert_eq!(due(now, 10).await, all[1..]);
    let again = Delivery {
        tries: 1,
        ..all[0].clone()
    };
    assert_eq!(due(later, 10).await, [all[1].clone(), again.clone()]);
    world.jobs.tried(all[1].number, None).await.unwrap();
    world.jobs.tried(all[1].number, None).await.unwrap();
    assert_eq!(world.again().await.due(later, 10).await.unwrap(), [again]);

    // With its job, what was to be told of it is gone.
    let revision = world.job(1).await.revision;
    assert!(world.jobs.forget(id(1), revision).await.unwrap());
    assert_eq!(due(later, 10).await, []);
    // A number is never given again: whoever still tries it would end another.
    world.schedule(4).await;
    let job = world.become_(4, State::Complete).await;
    let along = Along {
        message: None,
        delivery: Some("new".into()),
    };
    saved(world.jobs.change(job, along).await.unwrap());
    assert!(due(Timestamp::now(), 10).await[0].number > all[1].number);
}
