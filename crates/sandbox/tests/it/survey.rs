//! The requests for checkpoints of the workspace: listing everything, and restoring it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use sandbox::MAX_READ_BYTES;
use sandbox::request::{ByteString, FileKind, ListRequest, RefusalKind, SurveyEntry, WriteMode};

use crate::under_test::nature;
use crate::world::{TestSandbox, assert_refused, within};

async fn survey(world: &TestSandbox, path: &str, limit: u64) -> (Vec<SurveyEntry>, bool) {
    let batches = world.survey(path, limit).await.unwrap();
    batches.collect().await.unwrap()
}

#[test]
fn a_survey_sees_everything_and_follows_nothing() {
    within(async {
        let world = TestSandbox::new().await;
        for (path, content) in [
            (".git/HEAD", "ref"),
            (".gitignore", "ignored\n"),
            ("b/c", "12345"),
            ("ignored", ""),
        ] {
            let path = world.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        symlink("/etc", world.path("link")).unwrap();
        let script = "mkfifo fifo; touch \"$(printf 'a\\377\\nz')\"; \
                      touch -d 1960-01-02 b/c; chmod 640 b/c";
        world.text(script).await;
        let (all, truncated) = survey(&world, ".", 1000).await;
        let names: Vec<&[u8]> = all.iter().map(|one| one.path.0.as_slice()).collect();
        let expect: [&[u8]; 9] = [
            b".git",
            b".git/HEAD",
            b".gitignore",
            b"a\xff\nz",
            b"b",
            b"b/c",
            b"fifo",
            b"ignored",
            b"link",
        ];
        assert_eq!((names, truncated), (expect.to_vec(), false));
        let find = |name: &str| {
            all.iter()
                .find(|one| one.path == ByteString::from(name))
                .unwrap()
        };
        let metadata = fs::metadata(world.path("b/c")).unwrap();
        let nanoseconds = |seconds: i64, rest: i64| seconds * 1_000_000_000 + rest;
        let expect = SurveyEntry {
            path: ByteString::from("b/c"),
            kind: FileKind::File,
            mode: 0o640,
            size: 5,
            inode: if nature::keeps_inodes() {
                metadata.ino()
            } else {
                find("b/c").inode
            },
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            target: None,
        };
        assert_eq!(find("b/c"), &expect);
        assert!(expect.modified_ns < 0 && expect.changed_ns > 0);
        assert_eq!(find("fifo").kind, FileKind::Other);
        assert_eq!(find("link").target, Some(ByteString::from("/etc")));
        assert_eq!(find("b").kind, FileKind::Folder);

        let (some, truncated) = survey(&world, ".", 3).await;
        assert_eq!((some.as_slice(), truncated), (&all[..3], true));
        assert!(!survey(&world, ".", 9).await.1);
        assert_eq!(
            survey(&world, "b", 9).await.0[0].path,
            ByteString::from("c")
        );
        for (path, kind) in [
            ("nowhere", RefusalKind::NotFound),
            ("ignored", RefusalKind::WrongType),
        ] {
            let refused = world.survey(path, 9).await.unwrap().collect().await;
            assert_refused(refused, kind, "cannot survey");
        }
        world.end().await;
    });
}

#[test]
fn links_and_modes_can_be_put_back() {
    within(async {
        let world = TestSandbox::new().await;
        fs::write(world.path("file"), "old").unwrap();
        fs::create_dir(world.path("folder")).unwrap();
        let target = |name: &str| fs::read_link(world.path(name)).unwrap();
        world.make_link("new/deep", "../file").await.unwrap();
        assert_eq!(target("new/deep").to_str(), Some("../file"));
        // Replaces a link or a file, and never follows it.
        world.make_link("new/deep", "/nowhere").await.unwrap();
        assert_eq!(target("new/deep").to_str(), Some("/nowhere"));
        world.make_link("link", "file").await.unwrap();
        world.make_link("link", "folder").await.unwrap();
        assert_eq!(fs::read(world.path("file")).unwrap(), b"old");
        let refused = world.make_link("folder", "x").await;
        assert_refused(refused, RefusalKind::WrongType, "cannot make a link at");
        assert!(world.path("folder").is_dir());
        let made = world.make_link("/usr/bin/x", "x").await;
        if nature::has_own_root() {
            made.unwrap()
        } else {
            assert_refused(made, RefusalKind::Denied, "cannot make a link at")
        }

        let mode = |name: &str| fs::metadata(world.path(name)).unwrap().mode() & 0o7777;
        for bits in [0o600, 0o755, 0] {
            world.set_mode("file", bits).await.unwrap();
            assert_eq!(mode("file"), bits);
        }
        world.set_mode("folder", 0o700).await.unwrap();
        assert_eq!(mode("folder"), 0o700);
        for bits in [0o4755, 0o2755, 0o1777, 0o100644] {
            let refused = world.set_mode("file", bits).await;
            assert_refused(refused, RefusalKind::Invalid, "only permission bits");
        }
        let refused = world.set_mode("link", 0o777).await;
        assert_refused(refused, RefusalKind::WrongType, "it is a symlink");
        let refused = world.set_mode("nothing", 0o777).await;
        assert_refused(refused, RefusalKind::NotFound, "cannot set the mode of");
        assert_eq!((mode("file"), mode("folder")), (0, 0o700));

        let replace = WriteMode::Replace;
        let write = world.write_file_with("file", "new", replace, Some(0o750));
        write.await.unwrap();
        assert_eq!(mode("file"), 0o750);
        world.write_file("file", "newer", replace).await.unwrap();
        assert_eq!(mode("file"), 0o750);
        assert_eq!(fs::read(world.path("file")).unwrap(), b"newer");
        let left: Vec<_> = fs::read_dir(world.folder.path()).unwrap().collect();
        assert_eq!(left.len(), 4, "{left:?}");
        world.end().await;
    });
}

#[test]
fn a_huge_file_is_not_read_by_mistake() {
    within(async {
        let world = TestSandbox::new().await;
        let file = fs::File::create(world.path("huge")).unwrap();
        file.set_len(MAX_READ_BYTES + 10).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o666))
            .unwrap();
        for length in [None, Some(u64::MAX), Some(MAX_READ_BYTES + 1)] {
            let refused = world.read_file("huge", 0, length).await;
            assert_refused(refused, RefusalKind::Limit, "it is longer than 64M");
        }
        let (metadata, part) = world.read_file("huge", 0, Some(10)).await.unwrap();
        assert_eq!((metadata.size, part.len()), (MAX_READ_BYTES + 10, 10));
        let (_, rest) = world.read_file("huge", MAX_READ_BYTES, None).await.unwrap();
        assert_eq!(rest.len(), 10);
        // In pieces, completely.
        let mut reading = world.open_file("huge", 5, None).await.unwrap();
        let mut length = 0;
        while let Some(piece) = reading.next().await.unwrap() {
            assert!(piece.len() <= 1 << 20);
            length += piece.len() as u64;
        }
        assert_eq!(
            (length, reading.metadata.size),
            (MAX_READ_BYTES + 5, MAX_READ_BYTES + 10)
        );
        world.end().await;
    });
}

