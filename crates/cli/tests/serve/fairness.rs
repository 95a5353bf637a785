//! The queue: limited, and fair.

use jiff::Timestamp;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use testkit::{ScriptedAnswer, StreamGate};
use tokio::task::JoinSet;

use crate::client::problem;
use crate::model::{RequestView, bash, say, serve};
use crate::play::{play, play_alone, portion};
use crate::server::{Site, names};

#[test]
fn a_full_queue_says_when_to_come_back_and_keeps_nothing() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |_| ScriptedAnswer::reply(say("Done.")).hold(0, &held));
        let site = Site::new(&model).flags(["--concurrency", "1", "--queue", "5"]);
        let server = site.start().await;
        let client = server.client();
        let running = client.schedule_task("Wait").await;
        client.until(&running, "running").await;

        // All at once: no more than the queue accepts.
        let mut asked = JoinSet::new();
        for number in 0..60 {
            let client = client.clone();
            asked.spawn(async move {
                let task = format!("Job {number}");
                match number % 3 {
                    // With a zip, which is not kept either.
                    0 => {
                        let zip = Part::bytes(EMPTY_ZIP).file_name("input.zip");
                        let form = Form::new().text("task", task).part("input", zip);
                        let request = client.post("/v1/jobs").multipart(form);
                        request.send().await.unwrap()
                    }
                    1 => client.post("/schedule").body(task).send().await.unwrap(),
                    _ => client.try_schedule(&json!({ "task": task })).await,
                }
            });
        }
        let mut accepted = 0;
        while let Some(answer) = asked.join_next().await {
            let answer = answer.unwrap();
            if answer.status().is_success() {
                accepted += 1;
                continue;
            }
            let wait = answer.headers()["retry-after"].to_str().unwrap();
            assert!((1..=60).contains(&wait.parse::<u32>().unwrap()), "{wait}");
            let told = problem(answer, 429).await;
            assert_eq!(told["type"], "/docs#problem-queue-full", "{told}");
        }
        assert_eq!(accepted, 5);
        let listed = client.jobs("").await;
        assert_eq!(listed.len(), 6);
        // Only accepted jobs have folders, and no zip is left behind.
        let ids: Vec<&str> = listed
            .iter()
            .map(|job| job["id"].as_str().unwrap())
            .collect();
        for name in names(&site.data().join("jobs")) {
            assert!(ids.contains(&&*name), "{name}");
        }
        assert_eq!(names(&site.data().join("uploads")), [""; 0]);

        gate.open();
        for id in ids {
            client.complete(id).await;
        }
        let id = client.schedule_task("There is room again").await;
        client.complete(&id).await;
    });
}

/// An empty zip.
const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[test]
fn who_has_few_jobs_does_not_wait_for_who_has_many() {
    play_alone(async {
        let many = portion(1_000);
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| {
            let reply = match RequestView::of(request).results {
                0 => bash("true"),
                _ => say("Done."),
            };
            ScriptedAnswer::reply(reply).hold(0, &held)
        });
        let site = Site::new(&model).flags(["--require-keys", "--concurrency", "2"]);
        let mut tokens = Vec::new();
        for (user, role) in [
            ("ann", "user"),
            ("ben", "user"),
            ("eve", "user"),
            ("root", "admin"),
        ] {
            let flags = ["keys", "create", "--user", user, "--role", role];
            let output = site.hotcell(flags).output().await.unwrap();
            let token = String::from_utf8(output.stdout).unwrap();
            tokens.push(token.trim_end().to_owned());
        }
        let server = site.start().await;
        let clients: Vec<_> = tokens
            .iter()
            .map(|token| server.client().with_key(token))
            .collect();
        let [ann, ben, eve, root] = &clients[..] else {
            unreachable!("there are four");
        };
        // All of Ann's are queued before the others arrive.
        let mut asked = JoinSet::new();
        for number in 0..many {
            let ann = ann.clone();
            asked.spawn(async move { ann.schedule_task(&format!("Job {number}")).await });
        }
        asked.join_all().await;
        let mut few = Vec::new();
        for _ in 0..5 {
            for client in [ben, eve] {
                few.push((client, client.schedule_task("One of few").await));
            }
        }
        gate.open();
        for (client, id) in &few {
            client.complete(id).await;
        }
        // By start time, over all users.
        let begun = |job: &Value| job["started"].as_str()?.parse::<Timestamp>().ok();
        let mut all: Vec<(Timestamp, String)> = root
            .jobs("")
            .await
            .iter()
            .filter_map(|job| Some((begun(job)?, job["owner"].as_str().unwrap().to_owned())))
            .collect();
        all.sort();
        let last = all.iter().rposition(|(_, owner)| owner != "ann").unwrap();
        let anns = all[..last]
            .iter()
            .filter(|(_, owner)| owner == "ann")
            .count();
        // Two ran before the others arrived; then each user gets a turn.
        assert!(anns <= 2 + 5 + 2, "{anns} of Ann's came first");
    });
}
