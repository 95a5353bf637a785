//! The life of jobs over HTTP, from the README's example to the next server.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Replies, ScriptedAnswer, StreamGate};
use tokio::process::Command;

use crate::client::{Client, unzip};
use crate::model::{RequestView, bash, say, serve, serve_steps, write};
use crate::play::{eventually, play};
use crate::processes::no_orphans;
use crate::server::Site;

/// A scripted model for the server, in TOML.
const TODO_SCRIPT: &str = r#"
title = "a todo app"

[[reply]]
text = "First the program."
[[reply.call]]
tool = "write_file"
input = { path = "todo.sh", content = "echo todo\n" }

[[reply]]
[[reply.call]]
tool = "bash"
input = { command = "mkdir out && sh todo.sh > out/list.txt" }

[[reply]]
text = "Done: `todo.sh` prints the list."
"#;

/// The output of `curl`.
async fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--noproxy", "*"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_two_lines_of_the_readme() {
    play(async {
        let site = Site::bare().flags(["--model", "scripted/todo.toml"]);
        std::fs::write(site.here("todo.toml"), TODO_SCRIPT).unwrap();
        let server = site.start().await;
        let client = server.client();
        let base = format!("http://localhost:{}", client.port());

        let answer = curl(&[
            "-X",
            "POST",
            "-H",
            "Content-Type: application/json",
            "-d",
            r#"{"task":"Build me a todo app"}"#,
            &format!("{base}/schedule"),
        ])
        .await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["job_id"].as_str().unwrap();
        assert_eq!(answer, json!({ "job_id": id }));
        let status = async || -> Value {
            let text = curl(&[&format!("{base}/status/{id}")]).await;
            serde_json::from_str(&text).unwrap()
        };
        let mut seen = status().await;
        while seen["status"] != "complete" {
            assert!(
                ["pending", "running"].contains(&seen["status"].as_str().unwrap()),
                "{seen}"
            );
            assert_eq!(seen.get("artifact_url"), None);
            assert_eq!(seen["result"], Value::Null);
            assert_eq!(seen["error"], Value::Null);
            seen = status().await;
        }
        assert_eq!(seen["job_id"], id);
        assert_eq!(seen["result"], format!("/jobs/{id}/output.zip"));
        assert_eq!(seen["error"], Value::Null);
        assert_eq!(seen["answer"], "Done: `todo.sh` prints the list.");
        assert_eq!(seen["files"], 2);
        assert_eq!(seen.get("cause"), None, "{seen}");
        for time in ["created", "started", "ended"] {
            assert!(seen[time].is_string(), "{seen}");
        }

        // The link in the response leads to the zip.
        let link = seen["result"].as_str().unwrap();
        let zip = client.get(link).send().await.unwrap();
        assert_eq!(zip.headers()["content-type"], "application/zip");
        let named = zip.headers()["content-disposition"].to_str().unwrap();
        assert!(named.contains(&format!("hotcell-{id}.zip")), "{named}");
        let files = unzip(&zip.bytes().await.unwrap());
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        assert_eq!(
            files,
            [("out/list.txt", "todo\n"), ("todo.sh", "echo todo\n")]
        );
    });
}

#[test]
fn plain_text_is_a_task() {
    play(async {
        let model = serve(|request| say(&format!("You said: {}", RequestView::of(request).task())));
        let site = Site::new(&model);
        let server = site.start().await;
        let base = format!("http://{}", server.client().address());
        let answer = curl(&[
            "-H",
            "Content-Type: text/plain",
            "--data",
            "Say my words",
            &format!("{base}/schedule"),
        ])
        .await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["job_id"].as_str().unwrap();
        let job = server.client().complete(id).await;
        assert_eq!(job["task"], "Say my words");
        assert_eq!(job["answer"], "You said: Say my words");
    });
}

/// A model whose third and later replies wait at a gate.
fn gated_model(gate: &StreamGate) -> ModelServer {
    let gate = gate.clone();
    serve(move |request| {
        let heard = RequestView::of(request);
        match heard.results {
            0 => ScriptedAnswer::reply(write("one.txt", "1\n")),
            1 => ScriptedAnswer::reply(bash("sleep 1000 & echo 2 > two.txt")),
            2 => ScriptedAnswer::reply(bash("cat one.txt two.txt > three.txt")).hold(0, &gate),
            _ => ScriptedAnswer::reply(say("Three files.")),
        }
    })
}

async fn check_three_files(client: &Client, id: &str) {
    let files = client.files(id).await;
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    let expect = [
        ("one.txt", "1\n"),
        ("three.txt", "1\n2\n"),
        ("two.txt", "2\n"),
    ];
    assert_eq!(files, expect);
}

