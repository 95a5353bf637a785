//! API keys, and logins made with them.

use protocol::job::{ApiKey, UserRole};
use store::StoreError;
use uuid::Uuid;

use super::{JobsFixture, time};

fn key(number: u8) -> ApiKey {
    ApiKey {
        id: Uuid::from_u128(number.into()),
        user: format!("user {number}"),
        role: match number % 2 {
            0 => UserRole::User,
            _ => UserRole::Admin,
        },
        label: "for \"tests\" \0".into(),
        prefix: "hc_abc".into(),
        created: time(number.into()),
        revoked: None,
    }
}

fn hash(number: u8) -> [u8; 32] {
    [number; 32]
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_until_it_is_revoked() {
    let world = JobsFixture::new().await;
    let jobs = &world.jobs;
    for number in [2, 1, 3] {
        jobs.add_key(key(number), hash(number)).await.unwrap();
    }
    assert_eq!(jobs.keys().await.unwrap(), [key(1), key(2), key(3)]);
    assert_eq!(jobs.key(hash(2)).await.unwrap(), Some(key(2)));
    assert_eq!(jobs.key(hash(4)).await.unwrap(), None);

    assert!(jobs.revoke_key(key(2).id, time(100)).await.unwrap());
    assert!(!jobs.revoke_key(key(2).id, time(200)).await.unwrap());
    assert!(
        !jobs
            .revoke_key(Uuid::from_u128(77), time(200))
            .await
            .unwrap()
    );
    let revoked = ApiKey {
        revoked: Some(time(100)),
        ..key(2)
    };
    assert_eq!(jobs.key(hash(2)).await.unwrap(), Some(revoked.clone()));
    let again = world.again().await;
    assert_eq!(again.keys().await.unwrap(), [key(1), revoked, key(3)]);

    // Neither an id nor a hash can be used twice.
    for (number, known) in [(1, 9), (9, 1)] {
        let error = jobs.add_key(key(number), hash(known)).await.unwrap_err();
        assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    }
    assert_eq!(jobs.keys().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_login_holds_as_long_as_its_key_and_its_time() {
    let world = JobsFixture::new().await;
    let jobs = &world.jobs;
    for number in [1, 2] {
        jobs.add_key(key(number), hash(number)).await.unwrap();
    }
    for (login, made_with) in [(11, 1), (12, 1), (21, 2)] {
        let until = time(1000 + i64::from(login));
        jobs.add_login(hash(login), key(made_with).id, until)
            .await
            .unwrap();
    }
    let check = async |login, now, expect: Option<u8>| {
        let found = jobs.login(hash(login), time(now)).await.unwrap();
        assert_eq!(found, expect.map(key), "{login} at {now}");
    };
    check(11, 0, Some(1)).await;
    check(11, 1010, Some(1)).await;
    check(11, 1011, None).await;
    check(12, 1011, Some(1)).await;
    check(13, 0, None).await;
    // The hash of a key is not valid for a login, and vice versa.
    check(1, 0, None).await;
    assert_eq!(jobs.key(hash(11)).await.unwrap(), None);

    jobs.remove_login(hash(12)).await.unwrap();
    jobs.remove_login(hash(12)).await.unwrap();
    check(12, 0, None).await;
    check(11, 0, Some(1)).await;
    assert!(jobs.revoke_key(key(1).id, time(5)).await.unwrap());
    check(11, 0, None).await;
    check(21, 0, Some(2)).await;
    // A login that was being added when the key was revoked.
    jobs.add_login(hash(14), key(1).id, time(2000))
        .await
        .unwrap();
    check(14, 0, None).await;
    assert_eq!(world.number("SELECT count(*) FROM logins").await, 1);
    jobs.remove_old_logins(time(1020)).await.unwrap();
    check(21, 0, Some(2)).await;
    jobs.remove_old_logins(time(1021)).await.unwrap();
    check(21, 0, None).await;
}
