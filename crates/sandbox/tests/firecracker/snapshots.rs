//! Machines that boot, and machines that start from a snapshot.

use std::fs;
use std::os::unix::fs::MetadataExt;

use sandbox::{Backend, Sandbox};

use crate::error_chain::error_chain;
use crate::machine::REPORTED_KILLS;
use crate::scene::{Fixture, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_boots_once_and_every_other_begins_there() {
    let scene = Fixture::new();
    fs::write(scene.path("workspace/note"), "from outside").unwrap();
    let first = scene.start().await;
    assert_eq!(
        say(&first, "cat note; pwd").await,
        "from outside/workspace\n"
    );
    say(&first, "echo from inside > answer").await;
    let answer = fs::read_to_string(scene.path("workspace/answer")).unwrap();
    assert_eq!(answer, "from inside\n");
    assert_eq!(first.memory_kills().await, REPORTED_KILLS);
    let info = first.info().clone();
    assert_eq!(info.backend, Backend::Firecracker);
    let first_wall = &info.walls[0];
    assert_eq!(first_wall, "virtual machine (Firecracker v1.13.1), KVM");
    assert_eq!(first.end().await.memory_kills, REPORTED_KILLS);
    assert_eq!(scene.machine_events().boots, 1);

    // Two at the same time, from one snapshot.
    let (second, third) = tokio::join!(scene.start(), scene.start());
    assert_eq!(say(&second, "echo 2").await, "2\n");
    assert_eq!(say(&third, "echo 3").await, "3\n");
    second.end().await;
    third.end().await;

    let heard = scene.machine_events();
    assert_eq!((heard.boots, heard.workspaces, heard.ends), (1, 3, 3));
    let seeds: Vec<_> = heard.arrivals.iter().map(|arrival| arrival.seed).collect();
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2]);
    assert!(heard.arrivals[0].clock < heard.arrivals[2].clock);
    for kept in scene.snapshots() {
        for name in ["state", "memory"] {
            let found = fs::metadata(kept.join(name)).unwrap();
            let own = nix::unistd::geteuid().as_raw();
            assert_eq!((found.mode() & 0o777, found.uid()), (0o444, own), "{name}");
        }
    }
    assert_eq!(scene.snapshots().len(), 1);
    assert_eq!(scene.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!(scene.processes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_firecracker_refuses_is_thrown_away() {
    let scene = Fixture::new();
    scene.start().await.end().await;
    let old = scene.snapshots();
    let inode = |path: &std::path::Path| fs::metadata(path.join("state")).unwrap().ino();
    let before = inode(&old[0]);
    let stale = Sandbox::start(scene.spec("firecracker-stale")).await;
    let stale = stale.unwrap_or_else(|error| panic!("{}", error_chain(&error)));
    assert_eq!(say(&stale, "echo booted").await, "booted\n");
    stale.end().await;
    assert_eq!(scene.machine_events().boots, 2);
    let new = scene.snapshots();
    assert_eq!(new, old);
    assert_ne!(inode(&new[0]), before, "a new snapshot was made");
    // The new snapshot works.
    scene.start().await.end().await;
    assert_eq!(scene.machine_events().boots, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_snapshot_is_not_used() {
    let scene = Fixture::new();
    scene.start().await.end().await;
    let memory = scene.snapshots()[0].join("memory");
    fs::remove_file(&memory).unwrap();
    fs::write(&memory, "too short").unwrap();
    scene.start().await.end().await;
    assert_eq!(scene.machine_events().boots, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_size_is_another_machine() {
    let scene = Fixture::new();
    scene.start().await.end().await;
    let mut small = scene.spec("firecracker");
    small.limits.memory = 256 << 20;
    let small = Sandbox::start(small).await;
    let small = small.unwrap_or_else(|error| panic!("{}", error_chain(&error)));
    small.end().await;
    assert_eq!(scene.machine_events().boots, 2);
    assert_eq!(scene.snapshots().len(), 2);
}