#[test]
fn told_to_end_it_parks_what_runs_and_the_next_one_goes_on() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        play(async move {
            let gate = StreamGate::new();
            let model = gated_model(&gate);
            let site = Site::new(&model).flags(["--drain", "100ms", "--concurrency", "1"]);
            let server = site.start().await;
            let id = server.client().schedule_task("Make three files").await;
            gate.reached().await;
            let waiting = server.client().schedule_task("Make three files").await;
            // A follower receives the end of the stream, but no end of the job.
            let mut reader = server.client().follow(&id, 0).await;
            reader.until("turn_started").await;
            server.signal(signal);
            while let Some(sent) = reader.next().await {
                assert_ne!(sent.event, "end");
            }
            assert!(server.end().await.success());
            no_orphans().await;

            gate.open();
            let server = site.start().await;
            let client = server.client();
            let job = client.complete(&id).await;
            // A clean end is no crash.
            assert_eq!((&job["attempts"], &job["crashes"]), (&json!(2), &json!(0)));
            check_three_files(client, &id).await;
            let told = client.follow(&id, 0).await.all().await;
            let of = |kind: &str| told.iter().filter(|sent| sent.kind() == kind).count();
            assert_eq!((of("turn_started"), of("turn_continued")), (1, 1));
            let job = client.complete(&waiting).await;
            assert_eq!(job["attempts"], 1);
            check_three_files(client, &waiting).await;
            assert!(server.end().await.success());
        });
    }
}

#[test]
fn killed_in_the_middle_it_goes_on_from_there_and_nothing_is_left() {
    play(async {
        let gate = StreamGate::new();
        let model = gated_model(&gate);
        let site = Site::new(&model);
        let server = site.start().await;
        let id = server.client().schedule_task("Make three files").await;
        gate.reached().await;
        server.die().await;
        no_orphans().await;
        gate.open();
        let server = site.start().await;
        let job = server.client().complete(&id).await;
        assert_eq!((&job["attempts"], &job["crashes"]), (&json!(2), &json!(1)));
        check_three_files(server.client(), &id).await;
    });
}

#[test]
fn what_runs_may_end_in_its_time() {
    play(async {
        let gate = StreamGate::new();
        let model = gated_model(&gate);
        let site = Site::new(&model).flags(["--drain", "1m"]);
        let server = site.start().await;
        let id = server.client().schedule_task("Make three files").await;
        gate.reached().await;
        server.signal(Signal::SIGTERM);
        // No new jobs are accepted meanwhile.
        let client = server.client().clone();
        eventually("the server takes nothing more", async || {
            let answer = client.try_schedule(&json!({ "task": "More" })).await;
            answer.status() == 503
        })
        .await;
        gate.open();
        assert!(server.end().await.success());
        let server = site.start().await;
        let job = server.client().job(&id).await;
        assert_eq!(
            (&job["state"], &job["attempts"]),
            (&json!("complete"), &json!(1))
        );
        check_three_files(server.client(), &id).await;
    });
}

#[test]
fn a_data_folder_has_one_server() {
    play(async {
        let model = ModelServer::start(Replies::list::<ScriptedAnswer>([]));
        let site = Site::new(&model);
        let server = site.start().await;
        let second = site.refused(&[]).await;
        assert_eq!(second.status.code(), Some(1));
        assert_eq!(second.stdout, b"");
        let said = String::from_utf8(second.stderr).unwrap();
        let data = site.data();
        assert_eq!(
            said,
            format!(
                "hotcell: another server uses the data folder `{}`\n\
                 hint: stop the other one, or choose another `--data FOLDER`\n",
                data.display()
            )
        );
        // The first server is not affected.
        assert_eq!(
            server
                .client()
                .get("/healthz")
                .send()
                .await
                .unwrap()
                .status(),
            200
        );
        // Once killed, it does not block the next.
        server.die().await;
        site.start().await;
    });
}

#[test]
fn a_message_leads_to_a_turn_and_wakes_a_job_that_has_ended() {
    play(async {
        let model = serve_steps([write("one.txt", "1\n")]);
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let id = client.schedule_task("One").await;
        client.complete(&id).await;
        let said = client
            .post(&format!("/v1/jobs/{id}/messages"))
            .json(&json!({ "text": "Two" }))
            .send()
            .await
            .unwrap();
        assert_eq!(said.status(), 202);
        let job = client.complete(&id).await;
        assert_eq!((&job["messages"], &job["attempts"]), (&json!(2), &json!(2)));
        // In the same workspace; and it can be deleted with all its data.
        assert_eq!(client.files(&id).await["one.txt"], "1\n");
        let path = format!("/v1/jobs/{id}");
        assert_eq!(client.delete(&path).send().await.unwrap().status(), 204);
        assert_eq!(client.get(&path).send().await.unwrap().status(), 404);
        assert!(!site.data().join("jobs").join(&id).exists());
    });
}
