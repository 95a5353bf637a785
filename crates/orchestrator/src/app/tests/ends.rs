//! Every way in which a job ends, and what is left of it.

use std::time::Duration;

use llm::script::ScriptedReply;
use protocol::job::{Cause, JobInput, JobRequest, JobState};
use protocol::{Budget, Limits};
use serde_json::json;

use super::script::{bash, text};
use super::test_server::{TestSite, check_cause, failure, scripted, task, within, zip_names};
use crate::app::{AppError, Caller};
use crate::hub::{JobUpdate, TurnBoundary};

#[test]
fn a_job_is_done_and_its_work_is_packed() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add(
            "builder",
            [
                ScriptedReply::call(
                    "write_file",
                    json!({"path": "src/app.js", "content": "let a = 1;\n"}),
                ),
                bash("pwd > where.txt && ln -s /etc/passwd link"),
                text("It is built."),
            ],
        );
        let id = server.schedule(scripted("builder")).await;
        let job = server.end_of(id).await;

        assert_eq!(job.state, JobState::Complete);
        assert_eq!(job.answer.as_deref(), Some("It is built."));
        assert_eq!((job.epoch, job.crashes, job.messages), (1, 0, 1));
        assert!(job.started.unwrap() <= job.ended.unwrap());
        assert_eq!(job.spending.requests, 3);
        assert_eq!(job.spending.cost, Some(1.5));
        assert!(job.ran_millis > 0);

        let folder = server.folder(id);
        let mut names = zip_names(&folder);
        names.retain(|name| !name.ends_with('/'));
        names.sort();
        assert_eq!(names, ["src/app.js", "where.txt"]);
        let artifact = job.artifact.unwrap();
        assert_eq!(
            std::fs::metadata(folder.output()).unwrap().len(),
            artifact.bytes
        );
        assert_eq!(artifact.left_out[0].path, "link");
        assert_eq!(
            std::fs::read_to_string(folder.input()).unwrap(),
            "do as builder says"
        );
        let log = std::fs::read_to_string(folder.log()).unwrap();
        for part in [
            "do as builder says",
            "bash: ",
            "It is built.",
            "job: complete",
        ] {
            assert!(log.contains(part), "{part} in {log}");
        }
        let audit = std::fs::read_to_string(folder.audit()).unwrap();
        assert!(audit.contains(&format!("{id}-e1")), "{audit}");
        server.close().await;
    });
}

#[test]
fn a_failed_job_has_a_reason() {
    within(async {
        let mut site = TestSite::new();
        site.config.policy.sandbox.limits.memory = 1 << 30;
        let server = site.open().await;
        let refused = ScriptedReply {
            stop: Some("refusal".to_owned()),
            ..text("No.")
        };
        server.scripts.add("refusing", [refused]);
        let forbidden = ScriptedReply::error(401, "authentication_error", "wrong key");
        server
            .scripts
            .add("keyless", [bash("touch before"), forbidden]);
        let endless = || (0..50).map(|number| bash(&format!("echo {number}")));
        server.scripts.add("endless", endless());

        async fn check(
            server: &super::test_server::RunningTestServer,
            request: JobRequest,
            cause: Cause,
            words: &str,
        ) {
            let id = server.schedule(request).await;
            let job = server.end_of(id).await;
            check_cause(&job, cause);
            let message = &failure(&job).message;
            assert!(message.contains(words), "`{words}` in `{message}`");
            assert!(job.artifact.is_some() || cause == Cause::Input);
        }
        check(&server, scripted("refusing"), Cause::Agent, "").await;
        check(&server, scripted("keyless"), Cause::Provider, "wrong key").await;
        let budget = |budget| JobRequest {
            budget,
            ..scripted("endless")
        };
        let turns = Budget {
            turns: Some(3),
            ..Budget::default()
        };
        check(&server, budget(turns), Cause::Budget, "3 requests").await;
        let cost = Budget {
            cost: Some(2.0),
            ..Budget::default()
        };
        check(&server, budget(cost), Cause::Budget, "$2").await;
        let git = JobRequest {
            input: Some(JobInput::Git {
                url: "https://127.0.0.1:9/nothing.git".to_owned(),
                branch: None,
            }),
            ..task("look at it")
        };
        match server.app.schedule(&Caller::local(), git, None, None).await {
            Err(AppError::Invalid(_)) => {}
            Ok(accepted) => check_cause(&server.end_of(accepted.id).await, Cause::Input),
            Err(error) => panic!("{error}"),
        }
        server.close().await;
    });
}

#[test]
fn a_sandbox_that_cannot_start_fails_the_job() {
    within(async {
        let mut site = TestSite::new();
        site.config.policy.sandbox.root =
            sandbox::RootSpec::Image(site.folder.path().join("there is none"));
        let server = site.open().await;
        let id = server.schedule(task("anything")).await;
        check_cause(&server.end_of(id).await, Cause::Sandbox);
        server.close().await;
    });
}

