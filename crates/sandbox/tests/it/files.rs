//! Files of a sandbox, read and changed by its owner through the guest.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use bytes::Bytes;
use sandbox::request::{ByteString, FileKind, ListEntry, ListRequest, RefusalKind, WriteMode};

use crate::under_test::{nature, portion};
use crate::world::{TestSandbox, assert_refused, eventually, within};

#[test]
fn any_part_of_a_file_can_be_read() {
    within(async {
        let world = TestSandbox::new().await;
        let content: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        fs::write(world.path("big"), &content).unwrap();
        fs::write(world.path("empty"), "").unwrap();
        let size = content.len();
        for (offset, length) in [
            (0, None),
            (0, Some(0)),
            (0, Some(1)),
            (1, Some(300_000)),
            (size - 10, None),
            (size - 10, Some(1000)),
            (size, None),
            (size + 1000, Some(5)),
        ] {
            let read = world.read_file("big", offset as u64, length).await.unwrap();
            let start = offset.min(size);
            let end = length.map_or(size, |length| size.min(start + length as usize));
            assert!(read.1 == content[start..end], "{offset} {length:?}");
            assert_eq!(read.0.size, size as u64);
        }
        let (metadata, content) = world.read_file("/workspace/empty", 0, None).await.unwrap();
        assert_eq!((metadata.size, content), (0, Vec::new()));
        // Also files outside the workspace, as seen inside the sandbox.
        let (_, passwd) = world.read_file("/etc/passwd", 0, None).await.unwrap();
        assert!(
            String::from_utf8(passwd)
                .unwrap()
                .contains("hotcell:x:1000")
        );
        world.end().await;
    });
}

#[test]
fn what_cannot_be_read_or_written_is_refused() {
    within(async {
        let world = TestSandbox::new().await;
        fs::create_dir(world.path("folder")).unwrap();
        symlink("loop", world.path("loop")).unwrap();
        world
            .text("mkfifo fifo; touch secret; chmod 0 secret")
            .await;
        use RefusalKind::{Denied, NotFound, WrongType};
        let read = async |path: &str, kind| {
            let says = format!("cannot read `{path}`");
            assert_refused(world.read_file(path, 0, None).await, kind, &says);
        };
        read("/workspace/nothing", NotFound).await;
        read("/workspace/folder", WrongType).await;
        read("/workspace/loop", WrongType).await;
        read("/workspace/fifo", WrongType).await;
        read("/workspace/secret", Denied).await;
        read("/dev/zero", WrongType).await;
        let write = async |path: &str, kind, says: &str| {
            for mode in [WriteMode::Replace, WriteMode::Append] {
                assert_refused(world.write_file(path, "x", mode).await, kind, says);
            }
        };
        write("folder", WrongType, "cannot write `/workspace/folder`").await;
        write("fifo", WrongType, "it is not a regular file").await;
        write("loop", WrongType, "cannot write `/workspace/loop`").await;
        if !nature::has_own_root() {
            write("/usr/bin/new", Denied, "`/usr/bin/new`").await;
            write("/etc/passwd", Denied, "`/etc/passwd`").await;
        }
        write(
            "secret/below",
            RefusalKind::Exists,
            "`/workspace/secret/below`",
        )
        .await;
        write("", WrongType, "it is not a regular file").await;
        // A refusal may come while content is still being sent, and is returned nevertheless.
        let much = Bytes::from(vec![0; 8 << 20]);
        let refused = world.write_file("folder", much, WriteMode::Replace).await;
        assert_refused(refused, WrongType, "it is not a regular file");
        world.end().await;
    });
}

