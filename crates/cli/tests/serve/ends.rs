//! Failures of jobs, each with its own cause; the server continues.

use serde_json::{Value, json};
use testkit::{ModelServer, ScriptedAnswer, StreamGate};

use crate::client::problem;
use crate::model::{RequestView, bash, overloaded, say, serve};
use crate::play::play;
use crate::processes::no_orphans;
use crate::server::{Server, Site};

/// Checks that the job of a request fails for this reason, with this message, with its files in the zip; and
/// that the server still runs other jobs.
async fn check(server: &Server, request: Value, cause: &str, words: &str) {
    let client = server.client();
    let id = client.schedule(request).await;
    let message = client.failed(&id, cause).await;
    assert!(message.contains(words), "{message}");
    let status = client.json(&format!("/status/{id}")).await;
    assert_eq!(status["status"], "error");
    assert_eq!(status["cause"], cause);
    assert_eq!(status["error"], message);
    assert_eq!(client.files(&id).await["begun.txt"], "begun\n");
    let other = client.schedule_task("Do it").await;
    client.complete(&other).await;
}

/// A model that creates a file and then does what the task says.
fn serve_task(act: impl Fn(&RequestView) -> ScriptedAnswer + Send + 'static) -> ModelServer {
    serve(move |request| {
        let heard = RequestView::of(request);
        match (heard.task(), heard.results) {
            ("Do it", _) => ScriptedAnswer::reply(say("Done.")),
            (_, 0) => ScriptedAnswer::reply(bash("echo begun > begun.txt")),
            _ => act(&heard),
        }
    })
}

#[test]
fn a_model_that_never_answers_is_stuck() {
    play(async {
        let gate = StreamGate::new();
        let model = serve_task(move |_| ScriptedAnswer::reply(say("Never")).hold(0, &gate));
        let site = Site::new(&model).flags(["--stuck-after", "1s"]);
        let server = site.start().await;
        let request = json!({ "task": "Wait" });
        check(&server, request, "stuck", "no sign of life").await;
    });
}

#[test]
fn a_job_ends_at_its_deadline_with_what_it_runs() {
    play(async {
        let model = serve_task(|_| ScriptedAnswer::reply(bash("sleep 1000 & sleep 1000")));
        let site = Site::new(&model);
        let server = site.start().await;
        let request = json!({ "task": "Sleep", "timeout": 1 });
        check(&server, request, "deadline", "longer than 1 seconds").await;
        // The server's limit applies to jobs without one; no job gets more.
        server.end().await;
        let server = site.start_with(&["--job-timeout", "1s"]).await;
        let request = json!({ "task": "Sleep", "timeout": 2 });
        problem(server.client().try_schedule(&request).await, 422).await;
        let request = json!({ "task": "Sleep" });
        check(&server, request, "deadline", "longer than 1 seconds").await;
        assert!(server.end().await.success());
        no_orphans().await;
    });
}

#[test]
fn a_budget_that_is_used_up_ends_the_job() {
    play(async {
        let model =
            serve_task(|heard| ScriptedAnswer::reply(bash(&format!("echo {}", heard.results))));
        let site = Site::new(&model);
        let server = site.start().await;
        for budget in [json!({ "turns": 3 }), json!({ "tokens": 10 })] {
            let request = json!({ "task": "Go on", "budget": budget });
            check(&server, request, "budget", "").await;
        }
        server.end().await;
        let server = site.start_with(&["--max-turns", "2"]).await;
        let request = json!({ "task": "Go on", "budget": { "turns": 3 } });
        problem(server.client().try_schedule(&request).await, 422).await;
        let request = json!({ "task": "Go on" });
        check(&server, request, "budget", "").await;
    });
}

#[test]
fn a_provider_that_is_gone_for_too_long_is_said_to_be() {
    play(async {
        let model = serve(|request| match RequestView::of(request).results {
            0 => ScriptedAnswer::reply(bash("echo begun > begun.txt")),
            _ => overloaded(),
        });
        let site = Site::new(&model).flags(["--max-parked", "1ms"]);
        let server = site.start().await;
        let client = server.client();
        let id = client.schedule_task("Do it").await;
        let message = client.failed(&id, "provider").await;
        assert!(message.contains("tried 6 times"), "{message}");
        assert!(message.contains("parked"), "{message}");
        assert_eq!(client.job(&id).await["attempts"], 2);
        assert_eq!(client.files(&id).await["begun.txt"], "begun\n");
    });
}

#[test]
fn who_cancels_gets_what_is_there() {
    play(async {
        let gate = StreamGate::new();
        let reached = gate.clone();
        let model = serve_task(move |_| ScriptedAnswer::reply(say("Never")).hold(0, &gate));
        let site = Site::new(&model).flags(["--concurrency", "1"]);
        let server = site.start().await;
        let client = server.client();
        let running = client.schedule_task("Wait").await;
        reached.reached().await;
        let queued = client.schedule_task("Wait").await;
        for id in [&queued, &running] {
            let path = format!("/v1/jobs/{id}/cancel");
            let answer = client.post(&path).send().await.unwrap();
            assert_eq!(answer.status(), 202);
            client.failed(id, "cancelled").await;
            // It has ended, and stays so.
            let answer = client.post(&path).send().await.unwrap();
            assert_eq!(answer.status(), 409);
        }
        assert_eq!(client.files(&running).await["begun.txt"], "begun\n");
        assert_eq!(client.job(&queued).await["artifact"], Value::Null);
    });
}
