//! Reading a folder that a malicious program modifies, also at the same time.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{Uid, mkfifo, setfsuid};
use tempfile::TempDir;

use super::*;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn read(tree: &UntrustedTree, path: &str) -> Result<String, TreeError> {
    let (file, bytes) = tree.open_file(path)?;
    let mut text = String::new();
    file.take(bytes).read_to_string(&mut text).unwrap();
    Ok(text)
}

/// Nested folders named `d`, with a file in the last.
fn nest(top: &Path, levels: usize) {
    let mut folder: OwnedFd = open::root(top).unwrap();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    for _ in 0..levels {
        mkdirat(&folder, "d", Mode::S_IRWXU).unwrap();
        folder = openat(&folder, "d", flags, Mode::empty()).unwrap();
    }
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
    openat(&folder, "file", flags, Mode::S_IRWXU).unwrap();
}

#[test]
fn every_file_in_a_list_can_be_read() {
    let home = folder();
    fs::create_dir(home.path().join("sub")).unwrap();
    fs::write(home.path().join("sub/100%25"), "percent").unwrap();
    fs::write(home.path().join("plain"), "four").unwrap();
    fs::write(home.path().join(OsStr::from_bytes(b"\xff\xfe")), "bytes").unwrap();
    symlink("/etc/passwd", home.path().join("link")).unwrap();
    mkfifo(&home.path().join("fifo"), Mode::S_IRWXU).unwrap();
    let tree = UntrustedTree::open(home.path()).unwrap();
    let listing = tree.list("", 100).unwrap();
    assert!(!listing.is_truncated);
    let shown: Vec<String> = listing
        .entries
        .iter()
        .map(|entry| {
            let target = entry.target.as_deref().unwrap_or("");
            format!("{} {} {:?} {target}", entry.name, entry.path, entry.kind)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "fifo fifo Other ",
            "link link Link /etc/passwd",
            "plain plain File ",
            "sub sub Folder ",
            "\u{fffd}\u{fffd} %FF%FE File ",
        ]
    );
    assert_eq!(listing.entries[2].bytes, 4);
    assert!(listing.entries[2].modified.is_some());
    assert_eq!(read(&tree, "%FF%FE").unwrap(), "bytes");
    let below = tree.list("sub", 100).unwrap();
    assert_eq!(below.entries[0].path, "sub/100%2525");
    assert_eq!(read(&tree, &below.entries[0].path).unwrap(), "percent");
    let cut = tree.list("", 2).unwrap();
    assert_eq!((cut.entries.len(), cut.is_truncated), (2, true));
}

