//! Checkpoints: saving, reading, pruning; contents are kept as long as they are needed.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use store::{ContentHash, FileRecord, FileStamp, RecordedKind, StoreError};

use crate::{StoreFixture, id};

/// A content of 1000 bytes.
pub(crate) fn content(name: &str) -> (ContentHash, Vec<u8>) {
    let mut bytes = name.repeat(1000 / name.len() + 1).into_bytes();
    bytes.truncate(1000);
    (ContentHash(Sha256::digest(&bytes).into()), bytes)
}

pub(crate) fn file(name: &str) -> FileRecord {
    FileRecord {
        path: [name.as_bytes(), b"\xff"].concat(),
        kind: RecordedKind::File {
            size: 1000,
            content: content(name).0,
        },
        mode: 0o644,
        stamp: FileStamp {
            inode: u64::MAX,
            modified: -1,
            changed: i64::MAX,
        },
    }
}

async fn save(world: &StoreFixture, session: u32, number: u32, names: &[&str], most: u64) {
    let contents = names.iter().map(|name| content(name)).collect();
    world.store.put_contents(contents).await.unwrap();
    let files: Vec<_> = names.iter().map(|name| file(name)).collect();
    let saved = world
        .store
        .save_checkpoint(&id(session), number, &files, most)
        .await;
    saved.unwrap();
}

/// Ends the grace period of all contents.
async fn expire_grace_period(world: &StoreFixture) {
    world
        .run("checkpoints.db", "UPDATE contents SET wanted = 0")
        .await;
}

async fn has_checkpoint(world: &StoreFixture, session: u32, number: u32) -> bool {
    let found = world.store.checkpoint(&id(session), number).await;
    found.unwrap().is_some()
}

async fn has_content(world: &StoreFixture, name: &str) -> bool {
    let found = world.store.content(&content(name).0).await.unwrap();
    found.is_some_and(|bytes| bytes == content(name).1)
}

#[tokio::test]
async fn checkpoints_come_back_as_they_were() {
    let world = StoreFixture::new().await;
    let files = [
        file("a"),
        FileRecord {
            path: b"dir".to_vec(),
            kind: RecordedKind::Folder,
            ..file("a")
        },
        FileRecord {
            path: b"link".to_vec(),
            kind: RecordedKind::Symlink {
                target: b"\xfe/..".to_vec(),
            },
            ..file("a")
        },
    ];
    world.store.put_contents(vec![content("a")]).await.unwrap();
    for (number, files) in [(1, &files[..]), (2, &[])] {
        let saved = world
            .store
            .save_checkpoint(&id(1), number, files, 1 << 30)
            .await;
        saved.unwrap();
        let read = world.again().await.checkpoint(&id(1), number).await;
        assert_eq!(read.unwrap().unwrap(), files);
    }
    assert!(!has_checkpoint(&world, 1, 3).await && !has_checkpoint(&world, 2, 1).await);
    // Saving under the same number replaces it.
    save(&world, 1, 1, &["b"], 1 << 30).await;
    let read = world.store.checkpoint(&id(1), 1).await.unwrap();
    assert_eq!(read.unwrap(), [file("b")]);
}

