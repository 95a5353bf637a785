//! Recovery of the jobs that the last server left.

use std::time::Duration;

use protocol::job::{Cause, JobState};
use protocol::{EventKind, Outcome};

use super::script::{bash, text};
use super::test_server::{TestSite, check_cause, scripted, task, within, zip_names};
use crate::app::{AppError, Caller};
use crate::error::ServeError;
use crate::job::MAX_CRASHES;
use crate::keys::create_key;
use crate::server::Server;

#[test]
fn a_parked_job_continues_in_its_own_workspace() {
    within(async {
        let site = TestSite::new();
        let replies = [
            bash("echo 1 >> lines"),
            bash("echo 2 >> lines"),
            bash("echo 3 >> lines"),
            text("three lines"),
        ];
        let gate = site.scripts.add_gated("writer", replies);
        let server = site.open().await;
        let id = server.schedule(scripted("writer")).await;
        gate.open(2);
        gate.asked(3).await;
        server.close().await;

        let server = site.open().await;
        let parked = server.job(id).await;
        assert_eq!(parked.crashes, 0, "an end in order is no crash");
        gate.open(10);
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!((job.epoch, job.crashes), (2, 0));
        let lines = server.folder(id).workspace().join("lines");
        assert_eq!(std::fs::read_to_string(lines).unwrap(), "1\n2\n3\n");
        assert_eq!(server.delivered_messages(id).await, ["do as writer says"]);
        let continued = server
            .events(id)
            .await
            .iter()
            .filter(|event| matches!(event.kind, EventKind::TurnContinued { .. }))
            .count();
        assert_eq!(continued, 1);
        server.close().await;
    });
}

#[test]
fn running_jobs_continue_from_their_last_event_after_a_crash() {
    within(async {
        let site = TestSite::new();
        site.scripts
            .add("two", [bash("echo 1 > one"), text("first"), text("second")]);
        // The state that a server leaves when it dies after each event: the session up to that
        // event, and a record that is claimed.
        let server = site.open().await;
        let whole = server.schedule(scripted("two")).await;
        server.end_of(whole).await;
        let events = server.events(whole).await;
        server.close().await;

        for stored in 0..=events.len() {
            // No worker runs while the state is prepared.
            let server = site.server().await;
            let parts = server.parts().clone();
            let app = crate::app::App::new(parts.clone());
            let caller = Caller::local();
            let accepted = app.schedule(&caller, scripted("two"), None, None).await;
            let id = accepted.unwrap().id;
            let mut job = parts.jobs.job(id).await.unwrap().unwrap();
            let session: protocol::SessionId =
                format!("20260131-1745{stored:02}-abcd").parse().unwrap();
            let claim = crate::job::JobChange::Claim {
                session: session.clone(),
            };
            parts.change(&mut job, claim, None).await.unwrap();
            let mut journal = parts.store.begin(session.clone()).await.unwrap();
            for event in &events[..stored] {
                // Its checkpoints belong to another session.
                if matches!(event.kind, EventKind::CheckpointMade { .. }) {
                    continue;
                }
                let kind = event.kind.clone();
                journal.append(event.time, kind).await.unwrap();
            }
            if stored > 0 {
                // The workspace is there before the first event.
                let folder = crate::folder::JobFolder::new(&site.config.data, id);
                std::fs::create_dir_all(folder.workspace()).unwrap();
            }
            drop((journal, app, parts, server));

            let server = site.open().await;
            let job = server.end_of(id).await;
            assert_eq!(job.state, JobState::Complete, "{stored}: {:?}", job.state);
            assert_eq!((job.epoch, job.crashes), (2, 1), "{stored}");
            assert_eq!(
                server.delivered_messages(id).await,
                ["do as two says"],
                "{stored}"
            );
            let outcomes: Vec<_> = server
                .events(id)
                .await
                .into_iter()
                .filter_map(|event| match event.kind {
                    EventKind::TurnEnded { outcome, .. } => Some(outcome),
                    _ => None,
                })
                .collect();
            assert_eq!(outcomes, [Outcome::Done], "{stored}");
            assert!(job.artifact.is_some());
            server.close().await;
        }
    });
}

#[test]
fn messages_sent_before_a_crash_arrive_after_it() {
    within(async {
        let site = TestSite::new();
        let gate = site.scripts.add_gated("talker", vec![text("yes"); 5]);
        let server = site.open().await;
        let id = server.schedule(scripted("talker")).await;
        gate.asked(1).await;
        server.send_message(id, "second").await;
        server.send_message(id, "third").await;
        server.close().await;
        gate.open(10);
        let server = site.open().await;
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(
            server.delivered_messages(id).await,
            ["do as talker says", "second", "third"]
        );
        server.close().await;
    });
}

