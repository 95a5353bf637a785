//! Consecutive claims of the same job.
#![allow(clippy::unwrap_used)]

use protocol::job::{Job, JobState};

use super::*;
use crate::app::tests::script::text;
use crate::app::tests::test_server::{TestSite, scripted, within};
use crate::app::{App, Caller};

#[test]
fn a_worker_that_exits_late_does_not_remove_the_next_claim() {
    within(async {
        let site = TestSite::new();
        let gate = site.scripts.add_gated("slow", [text("one"), text("two")]);
        let server = site.server().await;
        let parts = server.parts().clone();
        let app = App::new(parts.clone());
        let caller = Caller::local();
        let accepted = app.schedule(&caller, scripted("slow"), None, None).await;
        let id = accepted.unwrap().id;
        let record = async || -> Job { parts.jobs.job(id).await.unwrap().unwrap() };

        let mut dispatcher = Dispatcher::new(parts.clone());
        dispatcher.start(record().await).await.unwrap();
        gate.asked(1).await;
        // The first worker requeues the job. It has not been cleaned up yet.
        parts.running_jobs.find(id).unwrap().parked.cancel();
        let mut follower = app.follow(&caller, id, 0).await.unwrap();
        while record().await.state != JobState::Queued {
            follower.next().await.unwrap();
        }
        dispatcher.start(record().await).await.unwrap();
        let second = parts.running_jobs.find(id).unwrap();
        assert_eq!(second.epoch, 2);
        let first = dispatcher.workers.join_next_with_id().await.unwrap();
        dispatcher.clear(first).await;

        let found = parts.running_jobs.find(id).unwrap();
        assert!(Arc::ptr_eq(&found, &second));
        // It can still be interrupted and cancelled.
        gate.asked(2).await;
        app.interrupt(&caller, id).await.unwrap();
        app.cancel(&caller, id).await.unwrap();
        let second = dispatcher.workers.join_next_with_id().await.unwrap();
        dispatcher.clear(second).await;
        assert!(parts.running_jobs.find(id).is_none());
    });
}
