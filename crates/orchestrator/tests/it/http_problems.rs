//! Every error is a problem document that says what is wrong and where.

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::scene::run_test;

const MISSING_ID: &str = "0199aaaa-0000-7000-8000-000000000001";

async fn problem(answer: Response, status: u16, name: &str) -> Value {
    assert_eq!(answer.status().as_u16(), status, "{name}");
    assert_eq!(
        answer.headers()["content-type"],
        "application/problem+json",
        "{name}"
    );
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["status"], status);
    assert_eq!(
        problem["type"],
        format!("/docs#problem-{name}"),
        "{problem}"
    );
    assert!(problem["title"].is_string());
    problem
}

#[test]
fn wrong_bodies_are_problems_that_name_the_place() {
    run_test(async |scene| {
        let json = Some("application/json");
        for (path, media, body, status, name, words) in [
            (
                "/schedule",
                json,
                "{\"task\": \"a\",\n  oops}",
                400,
                "bad-request",
                "line 2 column 3",
            ),
            ("/schedule", json, "", 400, "bad-request", "EOF"),
            ("/schedule", json, "{}", 422, "invalid", "task"),
            (
                "/schedule",
                json,
                r#"{"task":"a","budget":{"tokens":9223372036854775808}}"#,
                422,
                "invalid",
                "budget.tokens",
            ),
            ("/schedule", json, "[]", 422, "invalid", "a list"),
            (
                "/schedule",
                json,
                r#"{"task":"a","tsak":1}"#,
                422,
                "invalid",
                "tsak",
            ),
            (
                "/schedule",
                json,
                r#"{"task":"a","limits":{"memory":"much"}}"#,
                422,
                "invalid",
                "limits.memory",
            ),
            ("/schedule", json, r#"{"task":""}"#, 422, "invalid", "task"),
            (
                "/schedule",
                json,
                r#"{"task":"a","model":"nobody"}"#,
                422,
                "invalid",
                "nobody",
            ),
            (
                "/schedule",
                json,
                r#"{"task":"a","input":{"upload":{"bytes":1}}}"#,
                422,
                "invalid",
                "upload",
            ),
            // No request can do without walls.
            (
                "/schedule",
                json,
                r#"{"task":"a","backend":"none"}"#,
                422,
                "invalid",
                "unknown variant `none`",
            ),
            (
                "/schedule",
                json,
                r#"{"task":"a","require":"none"}"#,
                422,
                "invalid",
                "unknown variant `none`",
            ),
            (
                "/chat",
                json,
                r#"{"message":"a","backend":"none"}"#,
                422,
                "invalid",
                "unknown variant `none`",
            ),
            ("/schedule", Some("text/plain"), "", 422, "invalid", "task"),
            (
                "/schedule",
                Some("application/xml"),
                "<task>a</task>",
                415,
                "media-type",
                "JSON",
            ),
            (
                "/schedule",
                Some("multipart/form-data; boundary=x"),
                "",
                415,
                "media-type",
                "JSON",
            ),
            (
                "/v1/jobs",
                Some("image/png"),
                "x",
                415,
                "media-type",
                "form",
            ),
            (
                "/v1/jobs",
                Some("multipart/form-data"),
                "x",
                400,
                "bad-request",
                "",
            ),
            (
                "/v1/keys",
                Some("text/plain"),
                "x",
                415,
                "media-type",
                "JSON",
            ),
            (
                "/v1/keys",
                json,
                r#"{"user":"a","role":"king","label":""}"#,
                422,
                "invalid",
                "role",
            ),
            ("/chat", json, "{}", 422, "invalid", "message"),
        ] {
            let mut request = scene.post(path).body(body);
            if let Some(media) = media {
                request = request.header("content-type", media);
            }
            let problem = problem(request.send().await.unwrap(), status, name).await;
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(words), "{path} {body}: {problem}");
        }
        let request = scene.post("/schedule").header("content-type", "text/plain");
        let answer = request.body(vec![0xFF, 0xFE]).send().await.unwrap();
        problem(answer, 400, "bad-request").await;
    });
}

