//! The reported changes of a workspace, with a real store.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use jiff::Timestamp;
use protocol::job::{JobId, JobInput, JobRequest, JobState};
use sha2::{Digest, Sha256};
use store::{ContentHash, FileStamp, RecordedKind};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

struct ChangesScene {
    home: TempDir,
    store: SessionStore,
    job: Job,
}

impl ChangesScene {
    async fn new(input: Option<JobInput>) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("workspace")).unwrap();
        let store = SessionStore::open(&home.path().join("store"))
            .await
            .unwrap();
        let now = Timestamp::now()
            .to_zoned(jiff::tz::TimeZone::UTC)
            .datetime();
        let job = Job {
            state: JobState::Running,
            epoch: 1,
            revision: 1,
            session: Some(SessionId::new(&now, 1)),
            ..Job::new(
                JobId(Uuid::now_v7()),
                "owner".to_owned(),
                JobRequest {
                    input,
                    ..JobRequest::default()
                },
                Timestamp::now(),
            )
        };
        Self { home, store, job }
    }

    async fn with_input() -> Self {
        Self::new(Some(JobInput::Upload { bytes: 1 })).await
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.home.path().join("workspace").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(path), content).unwrap();
    }

    /// Records the workspace as it is, as an agent does before its first change.
    async fn checkpoint(&self, skipped: &[(&str, &str)]) {
        let mut files = Vec::new();
        let mut contents = Vec::new();
        let root = self.home.path().join("workspace");
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                if skipped.iter().any(|(path, _)| *path == name) {
                    continue;
                }
                let metadata = path.symlink_metadata().unwrap();
                let kind = if metadata.is_dir() {
                    folders.push(path.clone());
                    RecordedKind::Folder
                } else if metadata.is_symlink() {
                    let target = fs::read_link(&path).unwrap();
                    RecordedKind::Symlink {
                        target: target.into_os_string().into_encoded_bytes(),
                    }
                } else {
                    let content = fs::read(&path).unwrap();
                    let hash = ContentHash(Sha256::digest(&content).into());
                    let size = content.len() as u64;
                    contents.push((hash, content));
                    RecordedKind::File {
                        size,
                        content: hash,
                    }
                };
                files.push(FileRecord {
                    path: name.as_bytes().to_vec(),
                    kind,
                    mode: metadata.mode() & 0o7777,
                    stamp: FileStamp {
                        inode: metadata.ino(),
                        modified: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
                        changed: metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec(),
                    },
                });
            }
        }
        self.store.put_contents(contents).await.unwrap();
        let session = self.job.session.as_ref().unwrap();
        self.store
            .save_checkpoint(session, 1, &files, u64::MAX >> 1)
            .await
            .unwrap();
        let mut journal = self.store.begin(session.clone()).await.unwrap();
        let skipped = skipped
            .iter()
            .map(|(path, why)| ((*path).into(), (*why).into()));
        let checkpoint = Checkpoint {
            number: 1,
            files: files.len() as u64,
            bytes: 1,
            skipped: skipped.collect(),
        };
        let started = EventKind::SessionStarted {
            release: "1".to_owned(),
            workspace: "/w".to_owned(),
            model: "model".to_owned(),
            forked_from: None,
        };
        journal.append(Timestamp::now(), started).await.unwrap();
        let made = EventKind::CheckpointMade {
            turn: 1,
            moment: Moment::Before,
            checkpoint: checkpoint.clone(),
        };
        journal.append(Timestamp::now(), made).await.unwrap();
        // A later checkpoint is not the start.
        let made = EventKind::CheckpointMade {
            turn: 1,
            moment: Moment::After,
            checkpoint: Checkpoint {
                number: 2,
                ..checkpoint
            },
        };
        journal.append(Timestamp::now(), made).await.unwrap();
    }

    async fn changes(&self) -> Changes {
        let workspace = self.home.path().join("workspace");
        changes(&self.store, &self.job, &workspace).await.unwrap()
    }
}

fn lines(changes: &Changes) -> Vec<String> {
    let line = |one: &FileChange| {
        let note = one.note.as_deref().unwrap_or("-");
        format!(
            "{:?} {} +{} -{} {note}",
            one.change, one.path, one.added, one.removed
        )
    };
    changes.files.iter().map(line).collect()
}