#[test]
fn a_write_makes_parents_and_keeps_what_was_decided_before() {
    within(async {
        let world = TestSandbox::new().await;
        let replace = WriteMode::Replace;
        let read = |name: &str| fs::read(world.path(name)).unwrap();
        world
            .write_file("a/b/c.txt", "first", replace)
            .await
            .unwrap();
        assert_eq!(read("a/b/c.txt"), b"first");
        let mode = |name: &str| fs::metadata(world.path(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode("a/b/c.txt"), 0o644);
        // The mode is kept, the content is a new file: readers of the old file still see the old
        // content.
        fs::set_permissions(world.path("a/b/c.txt"), fs::Permissions::from_mode(0o750)).unwrap();
        let before = fs::metadata(world.path("a/b/c.txt")).unwrap().ino();
        world
            .write_file("a/b/c.txt", "second", replace)
            .await
            .unwrap();
        assert_eq!(read("a/b/c.txt"), b"second");
        assert_eq!(mode("a/b/c.txt"), 0o750);
        assert_ne!(fs::metadata(world.path("a/b/c.txt")).unwrap().ino(), before);

        let big: Vec<u8> = (0..9_000_000u32).map(|i| (i / 7) as u8).collect();
        world.write_file("big", big.clone(), replace).await.unwrap();
        assert!(read("big") == big);
        world.write_file("big", "", replace).await.unwrap();
        assert_eq!(read("big"), b"");

        world
            .write_file("log", "one\n", WriteMode::Append)
            .await
            .unwrap();
        world
            .write_file("log", "two\n", WriteMode::Append)
            .await
            .unwrap();
        world
            .write_file("x/y/log", "deep\n", WriteMode::Append)
            .await
            .unwrap();
        assert_eq!(
            (read("log"), read("x/y/log")),
            (b"one\ntwo\n".into(), b"deep\n".into())
        );

        world
            .write_file("new/file", "mine", WriteMode::Create)
            .await
            .unwrap();
        assert_eq!(read("new/file"), b"mine");
        for name in ["new/file", "new"] {
            let refused = world.write_file(name, "again", WriteMode::Create).await;
            assert_refused(refused, RefusalKind::Exists, "cannot create");
        }
        assert_eq!(read("new/file"), b"mine");
        assert_eq!(drafts(&world), 0);
        world.end().await;
    });
}

#[test]
fn a_symlink_is_written_through_and_leads_only_inside() {
    within(async {
        let world = TestSandbox::new().await;
        fs::write(world.path("real"), "old").unwrap();
        symlink("real", world.path("link")).unwrap();
        world
            .write_file("link", "new", WriteMode::Replace)
            .await
            .unwrap();
        assert!(world.path("link").is_symlink());
        assert_eq!(fs::read(world.path("real")).unwrap(), b"new");
        let refused = world.write_file("link", "x", WriteMode::Create).await;
        assert_refused(refused, RefusalKind::Exists, "cannot create");
        // A path of the host does not exist inside.
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "host").unwrap();
        symlink(outside.path(), world.path("out")).unwrap();
        let read = world.read_file("out/secret", 0, None).await;
        assert_refused(read, RefusalKind::NotFound, "out/secret");
        let _ = world
            .write_file("out/secret", "taken", WriteMode::Replace)
            .await;
        let _ = world.remove("out/secret", false).await;
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"host");
        world.end().await;
    });
}

#[test]
fn a_write_that_breaks_off_leaves_nothing() {
    within(async {
        let world = TestSandbox::new().await;
        fs::write(world.path("file"), "old").unwrap();
        for name in ["file", "fresh/new"] {
            let content = Bytes::from(vec![0; 256 << 20]);
            let before = free_bytes(world.folder.path());
            let writing = world.write_file(name, content, WriteMode::Replace);
            let begun = eventually("some of the content has arrived", async || {
                free_bytes(world.folder.path()) + (1 << 20) < before
            });
            tokio::select! {
                outcome = writing => panic!("it ended before it was broken off: {outcome:?}"),
                () = begun => {}
            }
            eventually("the draft is gone", async || drafts(&world) == 0).await;
        }
        assert_eq!(fs::read(world.path("file")).unwrap(), b"old");
        assert!(!world.path("fresh/new").exists());
        // The same if the whole sandbox goes away.
        let content = Bytes::from(vec![0; 256 << 20]);
        let TestSandbox { sandbox, folder } = world;
        let before = free_bytes(folder.path());
        let writing = sandbox.write_file("file", content, WriteMode::Replace);
        let begun = eventually("some of the content has arrived", async || {
            free_bytes(folder.path()) + (1 << 20) < before
        });
        tokio::select! {
            outcome = writing => panic!("it ended before it was broken off: {outcome:?}"),
            () = begun => {}
        }
        sandbox.end().await;
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"old");
        assert_eq!(drafts_in(folder.path()), 0);
    });
}

