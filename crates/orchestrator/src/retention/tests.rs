//! Which jobs are deleted, in which order, and cleanup after a crash.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::sync::atomic::{AtomicU32, Ordering};

use jiff::SignedDuration;
use protocol::job::{JobId, JobRequest, JobState};
use protocol::{EventKind, SessionId};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

/// Counted, because random numbers repeat once in a million times.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

struct RetentionScene {
    data: TempDir,
    task: RetentionTask,
    now: Timestamp,
}

const DAY: SignedDuration = SignedDuration::from_hours(24);

impl RetentionScene {
    async fn new(days: u64, size: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        let task = RetentionTask {
            jobs: JobStore::open(data.path()).await.unwrap(),
            store: SessionStore::open(data.path()).await.unwrap(),
            data: data.path().to_path_buf(),
            retention: Retention {
                age: Duration::from_secs(days * 86_400),
                size,
            },
        };
        Self {
            data,
            task,
            now: Timestamp::now(),
        }
    }

    /// A job with a session and a folder of this size, which ended this many days ago or has not
    /// ended.
    async fn job(&self, ended: Option<i32>, bytes: usize) -> Job {
        let now = self.now.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        let session = SessionId::new(&now, SESSIONS.fetch_add(1, Ordering::Relaxed));
        let mut journal = self.task.store.begin(session.clone()).await.unwrap();
        let started = EventKind::SessionStarted {
            release: "1".to_owned(),
            workspace: "/w".to_owned(),
            model: "model".to_owned(),
            forked_from: None,
        };
        journal.append(self.now, started).await.unwrap();
        drop(journal);
        let ended = ended.map(|days| self.now - DAY * days);
        let job = Job {
            state: match ended {
                Some(_) => JobState::Complete,
                None => JobState::Running,
            },
            epoch: 1,
            started: Some(self.now),
            ended,
            session: Some(session),
            ..Job::new(
                JobId(Uuid::now_v7()),
                "owner".to_owned(),
                JobRequest {
                    task: "task".to_owned(),
                    ..JobRequest::default()
                },
                self.now,
            )
        };
        let begun = Job {
            state: JobState::Queued,
            ended: None,
            session: None,
            ..job.clone()
        };
        self.task.jobs.schedule(begun, None).await.unwrap();
        let changed = self
            .task
            .jobs
            .change(job.clone(), Default::default())
            .await
            .unwrap();
        let store::jobs::ChangeResult::Saved(job) = changed else {
            panic!("there is no other writer");
        };
        let workspace = self.folder(&job).workspace();
        fs::create_dir_all(&workspace).unwrap();
        fs::write(workspace.join("file"), vec![1; bytes]).unwrap();
        *job
    }

    fn folder(&self, job: &Job) -> JobFolder {
        JobFolder::new(self.data.path(), job.id)
    }

    /// Whether a job exists; it must be complete or completely gone.
    async fn has(&self, job: &Job) -> bool {
        let record = self.task.jobs.job(job.id).await.unwrap().is_some();
        let session = self
            .task
            .store
            .summary(job.session.as_ref().unwrap())
            .await
            .is_ok();
        let folder = self.folder(job).path().exists();
        assert_eq!((session, folder), (record, record), "{job:?}");
        record
    }

    async fn round(&self) -> u64 {
        self.task.round(self.now).await.unwrap().deleted
    }
}

#[tokio::test]
async fn expired_jobs_are_deleted_with_all_their_data() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let (old, older) = (scene.job(Some(31), 1).await, scene.job(Some(400), 1).await);
    let (young, active) = (scene.job(Some(29), 1).await, scene.job(None, 1).await);
    assert_eq!(scene.round().await, 2);
    let mut left = Vec::new();
    for job in [&old, &older, &young, &active] {
        left.push(scene.has(job).await);
    }
    assert_eq!(left, [false, false, true, true]);
    assert_eq!(scene.round().await, 0);
}

#[tokio::test]
async fn when_all_are_too_large_the_longest_ended_go_first() {
    let scene = RetentionScene::new(365, 5 << 20).await;
    let mut jobs = Vec::new();
    for days in [3, 1, 4, 2] {
        jobs.push(scene.job(Some(days), 2 << 20).await);
    }
    // Jobs that have not ended count, and stay.
    let active = scene.job(None, 1 << 20).await;
    assert_eq!(scene.round().await, 3);
    let mut left = Vec::new();
    for job in &jobs {
        left.push(scene.has(job).await);
    }
    assert_eq!(left, [false, true, false, false]);
    assert!(scene.has(&active).await);
    // Sparse files use no disk space.
    let sparse = File::create(scene.folder(&active).workspace().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    assert_eq!(scene.round().await, 0);
    // The round ends even if no more jobs can be deleted.
    fs::write(
        scene.folder(&active).workspace().join("large"),
        vec![1; 8 << 20],
    )
    .unwrap();
    assert_eq!(scene.round().await, 1);
    assert!(scene.has(&active).await);
    assert_eq!(scene.round().await, 0);
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let job = scene.job(Some(1), 1).await;
    let folder = scene.folder(&job);
    // The server died right after the record was deleted.
    orphans::mark(&folder, job.session.as_ref()).unwrap();
    assert!(scene.task.jobs.forget(job.id, job.revision).await.unwrap());
    // And while other files were created: they may still become jobs.
    let fresh = JobFolder::new(scene.data.path(), JobId(Uuid::now_v7()));
    fs::create_dir_all(fresh.workspace()).unwrap();
    let uploads = scene.data.path().join("uploads");
    fs::create_dir(&uploads).unwrap();
    fs::write(uploads.join("fresh.zip"), "zip").unwrap();
    let strange = scene.data.path().join("jobs/not-a-job");
    fs::create_dir(&strange).unwrap();
    assert_eq!(scene.round().await, 0);
    assert!(!scene.has(&job).await);
    assert!(fresh.path().exists() && uploads.join("fresh.zip").exists());
    // Two hours later they are stale.
    let later = scene.now + SignedDuration::from_hours(2);
    assert_eq!(scene.task.round(later).await.unwrap().deleted, 0);
    assert!(!fresh.path().exists() && !uploads.join("fresh.zip").exists());
    assert!(strange.exists());
}

#[tokio::test]
async fn a_job_that_was_requeued_meanwhile_stays() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let job = scene.job(Some(60), 1).await;
    let woken = Job {
        state: JobState::Queued,
        ended: None,
        ..job.clone()
    };
    scene
        .task
        .jobs
        .change(woken, Default::default())
        .await
        .unwrap();
    let RetentionTask {
        jobs, store, data, ..
    } = &scene.task;
    assert!(!delete_job(jobs, store, data, &job).await.unwrap());
    assert_eq!(scene.round().await, 0);
    assert!(scene.has(&job).await);
}