#[test]
fn queued_jobs_survive_a_restart() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let gate = site.scripts.add_gated("held", [text("done")]);
        let server = site.open().await;
        let mut ids = vec![server.schedule(scripted("held")).await];
        gate.asked(1).await;
        for _ in 0..5 {
            ids.push(server.schedule(task("later")).await);
        }
        server.close().await;
        gate.open(1);
        let server = site.open().await;
        for id in ids {
            assert_eq!(server.end_of(id).await.state, JobState::Complete);
        }
        server.close().await;
    });
}

#[test]
fn a_deadline_counts_what_ran_before_a_restart() {
    within(async {
        let site = TestSite::new();
        site.scripts
            .add("sleepy", [bash("sleep 1000"), text("late")]);
        let server = site.open().await;
        let request = protocol::job::JobRequest {
            timeout: Some(600),
            ..scripted("sleepy")
        };
        let id = server.schedule(request).await;
        server.until(id, |job| job.state == JobState::Running).await;
        let job = server.job(id).await;
        // As if it had run for all but one second of its time.
        server.close().await;
        let jobs = store::JobStore::open(&site.config.data).await.unwrap();
        let mut parked = jobs.job(id).await.unwrap().unwrap();
        assert!(parked.ran_millis >= job.ran_millis);
        parked.ran_millis = 599_000;
        jobs.change(parked, Default::default()).await.unwrap();
        drop(jobs);
        let server = site.open().await;
        let job = server.end_of(id).await;
        check_cause(&job, Cause::Deadline);
        assert!((600_000..630_000).contains(&job.ran_millis));
        server.close().await;
    });
}

#[test]
fn a_job_that_crashes_many_servers_ends() {
    within(async {
        let site = TestSite::new();
        let gate = site.scripts.add_gated("deadly", [text("never said")]);
        let server = site.open().await;
        let id = server.schedule(scripted("deadly")).await;
        gate.asked(1).await;
        server.close().await;
        let jobs = store::JobStore::open(&site.config.data).await.unwrap();
        let mut job = jobs.job(id).await.unwrap().unwrap();
        job.crashes = MAX_CRASHES - 1;
        job.state = JobState::Running;
        jobs.change(job, Default::default()).await.unwrap();
        drop(jobs);
        let server = site.open().await;
        check_cause(&server.job(id).await, Cause::Crashes);
        server.close().await;
    });
}

#[test]
fn a_server_that_ends_lets_running_jobs_finish_if_there_is_time() {
    within(async {
        let mut site = TestSite::new();
        site.config.drain = Duration::from_secs(50);
        let gate = site
            .scripts
            .add_gated("quick", [bash("echo 1 > one"), text("done")]);
        let server = site.open().await;
        let id = server.schedule(scripted("quick")).await;
        gate.asked(1).await;
        let app = server.app.clone();
        let ending = server.parts.ending.clone();
        let closed = tokio::spawn(server.close());
        ending.cancelled().await;
        let refused = app
            .schedule(&Caller::local(), task("late"), None, None)
            .await;
        assert!(matches!(refused, Err(AppError::Ending)));
        assert!(matches!(app.check().await, Err(AppError::Ending)));
        gate.open(2);
        closed.await.unwrap();
        drop((app, ending));
        let server = site.open().await;
        let job = server.job(id).await;
        assert_eq!((job.state, job.epoch), (JobState::Complete, 1));
        assert_eq!(zip_names(&server.folder(id)), ["one"]);
        server.close().await;
    });
}

#[test]
fn a_job_that_only_waits_is_complete_when_the_server_ends() {
    within(async {
        let mut site = TestSite::new();
        site.config.drain = Duration::from_secs(50);
        site.scripts.add("chatty", [text("hello")]);
        let server = site.open().await;
        let request = protocol::job::JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let id = server.schedule(request).await;
        server.until(id, |job| job.state == JobState::Waiting).await;
        server.close().await;
        let server = site.open().await;
        let job = server.job(id).await;
        assert_eq!((job.state, job.epoch), (JobState::Complete, 1));
        server.close().await;
    });
}

#[test]
fn a_data_folder_has_one_server_and_strangers_need_keys() {
    within(async {
        let site = TestSite::new();
        let server = site.server().await;
        let start = |address: &str| {
            let address = address.parse().unwrap();
            Server::start(site.config.clone(), site.scripts.clone(), address)
        };
        let second = start("127.0.0.1:0").await;
        assert!(matches!(second, Err(ServeError::InUse { .. })));
        drop(server);

        let open = start("0.0.0.0:0").await;
        assert!(matches!(open, Err(ServeError::NoKeys { .. })));
        let jobs = store::JobStore::open(&site.config.data).await.unwrap();
        let now = jiff::Timestamp::now();
        let role = protocol::job::UserRole::Admin;
        let made = create_key(&jobs, "ada".to_owned(), role, String::new(), now).await;
        let (key, _) = made.unwrap();
        let open = start("0.0.0.0:0").await.unwrap();
        assert!(open.parts().config.require_keys);
        drop(open);
        jobs.revoke_key(key.id, now).await.unwrap();
        let open = start("0.0.0.0:0").await;
        assert!(matches!(open, Err(ServeError::NoKeys { .. })));
    });
}
