//! Messages to jobs that run, wait, or have ended.

use std::time::Duration;

use protocol::job::{Cause, JobRequest, JobState};
use protocol::{EventKind, Outcome};

use super::script::{bash, text};
use super::test_server::{TestSite, check_cause, scripted, within, zip_names};
use crate::app::{AppError, Caller};
use crate::hub::JobUpdate;

#[test]
fn what_is_said_to_a_running_job_is_its_next_turn() {
    within(async {
        let house = TestSite::new().open().await;
        let replies = [text("one"), text("two"), text("three")];
        let gate = house.scripts.add_gated("talker", replies);
        let id = house.schedule(scripted("talker")).await;
        gate.asked(1).await;
        assert_eq!(house.say(id, "second").await.messages, 2);
        assert_eq!(house.say(id, "third").await.messages, 3);
        gate.open(3);
        let job = house.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("three"));
        assert_eq!(
            house.delivered_messages(id).await,
            ["do as talker says", "second", "third"]
        );
        assert_eq!(job.epoch, 1);
        house.close().await;
    });
}

#[test]
fn an_interrupted_job_waits_for_what_is_meant_instead() {
    within(async {
        let house = TestSite::new().open().await;
        house.scripts.add(
            "sleepy",
            [bash("echo a > a; sleep 1000"), text("that instead")],
        );
        let id = house.schedule(scripted("sleepy")).await;
        let mut follower = house.app.follow(&Caller::local(), id, 0).await.unwrap();
        while let Some(update) = follower.next().await {
            if let JobUpdate::Event { json, .. } = update
                && json.contains("tool_started")
            {
                break;
            }
        }
        let caller = Caller::local();
        house.app.interrupt(&caller, id).await.unwrap();
        house.until(id, |job| job.state == JobState::Waiting).await;
        // There is no turn to interrupt now.
        let again = house.app.interrupt(&caller, id).await;
        assert!(matches!(again, Err(AppError::Conflict(_))));
        house.say(id, "do that instead").await;
        let job = house.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("that instead"));
        let events = house.events(id).await;
        let outcomes: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::TurnEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [Outcome::Interrupted, Outcome::Done]);
        house.close().await;
    });
}

#[test]
fn an_interrupted_job_that_hears_nothing_more_has_failed() {
    within(async {
        let mut site = TestSite::new();
        site.config.linger = Duration::from_millis(50);
        let house = site.open().await;
        let gate = house.scripts.add_gated("silent", [text("never said")]);
        let id = house.schedule(scripted("silent")).await;
        gate.asked(1).await;
        house.app.interrupt(&Caller::local(), id).await.unwrap();
        check_cause(&house.end_of(id).await, Cause::Interrupted);
        house.close().await;
    });
}

#[test]
fn an_interactive_job_waits_for_each_next_message_in_its_sandbox() {
    within(async {
        let house = TestSite::new().open().await;
        house.scripts.add(
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
        let id = house.schedule(request).await;
        let job = house.until(id, |job| job.state == JobState::Waiting).await;
        assert_eq!(house.app.work().running, 1);
        let ran = job.ran_millis;
        house.say(id, "write it").await;
        // Until the message is received, the record with two messages is the one that waited for
        // the second.
        while house.delivered_messages(id).await.len() < 2 {
            tokio::task::yield_now().await;
        }
        house.until(id, |job| job.state == JobState::Waiting).await;
        let job = house.app.cancel(&Caller::local(), id).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        assert!(job.ran_millis >= ran);
        assert_eq!(job.epoch, 1);
        let kept = house.folder(id).workspace().join("kept");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "inside\n");
        house.close().await;
    });
}

#[test]
fn an_interactive_job_to_which_nobody_talks_is_complete() {
    within(async {
        let mut site = TestSite::new();
        site.config.linger = Duration::from_millis(50);
        let house = site.open().await;
        house.scripts.add("chatty", [text("hello")]);
        let request = JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let id = house.schedule(request).await;
        let job = house.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("hello"));
        house.close().await;
    });
}

#[test]
fn a_job_that_has_ended_wakes_up_in_its_own_workspace() {
    within(async {
        let house = TestSite::new().open().await;
        house.scripts.add(
            "sleeper",
            [
                bash("echo 1 > one"),
                text("first"),
                bash("cat one > two"),
                text("second"),
            ],
        );
        let id = house.schedule(scripted("sleeper")).await;
        let first = house.end_of(id).await;
        assert_eq!(zip_names(&house.folder(id)), ["one"]);
        let woken = house.say(id, "and now").await;
        assert_eq!((woken.state, woken.ended), (JobState::Queued, None));
        let second = house
            .until(id, |job| job.epoch == 2 && job.state.has_ended())
            .await;
        assert_eq!(second.state, JobState::Complete);
        assert_eq!(second.session, first.session);
        assert_eq!(second.answer.as_deref(), Some("second"));
        assert_eq!(second.spending.requests, 4, "over all claims");
        assert!(second.ran_millis > first.ran_millis);
        assert_eq!(zip_names(&house.folder(id)), ["one", "two"]);
        assert_eq!(
            house.delivered_messages(id).await,
            ["do as sleeper says", "and now"]
        );
        house.close().await;
    });
}

#[test]
fn a_budget_holds_over_all_claims() {
    within(async {
        let house = TestSite::new().open().await;
        house.scripts.add("spender", vec![text("again"); 10]);
        let request = JobRequest {
            budget: protocol::job::JobBudget {
                turns: Some(2),
                ..Default::default()
            },
            ..scripted("spender")
        };
        let id = house.schedule(request).await;
        assert_eq!(house.end_of(id).await.state, JobState::Complete);
        for epoch in 2..=3 {
            house.say(id, "again").await;
            let job = house
                .until(id, |job| job.epoch == epoch && job.state.has_ended())
                .await;
            assert_eq!(job.spending.requests, 2);
            match epoch {
                2 => assert_eq!(job.state, JobState::Complete),
                _ => check_cause(&job, Cause::Budget),
            }
        }
        house.close().await;
    });
}

#[test]
fn every_message_arrives_once_even_when_it_races_with_the_end() {
    within(async {
        let house = TestSite::new().open().await;
        house.scripts.add("racer", vec![text("yes"); 60]);
        let id = house.schedule(scripted("racer")).await;
        let mut said = vec!["do as racer says".to_owned()];
        for number in 0..30 {
            let text = format!("message {number}");
            house.say(id, &text).await;
            said.push(text);
            if number % 3 == 0 {
                house.until(id, |job| job.state.has_ended()).await;
            }
        }
        let count = said.len();
        loop {
            house.end_of(id).await;
            if house.delivered_messages(id).await.len() == count {
                break;
            }
        }
        assert_eq!(house.delivered_messages(id).await, said);
        house.close().await;
    });
}

#[test]
fn a_job_that_only_waits_makes_room_for_one_that_has_something_to_do() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let house = site.open().await;
        house.scripts.add("chatty", [text("hello")]);
        let request = JobRequest {
            interactive: true,
            ..scripted("chatty")
        };
        let waiting = house.schedule(request).await;
        house
            .until(waiting, |job| job.state == JobState::Waiting)
            .await;
        let other = house.schedule(super::test_server::task("work")).await;
        assert_eq!(house.end_of(other).await.state, JobState::Complete);
        assert_eq!(house.job(waiting).await.state, JobState::Complete);
        house.close().await;
    });
}