#[tokio::test]
async fn a_job_is_measured_once_for_each_end() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let job = scene.job(Some(1), 1 << 20).await;
    let measure = async |job: &Job| scene.task.measure(job).await.unwrap();
    let once = measure(&job).await;
    assert!((1 << 20..2 << 20).contains(&once), "{once}");
    let more = scene.folder(&job).workspace().join("more");
    fs::write(more, vec![1; 1 << 20]).unwrap();
    assert_eq!(measure(&job).await, once);
    let later = Job {
        revision: job.revision + 1,
        ..job.clone()
    };
    assert!(measure(&later).await >= once + (1 << 20));
    let running = Job {
        state: JobState::Running,
        ..job
    };
    assert!(measure(&running).await >= once + (1 << 20));
    assert_eq!(sizes::measure(&scene.data.path().join("no")).unwrap(), 0);
}

#[tokio::test]
async fn outputs_and_checkpoints_of_a_session_count() {
    let scene = RetentionScene::new(365, 5 << 20).await;
    let (old, young) = (scene.job(Some(2), 1).await, scene.job(Some(1), 1).await);
    let store = &scene.task.store;
    let before = scene.task.measure(&old).await.unwrap();
    assert_eq!(scene.round().await, 0);
    let output = vec![b'a'; 3 << 20];
    let session = old.session.as_ref().unwrap();
    store.store_output(session, output).await.unwrap();
    let bytes = vec![b'b'; 3 << 20];
    let hash = store::ContentHash(
        sha2::Digest::finalize(sha2::Digest::chain_update(
            <sha2::Sha256 as sha2::Digest>::new(),
            &bytes,
        ))
        .into(),
    );
    let file = store::FileRecord {
        path: b"file".to_vec(),
        kind: store::RecordedKind::File {
            size: bytes.len() as u64,
            content: hash,
        },
        mode: 0o644,
        stamp: store::FileStamp {
            inode: 1,
            modified: 1,
            changed: 1,
        },
    };
    store.put_contents(vec![(hash, bytes)]).await.unwrap();
    let saved = store.save_checkpoint(session, 1, &[file], 1 << 30).await;
    saved.unwrap();
    let after = scene.task.measure(&old).await.unwrap();
    assert!(after >= before + (6 << 20), "{before} {after}");
    assert_eq!(scene.round().await, 1);
    assert!(!scene.has(&old).await);
    assert!(scene.has(&young).await);
}

#[tokio::test]
async fn a_job_that_ends_above_the_size_begins_a_round() {
    let scene = RetentionScene::new(365, 2 << 20).await;
    let old = scene.job(Some(1), 1 << 20).await;
    let (ended, ends) = mpsc::channel(8);
    let end = CancellationToken::new();
    let running = tokio::spawn(run(scene.task.clone(), ends, end.clone()));
    let new = scene.job(Some(0), 1 << 20).await;
    ended.send(new.id).await.unwrap();
    while scene.task.jobs.job(old.id).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(scene.task.jobs.job(new.id).await.unwrap().is_some());
    end.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_clock_that_jumped_before_the_start_deletes_nothing() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let job = scene.job(Some(1), 1).await;
    let jumped = scene.now + DAY * 60;
    for _ in 0..2 {
        // Restarts.
        let mut age_clock = AgeClock::open(&scene.task).await;
        let now = age_clock.now(jumped).await;
        assert_eq!(scene.task.round(now).await.unwrap().deleted, 0);
    }
    assert!(scene.has(&job).await);
    let mut age_clock = AgeClock::open(&scene.task).await;
    assert!(age_clock.now(scene.now).await >= scene.now);
    // Without the jump the job would be deleted.
    assert_eq!(scene.task.round(jumped).await.unwrap().deleted, 1);
}

#[tokio::test]
async fn rounds_end_when_the_server_does() {
    let scene = RetentionScene::new(30, u64::MAX).await;
    let old = scene.job(Some(31), 1).await;
    let (_ended, ends) = mpsc::channel(8);
    let end = CancellationToken::new();
    let running = tokio::spawn(run(scene.task.clone(), ends, end.clone()));
    // The first round starts at once.
    while scene.task.jobs.job(old.id).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    end.cancel();
    running.await.unwrap();
}
