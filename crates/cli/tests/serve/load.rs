//! Load: many sandboxes, queued jobs, and followers.

use std::collections::HashMap;

use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::model::{RequestView, bash, say, serve};
use crate::play::{eventually, play_alone, portion};
use crate::processes::{no_orphans, sandboxes_of};
use crate::server::Site;
use testkit::{EventStream, StreamedEvent};

const RUNNING_JOBS: usize = 100;
const QUEUED_JOBS: usize = 1_000;
const READER_COUNT: usize = 500;
/// For a debug build after all jobs have ended. The server keeps nothing of ended jobs in memory.
const MAX_MEMORY_BYTES: u64 = 400 << 20;

#[test]
fn a_hundred_sandboxes_a_thousand_that_wait_and_five_hundred_readers() {
    play_alone(async {
        let (running, queued, readers) = (
            portion(RUNNING_JOBS),
            portion(QUEUED_JOBS),
            portion(READER_COUNT),
        );
        // Running jobs have their sandbox, and wait for each other.
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            let task = heard.task();
            match (task.starts_with("Run"), heard.results) {
                (_, 0) => ScriptedAnswer::reply(bash(&format!("echo '{task}' > task.txt"))),
                (true, 1) => ScriptedAnswer::reply(bash("seq 100")).hold(0, &held),
                (true, 2) => ScriptedAnswer::reply(say("Some words, one after the other.")),
                _ => ScriptedAnswer::reply(say("Done.")),
            }
        });
        let concurrency = running.to_string();
        // The sum of all disk limits must fit the free space.
        let site = Site::new(&model).flags(["--concurrency", &concurrency, "--disk", "32M"]);
        let server = site.start().await;
        let client = server.client();
        let before = server.memory();

        let first = schedule(client, "Run", running).await;
        let pid = server.pid();
        eventually("every job has its sandbox", async || {
            sandboxes_of(pid) >= running && model.request_count() >= 2 * running
        })
        .await;
        let second = schedule(client, "Wait", queued).await;
        let waiting = client.jobs("&status=pending").await;
        assert_eq!(waiting.len(), queued);

        // A fifth of the readers reconnects in between.
        let mut watched = JoinSet::new();
        for reader in 0..readers {
            let (client, id) = (client.clone(), first[reader % running].clone());
            let events = client.follow(&id, 0).await;
            watched.spawn(async move {
                let is_fickle = reader / running == 0 && reader % 5 == 0;
                let told = watch(&client, &id, events, is_fickle).await;
                (id, told)
            });
        }
        let full = server.memory();
        gate.open();

        let mut told = HashMap::<String, Vec<StreamedEvent>>::new();
        while let Some(heard) = watched.join_next().await {
            let (id, heard) = heard.unwrap();
            // All followers received the same lasting events.
            match told.get(&id) {
                Some(before) => assert_eq!(*before, heard, "{id}"),
                None => drop(told.insert(id, heard)),
            }
        }
        for id in first.iter().chain(&second) {
            let job = client.complete(id).await;
            assert_eq!(job["attempts"], 1);
            let task = job["task"].as_str().unwrap();
            assert_eq!(client.files(id).await["task.txt"], format!("{task}\n"));
        }
        for (id, heard) in &told {
            let stored = client.follow(id, 0).await.all().await;
            assert_eq!(lasting(&stored), *heard, "{id}");
        }
        eventually("every sandbox is gone", async || sandboxes_of(pid) <= 1).await;
        let after = server.memory();
        let [before, full, after] = [before, full, after].map(|bytes| bytes >> 20);
        println!("memory in MiB: {before} at the start, {full} with all, {after} in the end");
        assert!(after << 20 < MAX_MEMORY_BYTES, "{after} MiB are left");
        assert!(server.end().await.success());
        no_orphans().await;
    });
}

/// Schedules jobs concurrently.
async fn schedule(client: &Client, word: &str, count: usize) -> Vec<String> {
    let mut asked = JoinSet::new();
    for number in 0..count {
        let client = client.clone();
        let request = json!({ "task": format!("{word} {number}") });
        asked.spawn(async move { client.schedule(request).await });
    }
    asked.join_all().await
}

/// The lasting events that a follower receives, up to the end.
async fn watch(
    client: &Client,
    id: &str,
    mut events: EventStream,
    is_fickle: bool,
) -> Vec<StreamedEvent> {
    let mut heard = Vec::new();
    let mut seq = 0;
    while let Some(sent) = events.next().await {
        if sent.event == "end" {
            return heard;
        }
        if let Some(place) = sent.id {
            seq += 1;
            assert_eq!(place, seq, "out of order, or twice, or missed");
            heard.push(sent);
            if is_fickle && seq.is_multiple_of(3) {
                events = client.follow(id, seq).await;
            }
        }
    }
    panic!("the stream of {id} ended without its end");
}

fn lasting(told: &[StreamedEvent]) -> Vec<StreamedEvent> {
    told.iter()
        .filter(|sent| sent.id.is_some())
        .cloned()
        .collect()
}
