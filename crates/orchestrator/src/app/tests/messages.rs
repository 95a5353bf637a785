//! Messages to jobs that run, wait, or have ended.

use std::time::Duration;

use protocol::job::{Cause, JobRequest, JobState};
use protocol::{EventKind, Outcome};

use super::script::{bash, text};
use super::test_server::{TestSite, check_cause, scripted, within, zip_names};
use crate::app::{AppError, Caller};
use crate::hub::JobUpdate;

#[test]
fn a_message_to_a_running_job_is_its_next_turn() {
    within(async {
        let server = TestSite::new().open().await;
        let replies = [text("one"), text("two"), text("three")];
        let gate = server.scripts.add_gated("talker", replies);
        let id = server.schedule(scripted("talker")).await;
        gate.asked(1).await;
        assert_eq!(server.send_message(id, "second").await.messages, 2);
        assert_eq!(server.send_message(id, "third").await.messages, 3);
        gate.open(3);
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("three"));
        assert_eq!(
            server.delivered_messages(id).await,
            ["do as talker says", "second", "third"]
        );
        assert_eq!(job.epoch, 1);
        server.close().await;
    });
}

#[test]
fn an_interrupted_job_waits_for_the_next_message() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add(
            "sleepy",
            [bash("echo a > a; sleep 1000"), text("that instead")],
        );
        let id = server.schedule(scripted("sleepy")).await;
        let mut follower = server.app.follow(&Caller::local(), id, 0).await.unwrap();
        while let Some(update) = follower.next().await {
            if let JobUpdate::Event { json, .. } = update
                && json.contains("tool_started")
            {
                break;
            }
        }
        let caller = Caller::local();
        server.app.interrupt(&caller, id).await.unwrap();
        server.until(id, |job| job.state == JobState::Waiting).await;
        // There is no turn to interrupt now.
        let again = server.app.interrupt(&caller, id).await;
        assert!(matches!(again, Err(AppError::Conflict(_))));
        server.send_message(id, "do that instead").await;
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("that instead"));
        let events = server.events(id).await;
        let outcomes: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::TurnEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [Outcome::Interrupted, Outcome::Done]);
        server.close().await;
    });
}

#[test]
fn an_interrupted_job_without_further_messages_fails() {
    within(async {
        let mut site = TestSite::new();
        site.config.linger = Duration::from_millis(50);
        let server = site.open().await;
        let gate = server.scripts.add_gated("silent", [text("never said")]);
        let id = server.schedule(scripted("silent")).await;
        gate.asked(1).await;
        server.app.interrupt(&Caller::local(), id).await.unwrap();
        check_cause(&server.end_of(id).await, Cause::Interrupted);
        server.close().await;
    });
}

#[test]
fn an_interactive_job_waits_for_each_next_message_in_its_sandbox() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add(
            "chatty",
            [
                bash("export KEPT=inside"),
                text("set"),
                bash("echo $KEPT > kept"),
                text("written"),
            ],
        );
        let request = JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let id = server.schedule(request).await;
        let job = server.until(id, |job| job.state == JobState::Waiting).await;
        assert_eq!(server.app.work().running, 1);
        let ran = job.ran_millis;
        server.send_message(id, "write it").await;
        // Until the message is received, the record with two messages is the one that waited for
        // the second.
        while server.delivered_messages(id).await.len() < 2 {
            tokio::task::yield_now().await;
        }
        server.until(id, |job| job.state == JobState::Waiting).await;
        let job = server.app.cancel(&Caller::local(), id).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        assert!(job.ran_millis >= ran);
        assert_eq!(job.epoch, 1);
        let kept = server.folder(id).workspace().join("kept");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "inside\n");
        server.close().await;
    });
}

#[test]
fn an_interactive_job_without_further_messages_completes() {
    within(async {
        let mut site = TestSite::new();
        site.config.linger = Duration::from_millis(50);
        let server = site.open().await;
        server.scripts.add("chatty", [text("hello")]);
        let request = JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let id = server.schedule(request).await;
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("hello"));
        server.close().await;
    });
}

#[test]
fn a_job_that_has_ended_wakes_up_in_its_own_workspace() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add(
            "sleeper",
            [
                bash("echo 1 > one"),
                text("first"),
                bash("cat one > two"),
                text("second"),
            ],
        );
        let id = server.schedule(scripted("sleeper")).await;
        let first = server.end_of(id).await;
        assert_eq!(zip_names(&server.folder(id)), ["one"]);
        let woken = server.send_message(id, "and now").await;
        assert_eq!((woken.state, woken.ended), (JobState::Queued, None));
        let second = server
            .until(id, |job| job.epoch == 2 && job.state.has_ended())
            .await;
        assert_eq!(second.state, JobState::Complete);
        assert_eq!(second.session, first.session);
        assert_eq!(second.answer.as_deref(), Some("second"));
        assert_eq!(second.spending.requests, 4, "over all claims");
        assert!(second.ran_millis > first.ran_millis);
        assert_eq!(zip_names(&server.folder(id)), ["one", "two"]);
        assert_eq!(
            server.delivered_messages(id).await,
            ["do as sleeper says", "and now"]
        );
        server.close().await;
    });
}

#[test]
fn a_budget_holds_over_all_claims() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add("spender", vec![text("again"); 10]);
        let request = JobRequest {
            budget: protocol::Budget {
                turns: Some(2),
                ..Default::default()
            },
            ..scripted("spender")
        };
        let id = server.schedule(request).await;
        assert_eq!(server.end_of(id).await.state, JobState::Complete);
        for epoch in 2..=3 {
            server.send_message(id, "again").await;
            let job = server
                .until(id, |job| job.epoch == epoch && job.state.has_ended())
                .await;
            assert_eq!(job.spending.requests, 2);
            match epoch {
                2 => assert_eq!(job.state, JobState::Complete),
                _ => check_cause(&job, Cause::Budget),
            }
        }
        server.close().await;
    });
}

#[test]
fn every_message_arrives_once_even_when_it_races_with_the_end() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add("racer", vec![text("yes"); 60]);
        let id = server.schedule(scripted("racer")).await;
        let mut said = vec!["do as racer says".to_owned()];
        for number in 0..30 {
            let text = format!("message {number}");
            server.send_message(id, &text).await;
            said.push(text);
            if number % 3 == 0 {
                server.until(id, |job| job.state.has_ended()).await;
            }
        }
        let count = said.len();
        loop {
            server.end_of(id).await;
            if server.delivered_messages(id).await.len() == count {
                break;
            }
        }
        assert_eq!(server.delivered_messages(id).await, said);
        server.close().await;
    });
}

#[test]
fn a_waiting_job_frees_its_slot_for_a_queued_one() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let server = site.open().await;
        server.scripts.add("chatty", [text("hello")]);
        let request = JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let waiting = server.schedule(request).await;
        server
            .until(waiting, |job| job.state == JobState::Waiting)
            .await;
        let other = server.schedule(super::test_server::task("work")).await;
        assert_eq!(server.end_of(other).await.state, JobState::Complete);
        assert_eq!(server.job(waiting).await.state, JobState::Complete);
        server.close().await;
    });
}