#[test]
fn nothing_but_files_inside_can_be_opened() {
    let home = folder();
    let inside = home.path().join("inside");
    fs::create_dir_all(inside.join("folder")).unwrap();
    fs::write(home.path().join("secret"), "secret").unwrap();
    fs::write(inside.join("file"), "file").unwrap();
    symlink("../secret", inside.join("up")).unwrap();
    symlink("/", inside.join("root")).unwrap();
    symlink("file", inside.join("harmless")).unwrap();
    symlink("folder", inside.join("around")).unwrap();
    mkfifo(&inside.join("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(inside.join("socket")).unwrap();
    let tree = UntrustedTree::open(&inside).unwrap();
    let check = |path: &str, expect: &str| {
        let error = read(&tree, path).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check("up", "`up` is a link, and links are not followed");
    check(
        "harmless",
        "`harmless` is a link, and links are not followed",
    );
    check(
        "root/etc/passwd",
        "`root/etc/passwd` is a link, and links are not followed",
    );
    check("fifo", "`fifo` is not a file");
    check("socket", "`socket` is not a file");
    check("folder", "`folder` is not a file");
    check("file/below", "`file/below` is not a file");
    check("absent", "there is no `absent`");
    check("../secret", "`../secret` is no path inside the workspace");
    check(
        "/etc/passwd",
        "`/etc/passwd` is no path inside the workspace",
    );
    check("", "`` is no path inside the workspace");
    let check = |path: &str, expect: &str| {
        let error = tree.list(path, 9).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check("around", "`around` is not a folder");
    check(
        "root/etc",
        "`root/etc` is a link, and links are not followed",
    );
    check("file", "`file` is not a folder");
    check("fifo", "`fifo` is not a folder");
    check("..", "`..` is no path inside the workspace");
}

#[test]
fn kernels_with_and_without_the_one_call_refuse_the_same() {
    let home = folder();
    fs::create_dir_all(home.path().join("a/b")).unwrap();
    fs::write(home.path().join("a/b/file"), "").unwrap();
    symlink("a", home.path().join("to-a")).unwrap();
    symlink("file", home.path().join("a/b/to-file")).unwrap();
    let root = open::root(home.path()).unwrap();
    let (file, folder) = (OFlag::O_RDONLY, OFlag::O_RDONLY | OFlag::O_DIRECTORY);
    for (path, flags, expect) in [
        ("a/b/file", file, Ok(())),
        ("a/b", folder, Ok(())),
        ("", folder, Ok(())),
        ("a/b/file", folder, Err(Errno::ENOTDIR)),
        ("a/b/file/c", file, Err(Errno::ENOTDIR)),
        ("a/b/to-file", file, Err(Errno::ELOOP)),
        ("a/c", file, Err(Errno::ENOENT)),
    ] {
        let path = path.as_bytes();
        assert_eq!(
            open::open_with_openat2(root.as_fd(), path, flags).map(drop),
            expect
        );
        let stepped = open::open_step_by_step(root.as_fd(), path, flags);
        assert_eq!(stepped.map(drop), expect);
    }
    // Only the error differs for a link in a parent.
    for path in [&b"to-a/b/file"[..], b"to-a"] {
        assert!(open::open_with_openat2(root.as_fd(), path, folder).is_err());
        assert!(open::open_step_by_step(root.as_fd(), path, folder).is_err());
    }
}

#[test]
fn a_walk_is_ordered_bounded_and_deep() {
    let home = folder();
    for path in ["b/y", "b/x", "a", "c", "b/z/deep", "empty/"] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.to_str().unwrap().ends_with('/') {
            fs::create_dir_all(path).unwrap()
        } else {
            fs::write(path, "").unwrap()
        }
    }
    let walk = |most| {
        let tree = UntrustedTree::open(home.path()).unwrap();
        let mut seen = Vec::new();
        let walked = tree.walk(most, |visit| {
            seen.push(match visit {
                TreeVisit::Folder { path, is_empty, .. } => format!("{}/ {is_empty}", shown(path)),
                TreeVisit::Leaf(leaf) => shown(leaf.path),
                TreeVisit::Closed { path, .. } => format!("closed {}", path.len()),
            });
            ControlFlow::Continue(())
        });
        (seen, walked.unwrap().is_cut)
    };
    let (seen, is_cut) = walk(100);
    let expect = [
        "a",
        "c",
        "b/ false",
        "b/x",
        "b/y",
        "b/z/ false",
        "b/z/deep",
        "empty/ true",
    ];
    assert_eq!(seen, expect);
    assert!(!is_cut);
    assert!(walk(5).1);
    nest(home.path(), 10_000);
    let (seen, is_cut) = walk(100_000);
    assert_eq!(
        seen.iter().filter(|path| path.starts_with("d")).count(),
        2048
    );
    // As deep as the longest path, and no further.
    assert_eq!(seen.iter().filter(|path| *path == "closed 4097").count(), 1);
    assert!(!is_cut);
    remove_tree(home.path()).unwrap();
}

/// A folder is repeatedly swapped with a link to a secret.
#[test]
fn no_race_leads_outside() {
    let home = folder();
    let inside = home.path().join("inside");
    for folder in ["inside/real", "outside"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    fs::write(home.path().join("outside/file"), "secret").unwrap();
    fs::write(inside.join("real/file"), "harmless").unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                fs::rename(inside.join("real"), inside.join("name")).unwrap();
                fs::rename(inside.join("name"), inside.join("real")).unwrap();
                symlink("../outside", inside.join("name")).unwrap();
                fs::remove_file(inside.join("name")).unwrap();
            }
        });
        let tree = UntrustedTree::open(&inside).unwrap();
        let mut found = [0; 3];
        // Until each case was seen often, however fast the other thread is.
        while found.iter().any(|times| *times < 50) {
            match read(&tree, "name/file") {
                Ok(text) => {
                    assert_eq!(text, "harmless");
                    found[0] += 1;
                }
                Err(TreeError::Link(_)) => found[1] += 1,
                Err(TreeError::Absent(_)) => found[2] += 1,
                Err(error) => panic!("{error}"),
            }
            let walked = tree.walk(100, |visit| {
                if let TreeVisit::Leaf(leaf) = visit
                    && let Ok((mut file, _)) = leaf.open()
                {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "harmless");
                }
                ControlFlow::Continue(())
            });
            walked.unwrap();
        }
        has_ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn everything_can_be_removed_and_nothing_outside_is() {
    let home = folder();
    let (kept, doomed) = (home.path().join("kept"), home.path().join("doomed"));
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("file"), "kept").unwrap();
    fs::create_dir_all(doomed.join(".removed-1/full")).unwrap();
    fs::create_dir_all(doomed.join("a/b/c")).unwrap();
    symlink(&kept, doomed.join("a/b/link")).unwrap();
    symlink(kept.join("file"), doomed.join("a/link")).unwrap();
    mkfifo(&doomed.join("a/b/fifo"), Mode::S_IRWXU).unwrap();
    for number in 0..3000 {
        fs::write(doomed.join(format!("a/b/c/{number}")), "").unwrap();
    }
    nest(&doomed, 10_000);
    remove_tree(&doomed).unwrap();
    remove_tree(&doomed).unwrap();
    remove_tree(&home.path().join("no/such")).unwrap();
    let names: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    // A link in place of the folder is removed itself.
    symlink(&kept, &doomed).unwrap();
    remove_tree(&doomed).unwrap();
    assert!(doomed.symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
}

#[test]
fn folders_that_were_locked_are_removed() {
    let home = folder();
    let doomed = home.path().join("doomed");
    fs::create_dir_all(doomed.join("a/b/c/d")).unwrap();
    fs::write(doomed.join("a/b/c/d/file"), "").unwrap();
    fs::write(doomed.join("a/b/file"), "").unwrap();
    let is_root = Uid::effective().is_root();
    let owner = Uid::from_raw(65534);
    let paths = [
        "a/b/c/d/file",
        "a/b/c/d",
        "a/b/c",
        "a/b/file",
        "a/b",
        "a",
        "",
        "..",
    ];
    for (path, mode) in paths.iter().zip([0, 0, 0o500, 0, 0o100, 0, 0o500, 0o700]) {
        let path = doomed.join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if is_root {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if is_root {
                // Only this thread drops its capabilities, so that modes apply to it.
                setfsuid(owner);
            }
            assert!(fs::remove_dir_all(&doomed).is_err());
            remove_tree(&doomed).unwrap();
        });
    });
    assert!(doomed.symlink_metadata().is_err());
}
