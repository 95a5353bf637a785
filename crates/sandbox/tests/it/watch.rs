//! Watching for changes from inside or outside, also in new folders.

use std::fs;

use sandbox::BatchStream;
use sandbox::request::{ByteString, PathChange, PathChangeKind, RefusalKind};

use crate::under_test::nature;
use crate::world::{TestSandbox, assert_refused, within};

/// Reads until this change arrives.
async fn wait_for_change(changes: &mut BatchStream<PathChange>, path: &str, kind: PathChangeKind) {
    let expect = PathChange {
        path: ByteString::from(path),
        kind,
    };
    loop {
        let some = changes.next().await.unwrap().expect("the watch is active");
        if some.contains(&expect) {
            return;
        }
    }
}

#[test]
fn changes_are_seen_wherever_they_happen() {
    within(async {
        use PathChangeKind::{Created, Modified, Removed};
        let world = TestSandbox::new().await;
        fs::create_dir_all(world.path("old/deep")).unwrap();
        let mut changes = world.watch(".").await.unwrap();
        // Each change only after the previous one arrived, so that none is merged.
        world.text("echo 1 > file").await;
        wait_for_change(&mut changes, "file", Created).await;
        world.text("echo 2 >> file").await;
        wait_for_change(&mut changes, "file", Modified).await;
        world.text("mv file other").await;
        wait_for_change(&mut changes, "other", Created).await;
        world.text("rm other").await;
        wait_for_change(&mut changes, "other", Removed).await;
        world.text("echo > old/deep/file").await;
        wait_for_change(&mut changes, "old/deep/file", Created).await;
        // A file in a folder that is created at the same moment.
        world
            .text("mkdir -p new/deeper; echo > new/deeper/file")
            .await;
        wait_for_change(&mut changes, "new/deeper/file", Created).await;
        world.text("echo 1 >> new/deeper/file").await;
        wait_for_change(&mut changes, "new/deeper/file", Modified).await;
        world.text("rm -r new").await;
        wait_for_change(&mut changes, "new", Removed).await;
        // Changes by the owner through the guest count too, and changes on the host where they are
        // visible.
        world
            .write_file("written", "x", sandbox::request::WriteMode::Replace)
            .await
            .unwrap();
        wait_for_change(&mut changes, "written", Created).await;
        fs::write(world.path("outside"), "x").unwrap();
        if nature::watches_the_host() {
            wait_for_change(&mut changes, "outside", Created).await
        } else {
            assert_eq!(world.text("cat outside").await, "x")
        }
        drop(changes);
        world.end().await;
    });
}

#[test]
fn many_watches_stand_side_by_side_and_end_when_dropped() {
    within(async {
        let world = TestSandbox::new().await;
        fs::create_dir(world.path("a")).unwrap();
        fs::write(world.path("file"), "").unwrap();
        // More than the kernel's limit per user, one after the other.
        for _ in 0..300 {
            world.watch("a").await.unwrap();
        }
        let mut a = world.watch("a").await.unwrap();
        let mut all = world.watch(".").await.unwrap();
        world.text("touch a/new").await;
        wait_for_change(&mut a, "new", PathChangeKind::Created).await;
        wait_for_change(&mut all, "a/new", PathChangeKind::Created).await;
        let mut file = world.watch("file").await.unwrap();
        world.text("echo 1 > file").await;
        wait_for_change(&mut file, "", PathChangeKind::Modified).await;
        let refused = world.watch("nowhere").await;
        assert_refused(
            refused,
            RefusalKind::NotFound,
            "cannot watch `/workspace/nowhere`",
        );
        drop((a, all, file));
        world.end().await;
    });
}