/// A draft has no name to look for, so free space is measured. Other writers only make this stop
/// earlier.
fn free_bytes(folder: &std::path::Path) -> u64 {
    let state = nix::sys::statvfs::statvfs(folder).unwrap();
    state.blocks_free() * state.fragment_size()
}

/// Files with names that no test created.
fn drafts_in(folder: &std::path::Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                drafts_in(&entry.path())
            } else {
                usize::from(entry.file_name().to_string_lossy().starts_with(".hotcell-"))
            }
        })
        .sum()
}

fn drafts(world: &TestSandbox) -> usize {
    drafts_in(world.folder.path())
}

#[test]
fn rename_remove_and_make_folder() {
    within(async {
        let world = TestSandbox::new().await;
        let path = |name: &str| world.path(name);
        fs::write(path("a"), "a").unwrap();
        world.rename("a", "deep/er/b").await.unwrap();
        assert_eq!(fs::read(path("deep/er/b")).unwrap(), b"a");
        fs::write(path("c"), "c").unwrap();
        world.rename("c", "deep/er/b").await.unwrap();
        assert_eq!(fs::read(path("deep/er/b")).unwrap(), b"c");
        let refused = world.rename("nothing", "else").await;
        assert_refused(
            refused,
            RefusalKind::NotFound,
            "cannot rename `/workspace/nothing`",
        );

        let refused = world.remove("deep", false).await;
        assert_refused(
            refused,
            RefusalKind::Other,
            "cannot remove `/workspace/deep`",
        );
        let refused = world.remove("nothing", true).await;
        assert_refused(refused, RefusalKind::NotFound, "cannot remove");
        // Removes a symlink, not its target.
        symlink("deep", path("link")).unwrap();
        world.remove("link", true).await.unwrap();
        assert!(path("deep/er/b").exists());
        world.remove("deep", true).await.unwrap();
        assert!(!path("deep").exists());

        for _ in 0..2 {
            world.make_folder("m/n/o").await.unwrap();
        }
        assert!(path("m/n/o").is_dir());
        world.remove("m/n/o", false).await.unwrap();
        fs::write(path("file"), "").unwrap();
        let refused = world.make_folder("file").await;
        assert_refused(
            refused,
            RefusalKind::Exists,
            "cannot make `/workspace/file`",
        );
        let made = world.make_folder("/usr/new").await;
        if nature::has_own_root() {
            made.unwrap()
        } else {
            assert_refused(made, RefusalKind::Denied, "cannot make `/usr/new`")
        }
        world.end().await;
    });
}

#[test]
fn stat_tells_each_kind_apart() {
    within(async {
        let world = TestSandbox::new().await;
        world
            .text("echo 12345 > file; chmod 640 file; mkdir folder; mkfifo fifo")
            .await;
        symlink("file", world.path("link")).unwrap();
        symlink("nowhere", world.path("dangling")).unwrap();
        for (path, kind, target) in [
            ("file", FileKind::File, None),
            ("folder", FileKind::Folder, None),
            (".", FileKind::Folder, None),
            ("link", FileKind::Symlink, Some("file")),
            ("dangling", FileKind::Symlink, Some("nowhere")),
            ("fifo", FileKind::Other, None),
            ("/dev/null", FileKind::Other, None),
        ] {
            let metadata = world.stat(path).await.unwrap();
            assert_eq!(metadata.kind, kind, "{path}");
            assert_eq!(metadata.target, target.map(ByteString::from), "{path}");
        }
        let metadata = world.stat("file").await.unwrap();
        assert_eq!((metadata.size, metadata.mode), (6, 0o640));
        let modified = fs::metadata(world.path("file"))
            .unwrap()
            .modified()
            .unwrap();
        let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(
            Duration::from_millis(metadata.modified as u64).as_millis(),
            modified.as_millis()
        );
        let refused = world.stat("nothing").await;
        assert_refused(
            refused,
            RefusalKind::NotFound,
            "cannot inspect `/workspace/nothing`",
        );
        world.end().await;
    });
}

