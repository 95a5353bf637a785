//! Sets a quota on a file system that the test creates, abandons it as a killed process would, and checks
//! that the next one removes it. Needs root; otherwise the tests assert that no quota is available.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;

use super::*;

struct QuotaFilesystem(tempfile::TempDir);

impl QuotaFilesystem {
    fn path(&self) -> PathBuf {
        self.0.path().join("mounted")
    }

    fn new() -> Option<Self> {
        let mounted = Self(tempfile::tempdir().unwrap());
        let image = mounted.0.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let features = ["-q", "-O", "project,quota", "-E", "quotatype=prjquota"];
        let made = Command::new("/usr/sbin/mkfs.ext4")
            .args(features)
            .arg(&image)
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(mounted.path()).unwrap();
        let done = Command::new("mount")
            .args(["-o", "loop,prjquota"])
            .arg(&image)
            .arg(mounted.path())
            .status();
        done.unwrap().success().then_some(mounted)
    }
}

impl Drop for QuotaFilesystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_limit_that_was_left_behind_is_lifted_by_the_next() {
    let locks = tempfile::tempdir().unwrap();
    let set = |folder: &Path| ProjectQuota::set(folder, locks.path(), 4 << 20, 100);
    let Some(mounted) = QuotaFilesystem::new() else {
        // Not root, or a kernel without quotas.
        let outcome = set(locks.path());
        assert!(
            matches!(outcome, Err(ProjectQuotaError::NotEnforced(_))),
            "{outcome:?}"
        );
        return;
    };
    let [first, second] = ["first", "second"].map(|name| mounted.path().join(name));
    fs::create_dir_all(first.join("folder")).unwrap();
    fs::write(first.join("folder/file"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("/etc", first.join("link")).unwrap();
    fs::create_dir(&second).unwrap();

    let quota = set(&first).unwrap();
    let limits = quota.limits().unwrap();
    assert_eq!(limits.bytes - limits.used_bytes, 4 << 20);
    assert_eq!(limits.inodes - limits.used_inodes, 100);
    assert!(limits.used_bytes >= 1 << 20, "{limits:?}");
    let label = |path: &str| calls::label_of(&File::open(first.join(path)).unwrap()).unwrap();
    let id = quota.id.number;
    assert_eq!(label("folder"), ProjectLabel::inherited(id));
    assert_eq!(label("folder/file").id, id);
    assert!(matches!(set(&first), Err(ProjectQuotaError::InUse)));

    // A killed process leaves the limit without a lock.
    let files = [&quota.id._lock, &quota.folder].map(AsRawFd::as_raw_fd);
    std::mem::forget(quota);
    for file in files {
        nix::unistd::close(file).unwrap();
    }
    let probe = File::open(&first).unwrap();
    assert!(calls::limits(&probe, id).unwrap().is_limited());
    let other = set(&second).unwrap();
    assert_ne!(other.id.number, id);
    assert!(!calls::limits(&probe, id).unwrap().is_limited());
    drop(other);

    // The folder keeps its project until the next quota on it ends.
    let again = set(&first).unwrap();
    assert_eq!(again.id.number, id);
    drop(again);
    assert_eq!(label("folder/file").id, 0);
    assert_eq!(label("folder"), ProjectLabel::default());
    assert!(!calls::limits(&probe, id).unwrap().is_limited());
}

#[test]
fn an_id_has_one_owner() {
    let locks = tempfile::tempdir().unwrap();
    let first = ProjectId::try_lock(locks.path(), 7).unwrap();
    assert!(first.is_some());
    assert!(ProjectId::try_lock(locks.path(), 7).unwrap().is_none());
    drop(first);
    assert!(ProjectId::try_lock(locks.path(), 7).unwrap().is_some());
    assert_eq!(fs::read_dir(locks.path()).unwrap().count(), 0);
}
