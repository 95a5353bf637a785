//! The server's audit log after the server was killed.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::access::key;
use crate::model::{say, serve};
use crate::play::play;
use crate::server::Site;

/// The events of the server's log.
fn events(site: &Site) -> Vec<Value> {
    let path = site.data().join("server-audit.jsonl");
    assert!(audit::verify(&path).unwrap().is_clean());
    let text = std::fs::read_to_string(path).unwrap();
    let event = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"].clone();
    text.lines().map(event).collect()
}

#[test]
fn every_answered_change_is_on_record_when_the_server_is_killed() {
    play(async {
        let model = serve(|_| say("Done."));
        let site = Site::new(&model);
        let token = key(&site, "ada", "admin").await;
        let mut answered = HashMap::new();
        for _ in 0..5 {
            let server = site.start_with(&["--require-keys"]).await;
            let client = server.client().with_key(&token);
            let answer = client.post("/schedule").json(&json!({ "task": "a" }));
            let answer = answer.send().await.unwrap();
            // Killed right after the response.
            server.die().await;
            let id = answer.headers()["x-request-id"].to_str().unwrap();
            answered.insert(id.to_owned(), answer.status().as_u16());
        }
        let events = events(&site);
        for (id, status) in &answered {
            let of = |kind: &str| {
                let is_it = |event: &&Value| event["kind"] == kind && event["id"] == id.as_str();
                events
                    .iter()
                    .find(is_it)
                    .unwrap_or_else(|| panic!("no {kind} {id}: {events:?}"))
            };
            let request = of("request");
            assert_eq!(request["user"], "ada");
            assert_eq!(request["path"], "/schedule");
            assert_eq!(request["remote"], "127.0.0.1");
            assert!(request["key"].is_string(), "{request}");
            assert_eq!(of("answer")["status"], *status);
        }
        assert_eq!(answered.len(), 5);
    });
}

#[test]
fn refusals_are_on_record_and_folded() {
    play(async {
        let model = serve(|_| say("Done."));
        let site = Site::new(&model);
        let token = key(&site, "ada", "admin").await;
        let server = site.start_with(&["--require-keys"]).await;
        let client = server.client();
        let mut refused = 0;
        for number in 0..200 {
            let stranger = client.with_key(&format!("hc_wrong{number}"));
            let answer = stranger.get("/v1/jobs").send().await.unwrap();
            assert!(matches!(answer.status().as_u16(), 401 | 429), "{answer:?}");
            refused += 1;
        }
        let login = client.post("/v1/login").json(&json!({ "key": token }));
        let _ = login.send().await.unwrap();
        assert!(server.end().await.success());
        let events = events(&site);
        let refusals = events.iter().filter(|event| event["kind"] == "refusal");
        let refusals: Vec<&Value> = refusals
            .filter(|event| event["route"] == "/v1/jobs")
            .collect();
        assert!(refusals.len() < 20, "{refusals:?}");
        let counts = refusals
            .iter()
            .map(|event| event["count"].as_u64().unwrap_or(1));
        assert_eq!(counts.sum::<u64>(), refused);
        assert_eq!(refusals[0]["remote"], "127.0.0.1");
        assert_eq!(refusals[0]["method"], "GET");
    });
}
