//! Every route with every kind of caller: no key, a wrong key, another user, the owner, an admin.
//!
//! The routes are taken from the OpenAPI document, so that a new one cannot be missed.

use std::collections::BTreeSet;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::scene::{ServerScene, bash, run_test_with, text};

/// Method and path; then the statuses for no key, a wrong key, another user, the owner, an admin.
const MATRIX: &[(&str, [u16; 5])] = &[
    ("POST /schedule", [401, 401, 200, 200, 200]),
    ("GET /status/{id}", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs", [401, 401, 200, 200, 200]),
    ("POST /v1/jobs", [401, 401, 201, 201, 201]),
    ("GET /v1/jobs/{id}", [401, 401, 404, 200, 200]),
    ("DELETE /v1/jobs/{id}", [401, 401, 404, 204, 204]),
    ("POST /v1/jobs/{id}/cancel", [401, 401, 404, 409, 409]),
    ("POST /v1/jobs/{id}/retry", [401, 401, 404, 201, 201]),
    ("POST /v1/jobs/{id}/messages", [401, 401, 404, 202, 202]),
    ("POST /v1/jobs/{id}/interrupt", [401, 401, 404, 409, 409]),
    (
        "POST /v1/jobs/{id}/webhook/redeliver",
        [401, 401, 404, 409, 409],
    ),
    ("GET /v1/jobs/{id}/events", [401, 401, 404, 200, 200]),
    ("POST /chat", [401, 401, 404, 200, 200]),
    ("GET /chat", [200, 401, 200, 200, 200]),
    ("GET /v1/jobs/{id}/files", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs/{id}/files/content", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs/{id}/files/raw", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs/{id}/diff", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs/{id}/logs", [401, 401, 404, 200, 200]),
    ("GET /v1/jobs/{id}/artifacts", [401, 401, 404, 200, 200]),
    ("GET /jobs/{id}/output.zip", [401, 401, 404, 200, 200]),
    ("GET /v1/search", [401, 401, 200, 200, 200]),
    ("GET /v1/keys", [401, 401, 200, 200, 200]),
    ("POST /v1/keys", [401, 401, 403, 201, 201]),
    ("DELETE /v1/keys/{id}", [401, 401, 404, 204, 204]),
    ("POST /v1/login", [204, 401, 204, 204, 204]),
    ("POST /v1/logout", [204, 401, 204, 204, 204]),
    ("GET /v1/me", [401, 401, 200, 200, 200]),
    ("GET /healthz", [200, 401, 200, 200, 200]),
    ("GET /readyz", [200, 401, 200, 200, 200]),
    ("GET /metrics", [401, 401, 403, 403, 200]),
    ("GET /openapi.json", [200, 401, 200, 200, 200]),
];

const MISSING_ID: &str = "0199aaaa-0000-7000-8000-000000000001";

fn play_with_users(test: impl AsyncFnOnce(&mut ServerScene)) {
    run_test_with(|config| config.require_keys = true, test);
}

/// Operations of the OpenAPI document, as the matrix names them.
async fn described_operations(scene: &ServerScene) -> BTreeSet<String> {
    let document = scene.json("/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

#[test]
fn the_matrix_has_every_endpoint() {
    play_with_users(async |scene| {
        let expected: BTreeSet<_> = MATRIX.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(described_operations(scene).await, expected);
    });
}

#[test]
fn every_caller_gets_the_expected_status() {
    play_with_users(async |scene| {
        scene.models.add(
            "maker",
            [bash("echo hi > hi.txt"), text("Done."), text("Again.")],
        );
        let users = scene.users.clone();
        let shared = anns_job(scene).await;
        let callers = [
            None,
            Some("hc_wrong".to_owned()),
            Some(users.ben),
            Some(users.ann),
            Some(users.admin),
        ];
        for (name, statuses) in MATRIX {
            for (place, (caller, expect)) in callers.iter().zip(statuses).enumerate() {
                // The owner and the admin may change it, so each gets its own.
                let changes_job = place >= 3 && !name.starts_with("GET") && name.contains("{id}");
                let id = match (
                    name.contains("/keys/"),
                    changes_job || *name == "POST /chat",
                ) {
                    (true, _) => anns_key(scene).await,
                    (false, true) => anns_job(scene).await,
                    (false, false) => shared.clone(),
                };
                let request = operation(scene, name, &id);
                let request = match caller {
                    Some(key) => request.bearer_auth(key),
                    None => request,
                };
                let answer = request.send().await.unwrap();
                let status = answer.status().as_u16();
                assert_eq!(
                    status,
                    *expect,
                    "{name} by caller {place}: {:?}",
                    answer.text().await
                );
            }
        }
    });
}

#[test]
fn a_job_of_another_user_is_not_found() {
    play_with_users(async |scene| {
        scene
            .models
            .add("maker", [bash("echo hi > hi.txt"), text("Done.")]);
        let id = anns_job(scene).await;
        let key = anns_key(scene).await;
        for (name, statuses) in MATRIX {
            if statuses[2] != 404 {
                continue;
            }
            let id = if name.contains("/keys/") { &key } else { &id };
            let ask = async |id: &str| {
                let request = operation(scene, name, id).bearer_auth(&scene.users.ben);
                fingerprint(request.send().await.unwrap(), id).await
            };
            assert_eq!(ask(id).await, ask(MISSING_ID).await, "{name}");
        }
        let ben = &scene.users.ben;
        let json = async |path: &str| {
            let answer = scene.get(path).bearer_auth(ben).send().await.unwrap();
            answer.json::<Value>().await.unwrap()
        };
        assert_eq!(json("/v1/jobs").await, json!({"jobs": []}));
        assert_eq!(json("/v1/search?q=task").await, json!({"found": []}));
        let keys = json("/v1/keys").await;
        let keys = keys["keys"].as_array().unwrap();
        assert!(
            !keys.is_empty() && keys.iter().all(|key| key["user"] == "ben"),
            "{keys:?}"
        );
    });
}

/// Everything visible in a response, except for the id and what differs in every response.
async fn fingerprint(answer: Response, id: &str) -> (u16, Vec<String>, String) {
    let status = answer.status().as_u16();
    let headers = answer.headers().iter();
    let headers = headers.filter(|(name, _)| !matches!(name.as_str(), "date" | "x-request-id"));
    let mut headers: Vec<_> = headers
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    (
        status,
        headers,
        answer.text().await.unwrap().replace(id, "ID"),
    )
}

/// An ended job of Ann's, with a file.
async fn anns_job(scene: &ServerScene) -> String {
    let ann = &scene.users.ann;
    let request = scene.post("/v1/jobs").bearer_auth(ann);
    let request = request.json(&json!({"task": "A task.", "model": "maker"}));
    let job: Value = request.send().await.unwrap().json().await.unwrap();
    let id = job["id"].as_str().unwrap().to_owned();
    let events = scene.get(&format!("/v1/jobs/{id}/events")).bearer_auth(ann);
    let events = events.send().await.unwrap().text().await.unwrap();
    assert!(events.ends_with("event: end\ndata: {}\n\n"));
    id
}

/// A new key of Ann's.
async fn anns_key(scene: &ServerScene) -> String {
    let request = scene.post("/v1/keys").bearer_auth(&scene.users.admin);
    let request = request.json(&json!({"user": "ann", "role": "user", "label": "more"}));
    let made: Value = request.send().await.unwrap().json().await.unwrap();
    made["key"]["id"].as_str().unwrap().to_owned()
}

/// A request that is valid, except for the caller.
fn operation(scene: &ServerScene, name: &str, id: &str) -> RequestBuilder {
    let (method, path) = name.split_once(' ').unwrap();
    let path = path.replace("{id}", id);
    let query = match name {
        "GET /v1/jobs/{id}/files/content" | "GET /v1/jobs/{id}/files/raw" => "?path=hi.txt",
        "GET /v1/search" => "?q=task",
        _ => "",
    };
    let request = scene.request(method, &format!("{path}{query}"));
    let body = match name {
        "POST /schedule" | "POST /v1/jobs" => json!({"task": "Do it."}),
        "POST /v1/jobs/{id}/messages" => json!({"text": "More."}),
        "POST /chat" => json!({"message": "More.", "job_id": id}),
        "POST /v1/keys" => json!({"user": "ann", "role": "user", "label": "x"}),
        "POST /v1/login" => json!({"key": scene.users.ann}),
        _ => return request,
    };
    request.json(&body)
}
