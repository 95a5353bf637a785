//! Following a job from any sequence number, late, or slowly.

use std::sync::Arc;

use protocol::job::{JobRequest, JobState};
use protocol::{Event, EventKind};
use store::jobs::JobQuery;

use super::script::{bash, text};
use super::test_server::{RunningTestServer, TestSite, scripted, task, within};
use crate::app::Caller;
use crate::hub::{JobUpdate, TurnBoundary};

/// All updates until the end.
async fn collect_updates(
    server: &RunningTestServer,
    id: protocol::job::JobId,
    after: u64,
) -> Vec<JobUpdate> {
    let follower = server.app.follow(&Caller::local(), id, after).await;
    let mut follower = follower.unwrap();
    let mut updates = Vec::new();
    while let Some(update) = follower.next().await {
        updates.push(update);
    }
    updates
}

fn seqs(updates: &[JobUpdate]) -> Vec<u64> {
    let seqs = updates.iter().filter_map(|update| match update {
        JobUpdate::Event { seq, .. } => *seq,
        _ => None,
    });
    seqs.collect()
}

fn event(update: &JobUpdate) -> Option<Event> {
    match update {
        JobUpdate::Event { json, .. } => Some(serde_json::from_str(json).unwrap()),
        _ => None,
    }
}

#[test]
fn a_job_can_be_followed_from_every_event_during_and_after() {
    within(async {
        let server = Arc::new(TestSite::new().open().await);
        let replies = [bash("echo 1"), bash("echo 2"), text("that is all")];
        let gate = server.scripts.add_gated("slow", replies);
        let id = server.schedule(scripted("slow")).await;
        let mut live = tokio::task::JoinSet::new();
        for after in [0, 1, 2, 3] {
            let server = server.clone();
            live.spawn(async move { (after, collect_updates(&server, id, after).await) });
        }
        gate.asked(1).await;
        gate.open(1);
        gate.asked(2).await;
        for after in [0, 2, 4, 5] {
            let server = server.clone();
            live.spawn(async move { (after, collect_updates(&server, id, after).await) });
        }
        gate.open(2);
        let job = server.end_of(id).await;
        let stored = server.events(id).await;
        let last = stored.len() as u64;
        let check = |after: u64, updates: &[JobUpdate]| {
            let expect: Vec<u64> = (after + 1..=last).collect();
            assert_eq!(seqs(updates), expect, "after {after}");
            assert!(matches!(updates.first(), Some(JobUpdate::Job(_))));
            let [.., JobUpdate::Job(ended), JobUpdate::End] = updates else {
                panic!("the end is missing after {after}");
            };
            assert_eq!(ended.job.revision, job.revision);
        };
        while let Some(followed) = live.join_next().await {
            let (after, updates) = followed.unwrap();
            check(after, &updates);
            let revisions: Vec<u64> = updates
                .iter()
                .filter_map(|update| match update {
                    JobUpdate::Job(snapshot) => Some(snapshot.job.revision),
                    _ => None,
                })
                .collect();
            assert!(revisions.is_sorted_by(|one, next| one < next));
        }
        for after in 0..=last {
            let updates = collect_updates(&server, id, after).await;
            let expect: Vec<u64> = (after + 1..=last).collect();
            assert_eq!(seqs(&updates), expect);
            assert!(matches!(updates.last(), Some(JobUpdate::End)));
        }
        let turns: Vec<TurnBoundary> = collect_updates(&server, id, 0)
            .await
            .iter()
            .filter_map(|update| match update {
                JobUpdate::Event { turn, .. } => *turn,
                _ => None,
            })
            .collect();
        assert_eq!(turns, [TurnBoundary::Started(1), TurnBoundary::Ended(1)]);
        Arc::into_inner(server).unwrap().close().await;
    });
}

#[test]
fn a_late_follower_gets_the_current_partial_reply() {
    within(async {
        let server = TestSite::new().open().await;
        let long = llm::script::ScriptedReply {
            pace_ms: 5,
            ..text(&"word ".repeat(2000))
        };
        server.scripts.add("wordy", [long]);
        let id = server.schedule(scripted("wordy")).await;
        let mut first = server.app.follow(&Caller::local(), id, 0).await.unwrap();
        let mut pieces = 0;
        while pieces < 10 {
            let update = first.next().await.unwrap();
            if let Some(EventKind::TextDelta { .. }) = event(&update).map(|event| event.kind) {
                pieces += 1;
            }
        }
        let mut late = server.app.follow(&Caller::local(), id, 0).await.unwrap();
        let text = loop {
            let update = late.next().await.unwrap();
            if let Some(EventKind::TextDelta { text }) = event(&update).map(|event| event.kind) {
                break text;
            }
        };
        assert!(text.len() >= "word ".len() * 10, "{text}");
        server.app.cancel(&Caller::local(), id).await.unwrap();
        server.close().await;
    });
}

