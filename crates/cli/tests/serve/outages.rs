//! A model that fails for a while: no job is lost, and the reason for waiting is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::ScriptedAnswer;

use crate::model::{RequestView, bash, overloaded, say, serve};
use crate::play::{eventually, play};
use crate::server::{Server, Site};

const JOB_COUNT: usize = 12;

async fn text(server: &Server, path: &str) -> String {
    let answer = server.client().get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}

#[test]
fn an_outage_of_the_model_loses_no_job_not_even_with_the_server_killed_in_it() {
    play(async {
        let is_down = Arc::new(AtomicBool::new(true));
        let seen = is_down.clone();
        let model = serve(move |request| match RequestView::of(request) {
            view if view.results == 0 => ScriptedAnswer::reply(bash("echo 1 >> one.txt")),
            // The server was killed during the call: whether it has run is not known.
            view if view.done.is_empty() => ScriptedAnswer::reply(bash("echo 1 > one.txt")),
            _ if seen.load(Ordering::Relaxed) => overloaded(),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model).flags(["--concurrency", "4"]);
        let server = site.start().await;
        let mut ids = Vec::new();
        for _ in 0..JOB_COUNT {
            ids.push(server.client().schedule_task("Do it").await);
        }
        let degraded = "degraded: the model provider `anthropic` is failing";
        eventually("the breaker opens", async || {
            text(&server, "/readyz").await.contains(degraded)
        })
        .await;
        // The first request of a later job succeeds, and closes the breaker for a while.
        let up = "hotcell_provider_up{provider=\"anthropic at 127.0.0.1:";
        eventually("the metrics say so", async || {
            let metrics = text(&server, "/metrics").await;
            let line = metrics.lines().find(|line| line.starts_with(up));
            line.is_some_and(|line| line.ends_with(" 0"))
        })
        .await;
        eventually("a job says why it waits", async || {
            let jobs = server.client().jobs("").await;
            jobs.iter().any(|job| job["parked"]["cause"] == "provider")
        })
        .await;

        server.die().await;
        let server = site.start().await;
        let client = server.client();
        is_down.store(false, Ordering::Relaxed);
        for id in &ids {
            client.complete(id).await;
            assert_eq!(client.files(id).await["one.txt"], "1\n");
        }
        assert_eq!(text(&server, "/readyz").await, "ok");
        assert_eq!(client.jobs("").await.len(), JOB_COUNT);
    });
}
