//! The identity of a sandbox: inside, on the host, and in the workspace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use sandbox::request::WriteMode;
use sandbox::{ExecCommand, Sandbox};

use crate::under_test::{self, nature};
use crate::world::{
    TestSandbox, eventually, is_root, marker, process_with, rest, status_field, until, within,
};

#[test]
fn inside_it_is_an_ordinary_user_without_rights() {
    within(async {
        let world = TestSandbox::new().await;
        assert_eq!(
            world.text("id -u; id -g; id -un").await,
            "1000\n1000\nhotcell\n"
        );
        let groups = world.text("id -G").await;
        // An ordinary caller's supplementary groups cannot be dropped, only mapped to nothing.
        let strangers = groups.split_whitespace().filter(|group| *group != "1000");
        assert!(
            strangers
                .clone()
                .all(|group| group == "65534" && !is_root()),
            "{groups}"
        );
        let walls = world.inspect().await.unwrap();
        assert_eq!((walls.uid, walls.gid, walls.capabilities), (1000, 1000, 0));
        assert!(walls.no_new_privileges);
        assert_eq!(walls.root_read_only, !nature::has_own_root());
        assert_eq!(walls.seccomp, 2);
        assert_eq!(walls.interfaces, ["lo"]);
        let status = world
            .text("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
            .await;
        for line in status.lines() {
            let (name, value) = line.split_once(":\t").unwrap();
            match name {
                "NoNewPrivs" => assert_eq!(value, "1"),
                "Seccomp" => assert_eq!(value, "2"),
                _ => assert_eq!(value, "0000000000000000", "{line}"),
            }
        }
        world.end().await;
    });
}

#[test]
fn outside_it_is_not_root_and_no_two_are_the_same() {
    within(async {
        let mut users = Vec::new();
        let mut worlds = Vec::new();
        for name in ["uid-a", "uid-b"] {
            let world = TestSandbox::new().await;
            let marker = marker(name);
            let command = ExecCommand::new(["sh", "-c", "echo up; read line", &marker]).stdin();
            let mut running = world.exec(command).await.unwrap();
            until(&mut running, "up").await;
            // The engine may still be starting it.
            eventually("no runtime at work", async || !world.traces().has_runtime()).await;
            // The processes that run the commands: themselves, a user-space kernel, or a machine.
            let inner = world.traces().behind_the_first();
            assert!(!inner.is_empty());
            if nature::host_sees_processes() {
                assert!(inner.contains(&process_with(&marker).await), "{inner:?}");
            }
            let mut seen = BTreeSet::new();
            for pid in inner {
                for field in ["Uid", "Gid"] {
                    let ids = status_field(pid, field).unwrap();
                    let ids: BTreeSet<u32> = ids
                        .split_whitespace()
                        .map(|id| id.parse().unwrap())
                        .collect();
                    assert!(!ids.contains(&0), "{field} of {pid}: {ids:?}");
                    seen.extend(ids.into_iter().filter(|_| field == "Uid"));
                }
            }
            users.push(seen);
            drop(running.take_input());
            rest(&mut running).await;
            drop(running);
            worlds.push(world);
        }
        if is_root() {
            assert!(users[0].is_disjoint(&users[1]), "{users:?}")
        } else {
            assert_eq!(users[0], users[1])
        }
        if !is_root() {
            let own = BTreeSet::from([nix::unistd::geteuid().as_raw()]);
            assert_eq!(users[0], own);
        }
        for world in worlds {
            world.end().await;
        }
    });
}

#[test]
fn new_files_belong_to_the_owner_of_the_workspace() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let owner = if is_root() {
            (4242, 4343)
        } else {
            (
                nix::unistd::geteuid().as_raw(),
                nix::unistd::getegid().as_raw(),
            )
        };
        fs::create_dir(folder.path().join("theirs")).unwrap();
        fs::write(folder.path().join("theirs/file"), "old").unwrap();
        for path in ["", "theirs", "theirs/file"] {
            chown(folder.path().join(path), Some(owner.0), Some(owner.1)).unwrap();
        }
        let sandbox = Sandbox::start(under_test::spec(folder.path()))
            .await
            .unwrap();
        let script = "mkdir made; echo x > made/file; ln -s x link; echo new > theirs/file; \
                      echo x > theirs/more; stat -c %u:%g . theirs/file";
        let captured = sandbox.run(ExecCommand::script(script)).await.unwrap();
        assert!(captured.verdict.success(), "{captured:?}");
        assert_eq!(captured.stdout, b"1000:1000\n1000:1000\n");
        sandbox
            .write_file("written/file", "x", WriteMode::Replace)
            .await
            .unwrap();
        sandbox.end().await;
        for path in [
            "made",
            "made/file",
            "link",
            "theirs/file",
            "theirs/more",
            "written/file",
        ] {
            let metadata = fs::symlink_metadata(folder.path().join(path)).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), owner, "{path}");
        }
        assert_eq!(
            fs::read(folder.path().join("theirs/file")).unwrap(),
            b"new\n"
        );
    });
}

#[test]
fn what_belongs_to_somebody_else_stays_theirs() {
    within(async {
        let world = TestSandbox::new().await;
        // The workspace belongs to the user that runs the test; an ordinary user cannot create
        // files of another owner.
        let stranger = world.path("stranger");
        fs::write(&stranger, "theirs").unwrap();
        if is_root() {
            chown(&stranger, Some(4242), Some(4242)).unwrap();
            assert_eq!(world.text("stat -c %u:%g stranger").await, "65534:65534\n");
            assert!(!world.sh("echo mine > stranger").await.verdict.success());
            assert!(!world.sh("chmod 777 stranger").await.verdict.success());
        }
        for script in [
            "chown 0:0 stranger",
            "chgrp 0 stranger",
            "mknod device c 1 3",
        ] {
            assert!(!world.sh(script).await.verdict.success(), "{script}");
        }
        assert_eq!(fs::read(&stranger).unwrap(), b"theirs");
        // No file can become setuid or setgid, here or on the host.
        world.text("cp /bin/sh bad; chmod 755 bad").await;
        for mode in ["4755", "2755", "u+s", "g+s"] {
            let script = format!("chmod {mode} bad");
            assert!(!world.sh(&script).await.verdict.success(), "{mode}");
        }
        let metadata = fs::metadata(world.path("bad")).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o755);
        assert_eq!(metadata.uid(), nix::unistd::geteuid().as_raw());
        world.end().await;
    });
}