#[test]
fn a_list_can_show_hidden_files_and_only_those_that_match() {
    within(async {
        let world = TestSandbox::new().await;
        for path in [
            ".ci/x.yml",
            ".env",
            ".git/HEAD",
            "a.rs",
            "b/c.rs",
            "b/d.txt",
            "out",
        ] {
            let path = world.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(world.path(".gitignore"), "out\n").unwrap();
        symlink("b", world.path("l.rs")).unwrap();
        let check = async |ignore, hidden, globs: &[&str], expect: &str| {
            let request = ListRequest {
                path: ByteString::from("."),
                depth: 9,
                ignore,
                hidden,
                globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
                limit: 100,
            };
            let (entries, _) = world.list(request).await.unwrap().collect().await.unwrap();
            let names: Vec<_> = entries.iter().map(|one| one.path.to_string()).collect();
            assert_eq!(names.join(" "), expect, "{ignore} {hidden} {globs:?}");
            for entry in entries {
                let is_link = entry.path == ByteString::from("l.rs");
                assert_eq!(entry.target, is_link.then(|| ByteString::from("b")));
            }
        };
        check(true, false, &[], "a.rs b b/c.rs b/d.txt l.rs").await;
        let shown = ".ci .ci/x.yml .env .gitignore a.rs b b/c.rs b/d.txt l.rs";
        check(true, true, &[], shown).await;
        check(true, true, &["*.rs"], "a.rs b/c.rs l.rs").await;
        check(true, true, &["*.rs", "!b/**"], "a.rs l.rs").await;
        check(true, true, &["b/**"], "b/c.rs b/d.txt").await;
        check(false, false, &["HEAD", "out"], ".git/HEAD out").await;
        world.end().await;
    });
}
