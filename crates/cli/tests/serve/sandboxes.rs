//! Sandboxes that are killed, and those that exceed their limits.

use serde_json::json;
use testkit::StreamGate;

use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::processes::{kill_sandbox_with, no_orphans};
use crate::server::Site;
use testkit::ScriptedAnswer;

#[test]
fn a_sandbox_that_is_killed_from_outside_ends_no_server() {
    for (number, is_guest) in [(1, true), (2, false)] {
        play(async move {
            let mark = format!("100{number}.{}", std::process::id());
            let command = format!("echo begun > begun.txt; sleep {mark}");
            let model = serve(move |request| {
                let heard = RequestView::of(request);
                match (heard.task(), heard.results) {
                    ("Sleep", 0) => bash(&command),
                    // A new sandbox, on the same workspace.
                    ("Sleep", 1) => bash("cat begun.txt > seen.txt"),
                    _ => say("Done."),
                }
            });
            let site = Site::new(&model);
            let server = site.start().await;
            let client = server.client();
            let id = client.schedule_task("Sleep").await;
            kill_sandbox_with(&mark, is_guest).await;
            client.complete(&id).await;
            assert_eq!(client.files(&id).await["seen.txt"], "begun\n");
            assert_eq!(client.files(&id).await["begun.txt"], "begun\n");
            let other = client.schedule_task("Do it").await;
            client.complete(&other).await;
            assert!(server.end().await.success());
            no_orphans().await;
        });
    }
}

#[test]
fn a_workspace_of_too_many_files_is_packed_as_far_as_it_may_be() {
    play(async {
        // More than a zip may contain.
        let bomb = "python3 -c \"
import os
for folder in range(110):
    os.mkdir(str(folder))
    for name in range(1000):
        os.close(os.open(f'{folder}/{name}', os.O_CREAT | os.O_WRONLY))
\" && echo last > zzz.txt";
        let gate = StreamGate::new();
        let reached = gate.clone();
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                ("Bomb", 0) => ScriptedAnswer::reply(bash(bomb)),
                ("Bomb", _) => ScriptedAnswer::reply(say("Done.")).hold(0, &gate),
                _ => ScriptedAnswer::reply(say("Done.")),
            }
        });
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let id = client
            .schedule(json!({ "task": "Bomb", "timeout": 100 }))
            .await;
        reached.reached().await;
        reached.open();
        // Other jobs do not wait for it.
        let other = client.schedule_task("Do it").await;
        client.complete(&other).await;
        let job = client.complete(&id).await;
        let left_out = job["artifact"]["left_out"].as_array().unwrap();
        assert!((1..=101).contains(&left_out.len()), "{left_out:?}");
        assert!(job["artifact"]["files"].as_u64().unwrap() <= 100_000);
        let path = format!("/v1/jobs/{id}");
        assert_eq!(client.delete(&path).send().await.unwrap().status(), 204);
    });
}

#[test]
fn a_job_that_writes_more_than_it_may_is_told_so_and_others_go_on() {
    play(async {
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                ("Fill", 0) => bash("head -c 64M /dev/zero > large"),
                ("Fill", _) => say(&format!("It said: {}", heard.last)),
                _ => say("Done."),
            }
        });
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let request = json!({ "task": "Fill", "limits": { "disk": 4 << 20 } });
        let id = client.schedule(request).await;
        let job = client.ended(&id).await;
        let text = job.to_string();
        assert!(text.contains("disk"), "{text}");
        let other = client.schedule_task("Do it").await;
        client.complete(&other).await;
    });
}
