//! Stored tool outputs.

use store::StoreError;

use crate::{StoreFixture, id};

#[tokio::test]
async fn outputs_are_numbered_for_each_session() {
    let world = StoreFixture::new().await;
    world.session(1, &[]).await;
    world.session(2, &[]).await;
    for (session, output, handle) in [
        (1, &b"one"[..], "output:1"),
        (1, b"", "output:2"),
        (2, b"\0\xff", "output:1"),
    ] {
        let kept = world.store.store_output(&id(session), output.into()).await;
        let kept = kept.unwrap();
        assert_eq!(
            (kept.handle.as_str(), kept.bytes),
            (handle, output.len() as u64)
        );
        let read = world.again().await.output(&id(session), handle).await;
        assert_eq!(read.unwrap().as_deref(), Some(output));
    }
    for none in [
        "output:3",
        "output:0",
        "output:",
        "output:+1",
        "output:-1",
        "output: 1",
        "1",
        "",
        "src",
        "output:99999999999999999999",
    ] {
        assert_eq!(
            world.store.output(&id(1), none).await.unwrap(),
            None,
            "{none}"
        );
    }
    let error = world.store.store_output(&id(3), vec![]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
}

#[tokio::test]
async fn old_outputs_make_room_for_new_ones() {
    const MIB: usize = 1 << 20;
    let world = StoreFixture::new().await;
    world.session(1, &[]).await;
    world.session(2, &[]).await;
    let keep = async |session, size| {
        let kept = world.store.store_output(&id(session), vec![7; size]).await;
        kept.unwrap()
    };
    let has = async |session, handle: &str| {
        let output = world.store.output(&id(session), handle).await;
        output.unwrap().is_some()
    };
    keep(2, MIB).await;
    for number in 1..=3 {
        assert_eq!(keep(1, 20 * MIB).await.handle, format!("output:{number}"));
    }
    assert!(has(1, "output:1").await);
    keep(1, 20 * MIB).await;
    assert!(!has(1, "output:1").await && has(1, "output:2").await);

    // An output that is too large by itself is cut, and the returned size is that of the cut one.
    let kept = keep(1, 65 * MIB).await;
    assert_eq!(
        (kept.handle.as_str(), kept.bytes),
        ("output:5", 64 * MIB as u64)
    );
    assert!(!has(1, "output:4").await && has(1, "output:5").await);
    // Numbers are not used again.
    assert_eq!(keep(1, 1).await.handle, "output:6");
    assert!(!has(1, "output:5").await && has(1, "output:6").await);
    assert!(has(2, "output:1").await);
}
