//! A disk that is full: nothing is half done, and all goes on when there is room.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Gate};

use crate::client::problem;
use crate::model::{Heard, bash, say, serve};
use crate::play::{eventually, play};
use crate::server::Site;

/// Leaves no byte of room.
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
        let gate = Gate::new();
        let held = gate.clone();
        let model = serve(move |request| match Heard::of(request).results {
            0 => Answer::reply(bash("echo 1 > one.txt")).hold(0, &held),
            _ => Answer::reply(say("Done.")),
        });
        let site = Site::new(&model).flags(["--concurrency", "1"]).disk(32);
        let server = site.start().await;
        let client = server.client();
        let mut accepted = vec![client.schedule_task("Wait").await];
        gate.reached().await;
        fill(&server.data());
        // What was written before may have left some room in the files that are there.
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
fn a_job_that_fills_the_disk_ends_and_others_go_on() {
    play(async {
        let model = serve(move |request| {
            let heard = Heard::of(request);
            match (heard.task(), heard.results) {
                ("Fill", 0) => bash("cat /dev/zero > large; rm -f large.none; ls -l large"),
                ("Fill", _) => say(&format!("It said: {}", heard.last)),
                (_, 0) => bash("echo 1 > one.txt"),
                _ => say("Done."),
            }
        });
        let site = Site::new(&model).disk(64);
        let server = site.start().await;
        let client = server.client();
        let id = client.schedule_task("Fill").await;
        let job = client.ended(&id).await;
        let text = job.to_string();
        assert!(text.contains("disk") || text.contains("No space"), "{text}");
        // Whoever looks after the server makes room, and it never has to be started again.
        let path = format!("/v1/jobs/{id}");
        assert_eq!(client.delete(&path).send().await.unwrap().status(), 204);
        let other = client.schedule_task("Do it").await;
        client.complete(&other).await;
        assert_eq!(client.files(&other).await["one.txt"], "1\n");
    });
}
