//! Disks of folders: their content, and when they are made again.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use images::{Digest, HostPrograms, ImageError, build_disk, build_disk_with};
use tempfile::TempDir;

fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::write(root.path().join("usr/bin/tool"), "#!/bin/sh\n").unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.path().join("usr/bin/tool"), mode).unwrap();
    fs::write(root.path().join("large"), vec![7; 3_000_000]).unwrap();
    symlink("/usr/bin", root.path().join("bin")).unwrap();
    root
}

/// A folder that has only this program, and `unshare`, which it needs.
fn programs_with_only(program: &str) -> (TempDir, HostPrograms) {
    let folder = tempfile::tempdir().unwrap();
    for name in [program, "unshare"] {
        let found = HostPrograms::default().find(name).unwrap();
        symlink(found, folder.path().join(name)).unwrap();
    }
    let programs = HostPrograms::in_folders([folder.path()]);
    (folder, programs)
}

fn extract_disk(disk: &Path, into: &Path) {
    let end = disk.extension().unwrap().to_str().unwrap();
    let mut command = match end {
        "erofs" => {
            let mut command = Command::new("fsck.erofs");
            command
                .arg(format!("--extract={}", into.display()))
                .arg(disk);
            command
        }
        "squashfs" => {
            let mut command = Command::new("unsquashfs");
            command.args(["-f", "-d"]).args([into, disk]);
            command
        }
        _ => {
            let mut command = Command::new("/sbin/debugfs");
            command.arg("-R").arg(format!("rdump / {}", into.display()));
            command.arg(disk);
            command
        }
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn each_file_system_holds_the_tree_as_it_is() {
    for (maker, end) in [
        ("mkfs.erofs", "erofs"),
        ("mksquashfs", "squashfs"),
        ("mkfs.ext4", "ext4"),
    ] {
        let (root, cache, out) = (
            tree(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let (_folder, programs) = programs_with_only(maker);
        let made = build_disk_with(&programs, cache.path(), root.path(), None).unwrap();
        assert_eq!(made.extension().unwrap(), end);
        extract_disk(&made, out.path());
        let (before, after) = (root.path(), out.path());
        for name in ["usr/bin/tool", "large"] {
            let same = fs::read(before.join(name)).unwrap() == fs::read(after.join(name)).unwrap();
            assert!(same, "{maker}: {name}");
            let about = |folder: &Path| fs::metadata(folder.join(name)).unwrap();
            assert_eq!(about(before).mode(), about(after).mode(), "{maker}");
            assert_eq!(about(before).mtime(), about(after).mtime(), "{maker}");
        }
        let link = fs::read_link(after.join("bin")).unwrap();
        assert_eq!(link, PathBuf::from("/usr/bin"), "{maker}");
        let left: Vec<_> = fs::read_dir(cache.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "the disk and the lock: {left:?}");
    }
}

#[test]
fn a_folder_that_has_changed_gets_a_new_disk() {
    let (root, cache) = (tree(), tempfile::tempdir().unwrap());
    let make = || build_disk(cache.path(), root.path(), None).unwrap();
    let first = make();
    let inode = fs::metadata(&first).unwrap().ino();
    assert_eq!(make(), first);
    assert_eq!(fs::metadata(&first).unwrap().ino(), inode, "made twice");
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(root.path().join("usr/bin/tool"), mode).unwrap();
    let second = make();
    assert_ne!(second, first);
    fs::remove_file(root.path().join("bin")).unwrap();
    symlink("/usr/lib", root.path().join("bin")).unwrap();
    assert_ne!(make(), second);
}

#[test]
fn an_image_has_one_disk_whatever_its_folder_looks_like() {
    let (root, cache) = (tree(), tempfile::tempdir().unwrap());
    let digest = Digest::of(b"an image");
    let first = build_disk(cache.path(), root.path(), Some(&digest)).unwrap();
    fs::write(root.path().join("new"), "").unwrap();
    let second = build_disk(cache.path(), root.path(), Some(&digest)).unwrap();
    assert_eq!(first, second);
}

#[test]
fn what_was_never_finished_goes_and_what_fails_leaves_nothing() {
    let (root, cache) = (tree(), tempfile::tempdir().unwrap());
    let rubbish = cache.path().join("someone.part");
    fs::write(&rubbish, "half").unwrap();
    build_disk(cache.path(), root.path(), None).unwrap();
    assert!(!rubbish.exists());

    let broken = tempfile::tempdir().unwrap();
    let program = broken.path().join("mkfs.erofs");
    fs::write(
        &program,
        "#!/bin/sh\nfor last; do :; done\necho half > \"$5\"\necho no space >&2\nexit 1\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = HostPrograms::in_folders([broken.path()]);
    let cache = tempfile::tempdir().unwrap();
    let error = build_disk_with(&programs, cache.path(), root.path(), None).unwrap_err();
    assert!(
        error.to_string().ends_with("mkfs.erofs: no space"),
        "{error}"
    );
    let left: Vec<_> = fs::read_dir(cache.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "the lock alone: {left:?}");
}

#[test]
fn what_cannot_be_a_disk_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let empty = HostPrograms::in_folders([cache.path()]);
    let error = build_disk_with(&empty, cache.path(), tree().path(), None).unwrap_err();
    assert!(matches!(error, ImageError::NoDiskMaker), "{error}");
    let error = build_disk(cache.path(), Path::new("/etc/passwd"), None).unwrap_err();
    assert!(matches!(error, ImageError::NotAFolder(_)), "{error}");
}
