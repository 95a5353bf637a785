//! Order of jobs, concurrency, and full queues.

use protocol::job::{Job, JobRequest};
use store::jobs::{IdempotencyKey, JobQuery};

use super::script::text;
use super::test_server::{TestSite, scripted, task, user, within};
use crate::app::{AppError, Caller};

#[test]
fn users_take_turns() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let server = site.open().await;
        // Blocks the only worker until all jobs are scheduled.
        let gate = server.scripts.add_gated("first", [text("first")]);
        let first = server.schedule(scripted("first")).await;
        gate.asked(1).await;
        let mut ids = vec![first];
        for (name, count) in [("ada", 4), ("bob", 2), ("eve", 1)] {
            for _ in 0..count {
                ids.push(server.schedule_for(&user(name), task("work")).await);
            }
        }
        gate.open(1);
        let mut jobs = Vec::new();
        for id in ids {
            jobs.push(server.end_of(id).await);
        }
        jobs.sort_by_key(|job| job.started);
        let order: Vec<&str> = jobs.iter().map(|job| job.owner.as_str()).collect();
        assert_eq!(
            order,
            ["local", "ada", "bob", "eve", "ada", "bob", "ada", "ada"]
        );
        server.close().await;
    });
}

#[test]
fn running_jobs_are_limited() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 3;
        site.config.running_per_user = 2;
        let server = site.open().await;
        let gate = server.scripts.add_gated("held", [text("done")]);
        let mut ids = Vec::new();
        for name in ["ada", "ada", "ada", "bob", "bob"] {
            ids.push(server.schedule_for(&user(name), scripted("held")).await);
        }
        gate.asked(3).await;
        let running: Vec<Job> = server.parts.jobs.claimed().await.unwrap();
        let of = |name: &str| running.iter().filter(|job| job.owner == name).count();
        assert_eq!((of("ada"), of("bob")), (2, 1));
        assert_eq!(
            (server.app.work().running, server.app.work().queued),
            (3, 2)
        );
        gate.open(5);
        for id in ids {
            server.end_of(id).await;
        }
        server.close().await;
    });
}

#[test]
fn a_full_queue_refuses_under_any_concurrency() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        site.config.queue = 10;
        site.config.queue_per_user = 7;
        let server = site.open().await;
        let gate = server.scripts.add_gated("held", vec![text("done"); 2]);
        let held = server.schedule(scripted("held")).await;
        gate.asked(1).await;
        let mut tries = tokio::task::JoinSet::new();
        for number in 0..40 {
            let app = server.app.clone();
            let name = ["ada", "bob"][number % 2];
            tries.spawn(async move {
                let scheduled = app.schedule(&user(name), task("wait"), None, None).await;
                (name, scheduled)
            });
        }
        let mut accepted = Vec::new();
        while let Some(tried) = tries.join_next().await {
            match tried.unwrap() {
                (name, Ok(accept)) => accepted.push((name, accept.id)),
                (_, Err(AppError::Full { retry_after, .. })) => assert!(retry_after >= 1),
                (_, Err(error)) => panic!("{error}"),
            }
        }
        assert_eq!(accepted.len(), 10);
        for name in ["ada", "bob"] {
            assert!(accepted.iter().filter(|(one, _)| *one == name).count() <= 7);
        }
        // A freed place can be used again.
        let (name, id) = accepted[0];
        server.app.cancel(&user(name), id).await.unwrap();
        server.schedule_for(&user("eve"), task("wait")).await;
        server.app.cancel(&Caller::local(), held).await.unwrap();
        server.close().await;
    });
}

#[test]
fn the_same_request_under_the_same_key_is_one_job() {
    within(async {
        let server = TestSite::new().open().await;
        let key = |fingerprint: u8| {
            Some(IdempotencyKey {
                key: "mine".to_owned(),
                fingerprint: [fingerprint; 32],
            })
        };
        let caller = user("ada");
        let schedule = |key| server.app.schedule(&caller, task("once"), None, key);
        let first = schedule(key(1)).await.unwrap();
        let second = schedule(key(1)).await.unwrap();
        assert!(first.is_new && !second.is_new);
        assert_eq!(first.id, second.id);
        assert!(matches!(schedule(key(2)).await, Err(AppError::KeyTaken)));
        server.end_of(first.id).await;
        assert_eq!(server.app.work().queued, 0, "places were given back");
        server.close().await;
    });
}

#[test]
fn a_job_is_retried_as_a_new_job_and_the_old_one_can_be_deleted() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add("one", [text("done")]);
        let upload = server.app.new_upload();
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&upload).unwrap());
        zip.start_file("given.txt", zip::write::SimpleFileOptions::default())
            .unwrap();
        std::io::Write::write_all(&mut zip, b"given").unwrap();
        zip.finish().unwrap();
        let caller = user("ada");
        let scheduled = server
            .app
            .schedule(&caller, scripted("one"), Some(upload.clone()), None);
        let id = scheduled.await.unwrap().id;
        assert!(!upload.exists());
        let old = server.end_of(id).await;

        // By an admin, for its owner.
        let new = server.app.retry(&Caller::local(), id).await.unwrap();
        assert_ne!(new.id, id);
        assert_eq!(new.owner, "ada");
        assert_eq!(new.request, old.request);
        server.app.delete(&caller, id).await.unwrap();
        let gone = server.app.job(&caller, id).await;
        assert!(matches!(gone, Err(AppError::NoJob(_))));
        assert!(!server.folder(id).path().exists());
        let session = old.session.unwrap();
        assert!(server.parts.store.events(&session).await.is_err());

        let new = server.end_of(new.id).await;
        assert_ne!(new.session.as_ref(), Some(&session));
        let given = server.folder(new.id).workspace().join("given.txt");
        assert_eq!(std::fs::read_to_string(given).unwrap(), "given");
        server.close().await;
    });
}

#[test]
fn a_job_of_another_user_is_missing() {
    within(async {
        let server = TestSite::new().open().await;
        let request = JobRequest {
            interactive: true,
            ..task("a secret heliotrope")
        };
        let id = server.schedule_for(&user("ada"), request).await;
        server
            .until(id, |job| job.state == protocol::job::JobState::Waiting)
            .await;
        let bob = user("bob");
        let app = &server.app;
        let no_job = |outcome: Result<(), AppError>| {
            assert!(matches!(outcome, Err(AppError::NoJob(_))));
        };
        no_job(app.job(&bob, id).await.map(drop));
        no_job(app.cancel(&bob, id).await.map(drop));
        no_job(app.retry(&bob, id).await.map(drop));
        no_job(app.delete(&bob, id).await);
        no_job(
            app.send_message(&bob, id, "hello".to_owned())
                .await
                .map(drop),
        );
        no_job(app.interrupt(&bob, id).await.map(drop));
        no_job(app.follow(&bob, id, 0).await.map(drop));
        no_job(app.last_event(&bob, id).await.map(drop));
        no_job(app.folder(&bob, id).await.map(drop));
        let all = || JobQuery {
            limit: 10,
            ..JobQuery::default()
        };
        assert!(app.list(&bob, all()).await.unwrap().is_empty());
        assert!(app.search(&bob, "heliotrope", 5).await.unwrap().is_empty());
        for caller in [user("ada"), Caller::local()] {
            assert_eq!(app.list(&caller, all()).await.unwrap().len(), 1);
            let found = app.search(&caller, "heliotrope", 5).await.unwrap();
            assert_eq!(found.len(), 1, "{caller:?}");
            assert_eq!(found[0].job.id, id);
        }
        app.cancel(&user("ada"), id).await.unwrap();
        server.close().await;
    });
}
