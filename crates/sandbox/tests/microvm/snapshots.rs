//! Machines start from a snapshot, and share nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox::Sandbox;

use crate::scene::{Fixture, image, text, within};

/// Variables that pass the cache and the image to the other process.
const CACHE_VARIABLE: &str = "HOTCELL_TEST_MACHINE_CACHE";
const IMAGE_VARIABLE: &str = "HOTCELL_TEST_MACHINE_IMAGE";

#[test]
fn machines_from_one_snapshot_have_their_own_randomness_and_the_right_time() {
    within(async {
        let scene = Fixture::shared();
        let mut drawn = Vec::new();
        for _ in 0..2 {
            let workspace = tempfile::tempdir().unwrap();
            let sandbox = Sandbox::start(scene.spec(workspace.path())).await.unwrap();
            drawn.push(text(&sandbox, "head -c 16 /dev/urandom | od -An -x").await);
            let seconds = || {
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap()
                    .as_secs()
            };
            let before = seconds();
            let inside: u64 = text(&sandbox, "date +%s").await.trim().parse().unwrap();
            // A second of tolerance for truncation, in both directions.
            assert!(before <= inside + 1 && inside <= seconds() + 1);
            sandbox.end().await;
        }
        assert_ne!(drawn[0], drawn[1]);
    });
}

#[test]
fn the_kernel_inside_is_another_and_there_is_no_network_device() {
    within(async {
        let scene = Fixture::shared();
        let workspace = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(scene.spec(workspace.path())).await.unwrap();
        let here = fs::read_to_string("/proc/sys/kernel/version").unwrap();
        assert_ne!(text(&sandbox, "cat /proc/sys/kernel/version").await, here);
        let devices = text(&sandbox, "cat /proc/net/dev").await;
        let names: Vec<&str> = devices
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        assert_eq!(names, ["lo"]);
        let walls = sandbox.info().walls.clone();
        assert!(
            walls[0].starts_with("virtual machine (QEMU microvm)"),
            "{walls:?}"
        );
        sandbox.end().await;
    });
}

#[test]
fn walls_from_a_snapshot_are_those_of_the_sandbox_that_arrives() {
    within(async {
        let scene = Fixture::new();
        // The first makes the snapshot; the others change limits of their walls.
        for (open_files, disk, mode) in [
            (128, 1 << 30, 0o755),
            (99, 1 << 30, 0o711),
            (77, 8 << 20, 0o750),
        ] {
            let workspace = tempfile::tempdir().unwrap();
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(workspace.path(), permissions).unwrap();
            fs::write(workspace.path().join("own"), open_files.to_string()).unwrap();
            let mut spec = scene.spec(workspace.path());
            spec.limits.open_files = open_files;
            spec.limits.disk = disk;
            let sandbox = Sandbox::start(spec).await.unwrap();
            let seen = sandbox.stat("/workspace").await.unwrap();
            assert_eq!(seen.mode & 0o7777, mode);
            let own = text(&sandbox, "ulimit -n; cat own; echo written > made").await;
            assert_eq!(own, format!("{open_files}\n{open_files}"));
            // In units of 512 bytes.
            let largest = text(&sandbox, "ulimit -f").await;
            assert_eq!(largest, format!("{}\n", disk / 512));
            sandbox.end().await;
            let made = fs::read_to_string(workspace.path().join("made")).unwrap();
            assert_eq!(made, "written\n");
        }
        assert_eq!(scene.snapshots().len(), 1);
    });
}

#[test]
fn many_at_once_boot_one_and_a_snapshot_that_is_broken_is_made_anew() {
    within(async {
        let scene = Fixture::new();
        let workspaces: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let starts = workspaces
            .iter()
            .map(|workspace| tokio::spawn(Sandbox::start(scene.spec(workspace.path()))));
        for start in starts.collect::<Vec<_>>() {
            let sandbox = start.await.unwrap().unwrap();
            assert_eq!(text(&sandbox, "echo works").await, "works\n");
            sandbox.end().await;
        }
        let [kept] = &scene.snapshots()[..] else {
            panic!("{:?}", scene.snapshots());
        };
        // The other process finds a truncated state.
        let state = kept.join("state");
        let file = fs::File::options().write(true).open(&state).unwrap();
        file.set_len(1000).unwrap();
        drop(file);
        // This program itself, even if the file at its path was replaced.
        let run = std::process::Command::new("/proc/self/exe")
            .args(["--exact", "snapshots::in_another_process", "--ignored"])
            .env(CACHE_VARIABLE, &scene.cache)
            .env(IMAGE_VARIABLE, image())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
        assert!(fs::metadata(state).unwrap().len() > 1000);
        assert_eq!(scene.snapshots().len(), 1);
    });
}

/// Not a test by itself: the other process of the test above.
#[test]
#[ignore = "started by another test"]
fn in_another_process() {
    let path = |name| std::env::var_os(name).unwrap().into();
    within(async {
        let scene = Fixture::from_other_process(path(CACHE_VARIABLE), path(IMAGE_VARIABLE));
        let workspace = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(scene.spec(workspace.path())).await.unwrap();
        assert_eq!(text(&sandbox, "echo works").await, "works\n");
        sandbox.end().await;
    });
}