#[tokio::test]
async fn changes_are_listed_file_by_file() {
    let scene = ChangesScene::with_input().await;
    scene.write("same", "same");
    scene.write("gone", "one\ntwo\n");
    scene.write("src/edit", "one\ntwo\nthree\n");
    scene.write("mode", "x");
    scene.write("binary", b"\0\x01");
    scene.write("touched", "text");
    scene.write(".git/index", "1");
    symlink("same", scene.path("link")).unwrap();
    symlink("same", scene.path("stays")).unwrap();
    scene.checkpoint(&[]).await;
    fs::remove_file(scene.path("gone")).unwrap();
    scene.write("src/edit", "one\n2\nthree\nfour\n");
    fs::set_permissions(scene.path("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    scene.write("binary", b"\0\x02");
    scene.write("touched", "text");
    scene.write(".git/index", "2");
    scene.write("new%41", "new\n");
    fs::remove_file(scene.path("link")).unwrap();
    symlink("/etc/passwd", scene.path("link")).unwrap();
    let changes = scene.changes().await;
    assert_eq!(
        lines(&changes),
        [
            "Changed binary +0 -0 it is not text",
            "Removed gone +0 -2 -",
            "Changed link +0 -0 it is a link to `/etc/passwd`",
            "Changed mode +0 -0 its mode was 644 and is 755",
            "Added new%2541 +1 -0 -",
            "Changed src/edit +2 -1 -",
        ]
    );
    assert_eq!(
        changes.files[5].diff.as_deref().unwrap(),
        "@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n"
    );
    assert!(!changes.is_truncated);
}

#[tokio::test]
async fn without_an_input_every_file_was_created() {
    let scene = ChangesScene::new(None).await;
    assert_eq!(scene.changes().await, Changes::default());
    scene.write("a", "one\n");
    fs::create_dir(scene.path("empty")).unwrap();
    assert_eq!(lines(&scene.changes().await), ["Added a +1 -0 -"]);
    let no_workspace = changes(&scene.store, &scene.job, &scene.home.path().join("no")).await;
    assert_eq!(no_workspace.unwrap(), Changes::default());
}

#[tokio::test]
async fn before_the_first_checkpoint_nothing_has_changed() {
    let scene = ChangesScene::with_input().await;
    scene.write("a", "one\n");
    assert_eq!(scene.changes().await, Changes::default());
    let mut waiting = scene.job.clone();
    waiting.session = None;
    let found = changes(&scene.store, &waiting, &scene.home.path().join("workspace")).await;
    assert_eq!(found.unwrap(), Changes::default());
}

#[tokio::test]
async fn files_that_no_checkpoint_has_are_not_compared() {
    let scene = ChangesScene::with_input().await;
    scene.write("large", "large");
    scene
        .checkpoint(&[("large", "it is larger than 16 MiB")])
        .await;
    scene.write("large", "changed");
    let found = scene.changes().await;
    assert_eq!(lines(&found), [""; 0]);
    assert_eq!(found.not_compared[0].path, "large");
    // A checkpoint that was pruned.
    let other = ChangesScene::with_input().await;
    other.checkpoint(&[]).await;
    let now = Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .datetime();
    let session = SessionId::new(&now, 999);
    other
        .store
        .save_checkpoint(&session, 1, &[], 0)
        .await
        .unwrap();
    other.write("a", "x");
    let found = other.changes().await;
    assert_eq!(lines(&found), [""; 0]);
    let why = "the start of the job is no longer on record";
    assert_eq!(found.not_compared[0].reason, why);
}

#[tokio::test]
async fn bounds_hold_on_files_and_bytes() {
    let scene = ChangesScene::new(None).await;
    scene.write("0-large", vec![b'x'; (1 << 20) + 1]);
    for number in 0..12 {
        scene.write(&format!("1-{number:02}"), "line of text\n".repeat(60_000));
    }
    for number in 0..600 {
        scene.write(&format!("2-{number:03}"), "x");
    }
    let found = scene.changes().await;
    assert_eq!(found.files.len(), 500);
    assert!(found.is_truncated);
    assert_eq!(
        found.files[0].note.as_deref(),
        Some("it is too large to compare")
    );
    let diffs: usize = found
        .files
        .iter()
        .filter_map(|one| one.diff.as_ref())
        .map(String::len)
        .sum();
    assert!(diffs <= 8 << 20, "{diffs}");
    let full = Some("the diffs of other files leave no room");
    assert!(found.files.iter().any(|one| one.note.as_deref() == full));
    // Small diffs still fit.
    assert!(found.files.last().unwrap().diff.is_some());
}