#[tokio::test]
async fn only_what_is_missing_need_be_put() {
    let world = StoreFixture::new().await;
    let hashes = ["a", "b", "a", "c"].map(|name| content(name).0);
    let expect = |names: &[&str]| {
        names
            .iter()
            .map(|name| content(name).0)
            .collect::<HashSet<_>>()
    };
    assert_eq!(
        world.store.missing(&hashes).await.unwrap(),
        expect(&["a", "b", "c"])
    );
    let twice = vec![content("a"), content("a")];
    world.store.put_contents(twice).await.unwrap();
    assert_eq!(
        world.store.missing(&hashes).await.unwrap(),
        expect(&["b", "c"])
    );
    assert!(has_content(&world, "a").await && !has_content(&world, "b").await);
    assert!(world.store.missing(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_checkpoint_is_never_without_a_content() {
    let world = StoreFixture::new().await;
    world.store.put_contents(vec![content("a")]).await.unwrap();
    let files = [file("a"), file("b"), file("c")];
    let refused = world
        .store
        .save_checkpoint(&id(1), 1, &files, 1 << 30)
        .await;
    let error = refused.unwrap_err();
    assert!(
        matches!(error, StoreError::MissingContents { count: 2, .. }),
        "{error:?}"
    );
    assert!(!has_checkpoint(&world, 1, 1).await);
    let held = "SELECT count(*) FROM contents WHERE runs > 0";
    assert_eq!(world.number("checkpoints.db", held).await, 0);
}

#[tokio::test]
async fn a_content_that_has_changed_on_disk_is_not_restored() {
    let world = StoreFixture::new().await;
    world.store.put_contents(vec![content("a")]).await.unwrap();
    world
        .run("checkpoints.db", "UPDATE bytes SET bytes = zeroblob(1000)")
        .await;
    let error = world.store.content(&content("a").0).await.unwrap_err();
    assert!(
        matches!(error, StoreError::DamagedContent { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_oldest_make_room() {
    let world = StoreFixture::new().await;
    save(&world, 1, 1, &["a", "b"], 4000).await;
    save(&world, 2, 1, &["b", "c"], 4000).await;
    save(&world, 1, 2, &["a", "d"], 4000).await;
    assert!(
        has_checkpoint(&world, 1, 1).await,
        "a, b, c and d are just enough"
    );
    expire_grace_period(&world).await;
    save(&world, 3, 1, &["e"], 4000).await;
    // All five are still held after the oldest is removed; b and c are not after the next one.
    assert!(!has_checkpoint(&world, 1, 1).await && !has_checkpoint(&world, 2, 1).await);
    assert!(has_checkpoint(&world, 1, 2).await && has_checkpoint(&world, 3, 1).await);
    for (name, expect) in [
        ("a", true),
        ("b", false),
        ("c", false),
        ("d", true),
        ("e", true),
    ] {
        assert_eq!(has_content(&world, name).await, expect, "{name}");
    }
    // The checkpoint just saved stays, even if it is over the limit.
    save(&world, 3, 2, &["e", "f"], 0).await;
    assert!(!has_checkpoint(&world, 1, 2).await && !has_checkpoint(&world, 3, 1).await);
    assert!(has_checkpoint(&world, 3, 2).await);
    assert!(has_content(&world, "e").await && has_content(&world, "f").await);
}

#[tokio::test]
async fn what_somebody_is_about_to_save_is_not_removed() {
    let world = StoreFixture::new().await;
    let other = world.again().await;
    save(&world, 1, 1, &["old", "asked"], 1 << 30).await;
    expire_grace_period(&world).await;
    // The other process stores one content, and learns that another one exists.
    other.put_contents(vec![content("put")]).await.unwrap();
    let missing = other.missing(&[content("asked").0]).await.unwrap();
    assert!(missing.is_empty());
    // Then this process prunes.
    save(&world, 2, 1, &["new"], 0).await;
    assert!(!has_checkpoint(&world, 1, 1).await && !has_content(&world, "old").await);
    let files = [file("put"), file("asked")];
    let saved = other.save_checkpoint(&id(3), 1, &files, 1 << 30).await;
    saved.unwrap();
    assert!(has_content(&world, "put").await && has_content(&world, "asked").await);
}

#[tokio::test]
async fn long_lists_of_files_make_room_too() {
    let world = StoreFixture::new().await;
    let files: Vec<_> = (0..100)
        .map(|number| FileRecord {
            path: format!("folder {number}").into_bytes(),
            kind: RecordedKind::Folder,
            ..file("a")
        })
        .collect();
    for number in 1..=50 {
        let saved = world
            .store
            .save_checkpoint(&id(1), number, &files, 20_000)
            .await;
        saved.unwrap();
    }
    assert!(!has_checkpoint(&world, 1, 1).await && has_checkpoint(&world, 1, 50).await);
    let size = "SELECT sum(length(files)) FROM checkpoints";
    assert!(world.number("checkpoints.db", size).await <= 20_000);
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Debug, Clone)]
enum CheckpointStep {
    Save {
        session: u32,
        number: u32,
        names: HashSet<usize>,
        most: u64,
    },
    Delete {
        session: u32,
    },
}

fn any_step() -> impl Strategy<Value = CheckpointStep> {
    let names = prop::collection::hash_set(0..NAMES.len(), 0..NAMES.len());
    prop_oneof![
        4 => (1..4_u32, 1..5_u32, names, 0..6_u64).prop_map(|(session, number, names, most)| {
            CheckpointStep::Save { session, number, names, most: most * 1000 }
        }),
        1 => (1..4_u32).prop_map(|session| CheckpointStep::Delete { session }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// After any sequence of saves, replacements, prunings and deletions, checkpoints have all of their
    /// contents, and contents that no checkpoint has are removed.
    #[test]
    fn contents_are_there_exactly_as_long_as_needed(steps in prop::collection::vec(any_step(), 1..15)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = StoreFixture::new().await;
            for session in 1..4 {
                world.session(session, &[]).await;
            }
            save(&world, 9, 1, &[], 1 << 30).await;
            let mut saved: HashMap<(u32, u32), HashSet<usize>> = HashMap::new();
            for step in steps {
                match step {
                    CheckpointStep::Save { session, number, names, most } => {
                        let list: Vec<_> = names.iter().map(|name| NAMES[*name]).collect();
                        save(&world, session, number, &list, most).await;
                        saved.insert((session, number), names);
                        assert!(has_checkpoint(&world, session, number).await);
                    }
                    CheckpointStep::Delete { session } => {
                        world.store.delete(&id(session)).await.unwrap();
                        world.session(session, &[]).await;
                        saved.retain(|(known, _), _| *known != session);
                    }
                }
                expire_grace_period(&world).await;
            }
            // Removes unused contents and nothing else.
            save(&world, 9, 2, &[], 1 << 30).await;
            let mut needed = HashSet::new();
            for ((session, number), names) in saved {
                if let Some(files) = world.store.checkpoint(&id(session), number).await.unwrap() {
                    assert_eq!(files.len(), names.len());
                    needed.extend(names);
                }
            }
            for (place, name) in NAMES.iter().enumerate() {
                assert_eq!(has_content(&world, name).await, needed.contains(&place), "{name}");
            }
        });
    }
}