#[test]
fn a_list_goes_as_deep_and_as_far_as_asked() {
    within(async {
        let world = TestSandbox::new().await;
        for (path, content) in [
            (".gitignore", "*.log\n/target/\n"),
            (".hidden", ""),
            ("a.log", ""),
            ("a.rs", "12345"),
            ("src/deep/x.rs", ""),
            ("src/keep.log", ""),
            ("src/.gitignore", "!keep.log\n"),
            ("src/y.rs", ""),
            ("target/out", ""),
        ] {
            let path = world.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        symlink("src", world.path("link")).unwrap();
        // A name that is not valid UTF-8.
        world.text("touch \"$(printf 'odd\\377')\"").await;
        let list = async |path: &str, depth, ignore, limit| {
            let request = ListRequest {
                path: ByteString::from(path),
                depth,
                ignore,
                hidden: false,
                globs: Vec::new(),
                limit,
            };
            let (entries, truncated) = world.list(request).await.unwrap().collect().await.unwrap();
            let name = |entry: &ListEntry| entry.path.to_string();
            (
                entries.iter().map(name).collect::<Vec<_>>().join(" "),
                truncated,
            )
        };
        let all = ".gitignore .hidden a.log a.rs link odd\u{fffd} src target";
        assert_eq!(list(".", 1, false, 100).await, (all.into(), false));
        let kept = "a.rs link odd\u{fffd} src";
        assert_eq!(list(".", 1, true, 100).await, (kept.into(), false));
        let kept = "a.rs link odd\u{fffd} src src/deep src/keep.log src/y.rs";
        assert_eq!(list(".", 2, true, 100).await, (kept.into(), false));
        let deep = "deep deep/x.rs keep.log y.rs";
        assert_eq!(
            list("/workspace/src", 9, true, 100).await,
            (deep.into(), false)
        );
        assert_eq!(list(".", 1, true, 2).await, ("a.rs link".into(), true));
        assert!(!list(".", 1, true, 4).await.1);
        assert_eq!(list(".", 1, true, 0).await, (String::new(), true));

        let request = |path: &str| ListRequest {
            path: ByteString::from(path),
            depth: 1,
            ignore: false,
            hidden: false,
            globs: Vec::new(),
            limit: 100_000,
        };
        let (entries, _) = world
            .list(request("."))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let find = |name: &str| {
            entries
                .iter()
                .find(|entry| entry.path == ByteString::from(name))
                .unwrap()
        };
        assert_eq!((find("a.rs").kind, find("a.rs").size), (FileKind::File, 5));
        assert_eq!(find("src").kind, FileKind::Folder);
        assert_eq!(find("link").kind, FileKind::Symlink);

        for (path, kind) in [
            ("nowhere", RefusalKind::NotFound),
            ("a.rs", RefusalKind::WrongType),
        ] {
            let refused = world.list(request(path)).await.unwrap().collect().await;
            assert_refused(refused, kind, "cannot list");
        }
        // Many batches, and dropping the stream in the middle is allowed.
        let count = portion(10_000).max(1500);
        world
            .text(&format!("mkdir many; cd many; seq {count} | xargs touch"))
            .await;
        let (entries, _) = world
            .list(request("many"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(entries.len() as u64, count);
        for _ in 0..10 {
            let mut batches = world.list(request("many")).await.unwrap();
            assert!(batches.next().await.unwrap().is_some());
        }
        assert_eq!(list("src", 1, true, 9).await.0, "deep keep.log y.rs");
        world.end().await;
    });
}