#[test]
fn a_sandbox_that_dies_is_replaced_and_the_job_goes_on() {
    within(async {
        let server = TestSite::new().open().await;
        server.scripts.add(
            "greedy",
            [
                bash("echo kept > file; head -c 900M /dev/zero | tail"),
                text("Still here."),
            ],
        );
        let request = JobRequest {
            limits: Limits {
                memory: Some(64 << 20),
                ..Limits::default()
            },
            ..scripted("greedy")
        };
        let id = server.schedule(request).await;
        let job = server.end_of(id).await;
        assert_eq!(job.state, JobState::Complete, "{:?}", job.state);
        assert_eq!(job.answer.as_deref(), Some("Still here."));
        assert_eq!(zip_names(&server.folder(id)), ["file"]);
        server.close().await;
    });
}

#[test]
fn a_queued_job_is_cancelled_at_once_and_a_running_one_with_its_work() {
    within(async {
        let mut site = TestSite::new();
        site.config.concurrency = 1;
        let server = site.open().await;
        let replies = || [bash("echo 1 > one"), text("never said")];
        let gate = server.scripts.add_gated("slow", replies());
        let running = server.schedule(scripted("slow")).await;
        gate.open(1);
        gate.asked(2).await;
        let queued = server.schedule(task("never begun")).await;
        assert_eq!(
            (server.app.work().queued, server.app.work().running),
            (1, 1)
        );

        let caller = Caller::local();
        let job = server.app.cancel(&caller, queued).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        assert_eq!((job.epoch, server.app.work().queued), (0, 0));

        let job = server.app.cancel(&caller, running).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        assert_eq!(zip_names(&server.folder(running)), ["one"]);
        let again = server.app.cancel(&caller, running).await;
        assert!(matches!(again, Err(AppError::Conflict(_))));
        server.close().await;
    });
}

/// The agent and the sandbox are already gone while a job is packed.
#[test]
fn cancelling_a_job_at_its_end_has_one_result() {
    within(async {
        let server = TestSite::new().open().await;
        let caller = Caller::local();
        let name = |number: u32| format!("maker-{number}");
        for number in 0..8 {
            let script = [bash("head -c 4000000 /dev/urandom > noise"), text("Done.")];
            server.scripts.add(&name(number), script);
            let id = server.schedule(scripted(&name(number))).await;
            let mut follower = server.app.follow(&caller, id, 0).await.unwrap();
            while let Some(update) = follower.next().await {
                if let JobUpdate::Event {
                    turn: Some(TurnBoundary::Ended(_)),
                    ..
                } = update
                {
                    break;
                }
            }
            match server.app.cancel(&caller, id).await {
                Ok(job) => check_cause(&job, Cause::Cancelled),
                Err(AppError::Conflict(_)) => {
                    assert_eq!(server.job(id).await.state, JobState::Complete);
                }
                Err(error) => panic!("{error}"),
            }
            assert!(zip_names(&server.folder(id)).contains(&"noise".to_owned()));
        }
        server.close().await;
    });
}

#[test]
fn a_command_that_runs_is_stopped_when_its_job_is_cancelled() {
    within(async {
        let server = TestSite::new().open().await;
        server
            .scripts
            .add("sleepy", [bash("echo x > begun; sleep 1000")]);
        let id = server.schedule(scripted("sleepy")).await;
        let mut follower = server.app.follow(&Caller::local(), id, 0).await.unwrap();
        while let Some(update) = follower.next().await {
            if let JobUpdate::Event { json, .. } = update
                && json.contains("tool_started")
            {
                break;
            }
        }
        let job = server.app.cancel(&Caller::local(), id).await.unwrap();
        check_cause(&job, Cause::Cancelled);
        server.close().await;
    });
}

#[test]
fn a_job_past_its_deadline_ends_with_its_work() {
    within(async {
        let server = TestSite::new().open().await;
        server
            .scripts
            .add("sleepy", [bash("echo x > begun; sleep 1000"), text("late")]);
        let request = JobRequest {
            timeout: Some(2),
            ..scripted("sleepy")
        };
        let id = server.schedule(request).await;
        let job = server.end_of(id).await;
        check_cause(&job, Cause::Deadline);
        assert!(job.ran_millis >= 2000);
        assert_eq!(zip_names(&server.folder(id)), ["begun"]);
        server.close().await;
    });
}

#[test]
fn a_job_without_events_is_stuck() {
    within(async {
        let mut site = TestSite::new();
        site.config.stuck_after = Duration::from_secs(1);
        let server = site.open().await;
        let gate = server.scripts.add_gated("silent", [text("never said")]);
        let id = server.schedule(scripted("silent")).await;
        let job = server.end_of(id).await;
        check_cause(&job, Cause::Stuck);
        assert_eq!(gate.count(), 1);
        server.close().await;
    });
}

#[test]
fn a_panic_of_a_worker_or_an_agent_does_not_lose_its_job() {
    within(async {
        let server = TestSite::new().open().await;
        for (model, words) in [("fragile", "worker broke"), ("explosive", "agent broke")] {
            let id = server.schedule(scripted(model)).await;
            let job = server.end_of(id).await;
            check_cause(&job, Cause::Server);
            assert!(failure(&job).message.contains(words), "{:?}", job.state);
        }
        // Other jobs continue.
        let id = server.schedule(task("anything")).await;
        assert_eq!(server.end_of(id).await.state, JobState::Complete);
        let app = server.app.clone();
        server.close().await;
        assert_eq!((app.work().queued, app.work().running), (0, 0));
    });
}