#[test]
fn only_the_server_names_an_upload() {
    run_test(async |scene| {
        let input = json!({"upload": {"bytes": 1}});
        let hint = json!("send the zip as the file `input` of a form");
        for (path, field, hint) in [
            ("/schedule", "task", hint.clone()),
            ("/v1/jobs", "task", hint),
            ("/chat", "message", Value::Null),
        ] {
            let body = json!({field: "Do it.", "input": input});
            let answer = scene.post(path).json(&body).send().await.unwrap();
            let problem = problem(answer, 422, "invalid").await;
            assert_eq!(problem["detail"], "input: `upload` is set by the server");
            assert_eq!(problem["hint"], hint, "{path}");
        }
    });
}

#[test]
fn wrong_paths_are_problems() {
    run_test(async |scene| {
        for (method, path, status, name) in [
            ("GET", "/nothing", 404, "no-page"),
            ("GET", "/v1", 404, "no-page"),
            ("GET", "/v1/jobs/", 404, "no-page"),
            ("GET", "/assets/nothing.js", 404, "no-page"),
            ("GET", "/assets/../Cargo.toml", 404, "no-page"),
            ("GET", "/assets/%2e%2e/Cargo.toml", 404, "no-page"),
            ("GET", "/status/x", 404, "not-found"),
            ("GET", "/v1/jobs/x", 404, "not-found"),
            ("GET", "/v1/jobs/%FF", 400, "bad-request"),
            ("GET", "/v1/jobs?limit=0", 400, "bad-request"),
            ("GET", "/v1/jobs?limit=201", 400, "bad-request"),
            ("GET", "/v1/jobs?limit=x", 400, "bad-request"),
            ("GET", "/v1/jobs?status=done", 400, "bad-request"),
            ("GET", "/v1/jobs?cursor=x", 400, "bad-request"),
            ("GET", "/v1/jobs?colour=red", 400, "bad-request"),
            ("GET", "/v1/search", 400, "bad-request"),
            ("DELETE", "/v1/keys/x", 404, "not-found"),
            ("POST", "/status/x", 405, "method-not-allowed"),
            ("PUT", "/v1/jobs", 405, "method-not-allowed"),
            ("PATCH", "/healthz", 405, "method-not-allowed"),
            ("BREW", "/v1/jobs", 405, "method-not-allowed"),
        ] {
            let answer = scene.request(method, path).send().await.unwrap();
            problem(answer, status, name).await;
        }
        for path in [
            format!("/status/{MISSING_ID}"),
            format!("/v1/jobs/{MISSING_ID}"),
            format!("/v1/jobs/{MISSING_ID}/events"),
            format!("/v1/jobs/{MISSING_ID}/artifacts"),
        ] {
            let found = problem(scene.get(&path).send().await.unwrap(), 404, "not-found").await;
            assert_eq!(found["detail"], format!("there is no job `{MISSING_ID}`"));
        }
        let id = scene.schedule_plain().await;
        let events = scene.get(&format!("/v1/jobs/{id}/events"));
        let answer = events.header("last-event-id", "x").send().await.unwrap();
        problem(answer, 400, "bad-request").await;
    });
}

#[test]
fn a_wrong_method_gets_the_allowed_ones() {
    run_test(async |scene| {
        for (path, allowed) in [
            ("/schedule", vec!["POST"]),
            ("/v1/jobs", vec!["GET", "HEAD", "POST"]),
            ("/v1/jobs/x", vec!["DELETE", "GET", "HEAD"]),
            ("/healthz", vec!["GET", "HEAD"]),
            ("/chat", vec!["GET", "HEAD", "POST"]),
        ] {
            let answer = scene.request("PUT", path).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
            let found = answer.headers()["allow"].to_str().unwrap();
            let mut found: Vec<_> = found.split(',').map(str::trim).collect();
            found.sort_unstable();
            assert_eq!(found, allowed, "{path}");
        }
    });
}

#[test]
fn blank_messages_are_refused() {
    run_test(async |scene| {
        let id = scene.schedule_plain().await;
        scene.ended(&id).await;
        let said = scene
            .post(&format!("/v1/jobs/{id}/messages"))
            .json(&json!({"text": ""}));
        problem(said.send().await.unwrap(), 422, "invalid").await;
    });
}
