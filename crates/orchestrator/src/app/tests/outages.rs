//! A provider that fails for a while: jobs wait for it, and none is lost.

use std::time::Duration;

use protocol::EventKind;
use protocol::job::{Cause, Job, JobId, JobState};
use store::jobs::ChangeExtras;

use super::script::{bash, text};
use super::test_server::{
    RunningTestServer, TestSite, check_cause, failure, scripted, within, zip_names,
};
use crate::app::Caller;
use crate::config::OutagePolicy;

const HOUR: Duration = Duration::from_secs(3600);

fn site(wait: Duration, longest_parked: Duration) -> TestSite {
    let mut site = TestSite::new();
    site.config.outages = OutagePolicy {
        first_wait: wait,
        longest_wait: wait,
        longest_parked,
        failures_to_open: 3,
    };
    site
}

fn add_builder(site: &TestSite, name: &str) {
    let replies = [bash("echo 1 >> one.txt"), text("It is built.")];
    site.scripts.add(name, replies);
}

impl RunningTestServer {
    async fn parked(&self, id: JobId) -> Job {
        let is_parked = |job: &Job| job.state == JobState::Queued && job.parked.is_some();
        self.until(id, is_parked).await
    }

    /// Checks that the job is complete, with one turn that was started once.
    async fn check_done(&self, id: JobId) {
        let job = self.end_of(id).await;
        assert_eq!(job.state, JobState::Complete, "{job:?}");
        assert_eq!(job.parked, None);
        assert_eq!(self.delivered_messages(id).await.len(), 1);
        let path = self.folder(id).workspace().join("one.txt");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "1\n");
        assert!(zip_names(&self.folder(id)).contains(&"one.txt".to_owned()));
    }
}

#[test]
fn an_outage_stops_claims_of_its_provider_alone_and_fails_no_job() {
    within(async {
        let site = site(Duration::from_millis(50), HOUR);
        add_builder(&site, "a/builder");
        add_builder(&site, "b/builder");
        let server = site.open().await;
        assert_eq!(server.app.check().await.unwrap(), [""; 0]);
        server.scripts.set_outage("a", true);
        let mut ids = Vec::new();
        for _ in 0..12 {
            ids.push(server.schedule(scripted("a/builder")).await);
        }
        while !server.parts.breakers.has_outage() {
            tokio::task::yield_now().await;
        }
        let lines = server.app.check().await.unwrap();
        assert!(
            lines[0].starts_with("the model provider `a` is failing"),
            "{lines:?}"
        );
        // Other providers are not affected.
        let other = server.schedule(scripted("b/builder")).await;
        server.check_done(other).await;
        assert!(server.parts.breakers.has_outage());
        assert!(
            server
                .parts
                .breakers
                .providers()
                .contains(&("a".to_owned(), false))
        );
        server.scripts.set_outage("a", false);
        for id in ids {
            server.check_done(id).await;
        }
        assert!(!server.parts.breakers.has_outage());
        assert_eq!(server.app.check().await.unwrap(), [""; 0]);
        assert_eq!(server.app.parked().await.unwrap(), 0);
        server.close().await;
    });
}

#[test]
fn a_job_continues_its_session_after_a_failure_of_the_provider() {
    within(async {
        let site = site(Duration::from_millis(1), HOUR);
        let replies = [bash("echo 1 >> one.txt"), text("It is built.")];
        let gate = site.scripts.add_gated("a/builder", replies);
        let server = site.open().await;
        let id = server.schedule(scripted("a/builder")).await;
        gate.open(1);
        gate.asked(2).await;
        server.scripts.set_outage("a", true);
        gate.open(2);
        gate.asked(4).await;
        let job = server.job(id).await;
        assert_eq!(job.parked.unwrap().failures, 2);
        server.scripts.set_outage("a", false);
        gate.open(1);
        server.check_done(id).await;
        assert_eq!(server.job(id).await.epoch, 3);
        let events = server.events(id).await;
        let count = |is_one: fn(&EventKind) -> bool| {
            events.iter().filter(|event| is_one(&event.kind)).count()
        };
        assert_eq!(count(|kind| matches!(kind, EventKind::Replied { .. })), 2);
        assert_eq!(
            count(|kind| matches!(kind, EventKind::TurnContinued { .. })),
            2
        );
        server.close().await;
    });
}

#[test]
fn a_parked_job_stays_parked_over_a_restart_until_a_message() {
    within(async {
        let site = site(HOUR, HOUR);
        let replies = [
            bash("echo 1 >> one.txt"),
            text("It is built."),
            text("Yes."),
        ];
        site.scripts.add("a/builder", replies);
        let server = site.open().await;
        server.scripts.set_outage("a", true);
        let id = server.schedule(scripted("a/builder")).await;
        let before = server.parked(id).await;
        let parked = before.parked.clone().unwrap();
        assert_eq!((parked.cause, parked.failures), (Cause::Provider, 1));
        assert!(parked.not_before > parked.since);
        server.close().await;

        let server = site.open().await;
        server.scripts.set_outage("a", false);
        let job = server.job(id).await;
        assert_eq!(job.epoch, before.epoch);
        let (mut now, mut then) = (job.parked.unwrap(), before.parked.unwrap());
        // The server counts the time that it was open.
        (now.waited_millis, then.waited_millis) = (0, 0);
        assert_eq!(now, then);
        assert_eq!(job.state, JobState::Queued);
        assert_eq!(server.app.parked().await.unwrap(), 1);
        server.send_message(id, "Is it built?").await;
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete);
        assert_eq!(server.delivered_messages(id).await.len(), 2);
        server.close().await;
    });
}

#[test]
fn the_next_server_continues_a_job_that_was_not_parked() {
    within(async {
        let site = site(HOUR, HOUR);
        add_builder(&site, "a/builder");
        let server = site.open().await;
        server.scripts.set_outage("a", true);
        let id = server.schedule(scripted("a/builder")).await;
        let mut job = server.parked(id).await;
        let jobs = server.parts.jobs.clone();
        server.close().await;
        // As if the server had died between the end of the turn and the end of the claim.
        job.state = JobState::Running;
        job.parked = None;
        jobs.change(job, ChangeExtras::default()).await.unwrap();

        let server = site.open().await;
        server.scripts.set_outage("a", false);
        server.check_done(id).await;
        server.close().await;
    });
}

#[test]
fn a_job_that_was_parked_too_long_fails_with_its_work() {
    within(async {
        let site = site(HOUR, Duration::from_millis(200));
        let replies = [bash("echo 1 > one.txt"), text("Never.")];
        let gate = site.scripts.add_gated("a/builder", replies);
        let server = site.open().await;
        let id = server.schedule(scripted("a/builder")).await;
        gate.open(1);
        gate.asked(2).await;
        server.scripts.set_outage("a", true);
        gate.open(10);
        let job = server.end_of(id).await;
        check_cause(&job, Cause::Provider);
        let message = &failure(&job).message;
        assert!(message.contains("overloaded; it was parked"), "{message}");
        assert_eq!(job.epoch, 2, "it had a last try");
        assert!(zip_names(&server.folder(id)).contains(&"one.txt".to_owned()));
        server.close().await;
    });
}

#[test]
fn a_parked_job_is_cancelled_at_once() {
    within(async {
        let site = site(HOUR, HOUR);
        add_builder(&site, "a/builder");
        let server = site.open().await;
        server.scripts.set_outage("a", true);
        let id = server.schedule(scripted("a/builder")).await;
        server.parked(id).await;
        let job = server.app.cancel(&Caller::local(), id).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        assert_eq!(server.app.work().queued, 0);
        server.close().await;
    });
}
