//! A full disk: nothing is half done, and everything continues when there is space.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use testkit::{ScriptedAnswer, StreamGate};

use crate::client::problem;
use crate::model::{RequestView, bash, say, serve};
use crate::play::{eventually, play};
use crate::server::{Site, names};

/// Fills the disk completely.
fn fill(folder: &Path) {
    let mut file = File::create(folder.join("filler")).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        let piece = vec![0; size];
        while file.write_all(&piece).is_ok() {}
    }
}

#[test]
fn a_full_disk_is_said_to_be_full_and_what_was_accepted_is_done() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| match RequestView::of(request).results {
            0 => ScriptedAnswer::reply(bash("echo 1 > one.txt")).hold(0, &held),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model).flags(["--concurrency", "1"]).disk(32);
        let server = site.start().await;
        let client = server.client();
        let mut accepted = vec![client.schedule_task("Wait").await];
        gate.reached().await;
        fill(&server.data());
        // Existing files may still have some free space.
        let task = format!("Later {}", "x".repeat(100_000));
        let refused = loop {
            let answer = client.try_schedule(&json!({ "task": task })).await;
            if !answer.status().is_success() {
                break answer;
            }
            let job: Value = answer.json().await.unwrap();
            accepted.push(job["id"].as_str().unwrap().to_owned());
            assert!(accepted.len() < 1_000, "the disk is never full");
        };
        let told = problem(refused, 507).await;
        assert_eq!(told["type"], "/docs#problem-disk-full", "{told}");
        // A zip does not fit either, and leaves nothing behind.
        let zip = Part::bytes(vec![0; 1 << 20]).file_name("input.zip");
        let form = Form::new().text("task", "Later").part("input", zip);
        let answer = client.post("/v1/jobs").multipart(form).send().await;
        problem(answer.unwrap(), 507).await;
        assert_eq!(names(&server.data().join("uploads")), [""; 0]);
        // It still answers.
        assert_eq!(client.jobs("").await.len(), accepted.len());
        assert_eq!(client.get("/healthz").send().await.unwrap().status(), 200);

        std::fs::remove_file(server.data().join("filler")).unwrap();
        gate.open();
        let id = client.schedule_task("Now").await;
        accepted.push(id);
        for id in &accepted {
            client.complete(id).await;
            assert_eq!(client.files(id).await["one.txt"], "1\n");
        }
        let mut listed: Vec<String> = client
            .jobs("")
            .await
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect();
        listed.sort();
        assert_eq!(listed, accepted);
        eventually("the server is ready", async || {
            client.get("/readyz").send().await.unwrap().status() == 200
        })
        .await;
        assert!(server.end().await.success());
    });
}

#[test]
fn a_job_that_finds_the_disk_full_goes_on_when_there_is_room() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                ("Wait", 0) => {
                    ScriptedAnswer::reply(bash("head -c 9M /dev/zero | tr '\\0' x; exit 1"))
                }
                ("Wait", _) => ScriptedAnswer::reply(say(&"words ".repeat(50_000))).hold(0, &held),
                _ => ScriptedAnswer::reply(say("Done.")),
            }
        });
        let site = Site::new(&model).flags(["--drain", "100ms"]).disk(64);
        let server = site.start().await;
        let client = server.client();
        let first = client.schedule_task("Wait").await;
        gate.reached().await;
        fill(&server.data());
        gate.open();
        let said = "the reserve was released";
        eventually("the store fails", async || site.stderr().contains(said)).await;
        std::fs::remove_file(server.data().join("filler")).unwrap();
        // A job does not fail because the disk was full for a while.
        client.complete(&first).await;
        let id = client.schedule_task("Do it").await;
        client.complete(&id).await;

        // A server that cannot write still ends when it is told to.
        let second = client.schedule_task("Wait").await;
        let mut told = client.follow(&second, 0).await;
        told.until("tool_started").await;
        fill(&server.data());
        assert!(server.end().await.success());
    });
}

#[test]
fn a_job_that_wants_the_whole_disk_is_stopped_and_others_go_on() {
    play(async {
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                ("One file", 0) => bash("cat /dev/zero > large"),
                ("Many files", 0) => bash("for n in $(seq 64); do head -c 1M /dev/zero > $n; done"),
                ("Do it", 0) => bash("echo 1 > one.txt"),
                ("Do it", _) => say("Done."),
                _ => say(&format!("It said: {}", heard.last)),
            }
        });
        // Far less than a job's disk limit.
        let site = Site::new(&model).disk(64);
        let server = site.start().await;
        let client = server.client();
        for (task, words) in [
            ("One file", ["File size limit exceeded", "disk"]),
            ("Many files", ["disk", "disk"]),
        ] {
            let id = client.schedule_task(task).await;
            let job = client.ended(&id).await;
            let text = job.to_string();
            assert!(words.iter().any(|words| text.contains(words)), "{text}");
            let other = client.schedule_task("Do it").await;
            client.complete(&other).await;
            assert_eq!(client.files(&other).await["one.txt"], "1\n");
            let path = format!("/v1/jobs/{id}");
            assert_eq!(client.delete(&path).send().await.unwrap().status(), 204);
        }
    });
}

#[test]
fn on_a_full_disk_jobs_are_listed_cancelled_and_deleted_also_after_a_kill() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                ("Do it", 0) => ScriptedAnswer::reply(bash("head -c 2M /dev/urandom > large")),
                ("Do it", _) => ScriptedAnswer::reply(say("Done.")),
                _ => ScriptedAnswer::reply(say("Never.")).hold(0, &held),
            }
        });
        let site = Site::new(&model).lasting_disk(64);
        let server = site.start().await;
        let client = server.client();
        assert!(server.data().join("reserve").exists());
        let done = client.schedule_task("Do it").await;
        client.complete(&done).await;
        let first = client.schedule_task("Wait").await;
        gate.reached().await;
        let second = client.schedule_task("Wait").await;
        let mut told = client.follow(&second, 0).await;
        told.until("turn_started").await;
        fill(&server.data());

        let cancel = async |client: &crate::client::Client, id: &str| {
            let path = format!("/v1/jobs/{id}/cancel");
            client.post(&path).send().await.unwrap().status()
        };
        assert_eq!(cancel(client, &first).await, 202);
        client.failed(&first, "cancelled").await;
        server.die().await;

        let server = site.start().await;
        let client = server.client();
        assert_eq!(client.jobs("").await.len(), 3);
        let ready = client.get("/readyz").send().await.unwrap();
        let ready = ready.text().await.unwrap();
        assert!(ready.contains("no job is started"), "{ready}");
        assert_eq!(
            client.job(&second).await["state"],
            "queued",
            "below the floor"
        );
        assert_eq!(cancel(client, &second).await, 202);
        client.failed(&second, "cancelled").await;
        for id in [&done, &first, &second] {
            let path = format!("/v1/jobs/{id}");
            assert_eq!(client.delete(&path).send().await.unwrap().status(), 204);
        }
        std::fs::remove_file(server.data().join("filler")).unwrap();
        eventually("the reserve is made again", async || {
            server.data().join("reserve").exists()
        })
        .await;
        let id = client.schedule_task("Do it").await;
        client.complete(&id).await;
        let ready = client.get("/readyz").send().await.unwrap();
        assert_eq!(ready.text().await.unwrap(), "ok");
        assert!(server.end().await.success());
    });
}