#[test]
fn a_reader_that_lags_misses_no_persistent_event() {
    within(async {
        let server = TestSite::new().open().await;
        let mut replies: Vec<_> = (0..60)
            .map(|number| bash(&format!("seq {number} 200")))
            .collect();
        let wordy = text(&"word ".repeat(3000));
        replies.extend([wordy]);
        server.scripts.add("busy", replies);
        let id = server.schedule(scripted("busy")).await;
        let mut slow = server.app.follow(&Caller::local(), id, 0).await.unwrap();
        // Reads up to the first live update, and nothing more before everything has happened.
        let mut updates = Vec::new();
        let mut is_live = false;
        while !is_live {
            let update = slow.next().await.unwrap();
            is_live = event(&update).is_some_and(|event| event.seq.is_none());
            updates.push(update);
        }
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete, "{:?}", job.state);
        while let Some(update) = slow.next().await {
            updates.push(update);
        }
        let last = server.events(id).await.len() as u64;
        assert!(last > 100);
        assert_eq!(seqs(&updates), (1..=last).collect::<Vec<_>>());
        assert!(matches!(updates.last(), Some(JobUpdate::End)));
        server.close().await;
    });
}

#[test]
fn a_queued_job_can_be_followed_to_its_end() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let server = site.open().await;
        let gate = server.scripts.add_gated("held", [text("done")]);
        let held = server.schedule(scripted("held")).await;
        gate.asked(1).await;
        let queued = server.schedule(task("later")).await;
        let mut follower = server
            .app
            .follow(&Caller::local(), queued, 0)
            .await
            .unwrap();
        match follower.next().await {
            Some(JobUpdate::Job(snapshot)) => assert_eq!(snapshot.job.state, JobState::Queued),
            other => panic!("{other:?}"),
        }
        gate.open(1);
        server.end_of(held).await;
        let mut states = Vec::new();
        let mut is_ended = false;
        while let Some(update) = follower.next().await {
            match update {
                JobUpdate::Job(snapshot) => states.push(snapshot.job.state.clone()),
                JobUpdate::End => is_ended = true,
                JobUpdate::Event { .. } => {}
            }
        }
        assert_eq!(states, [JobState::Running, JobState::Complete]);
        assert!(is_ended);
        server.parts.ending.cancel();
        server.close().await;
    });
}

#[test]
fn many_follow_one_job() {
    within(async {
        let server = Arc::new(TestSite::new().open().await);
        let replies = [bash("seq 1 100"), text("that is all")];
        let gate = server.scripts.add_gated("popular", replies);
        let request = JobRequest {
            ..scripted("popular")
        };
        let id = server.schedule(request).await;
        gate.asked(1).await;
        let mut followers = tokio::task::JoinSet::new();
        for _ in 0..500 {
            let server = server.clone();
            followers.spawn(async move { seqs(&collect_updates(&server, id, 0).await) });
        }
        gate.open(2);
        server.end_of(id).await;
        let last = server.events(id).await.len() as u64;
        while let Some(updates) = followers.join_next().await {
            assert_eq!(updates.unwrap(), (1..=last).collect::<Vec<_>>());
        }
        Arc::into_inner(server).unwrap().close().await;
    });
}

#[test]
fn the_spending_of_a_running_job_is_current() {
    within(async {
        let server = TestSite::new().open().await;
        let gate = server
            .scripts
            .add_gated("slow", [bash("true"), text("done")]);
        let id = server.schedule(scripted("slow")).await;
        gate.open(1);
        gate.asked(2).await;
        let caller = Caller::local();
        let listed = server.app.list(&caller, JobQuery::default()).await.unwrap();
        for job in [
            server.app.job(&caller, id).await.unwrap(),
            listed[0].clone(),
        ] {
            assert_eq!((job.spending.requests, job.spending.cost), (1, Some(0.5)));
        }
        gate.open(2);
        let job = server.end_of(id).await;
        assert_eq!((job.spending.requests, job.spending.cost), (2, Some(1.0)));
        server.close().await;
    });
}
