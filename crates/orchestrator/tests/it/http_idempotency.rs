//! The same request with the same key is one job, however often and to whichever route it is sent.

use std::collections::HashSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{ServerScene, run_test, run_test_with};

async fn send(scene: &ServerScene, path: &str, key: &str, request: &Value) -> (StatusCode, Value) {
    let request = scene
        .post(path)
        .header("idempotency-key", key)
        .json(request);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

#[test]
fn one_key_is_one_job() {
    run_test(async |scene| {
        let request = json!({"task": "Once."});
        let (status, job) = send(scene, "/v1/jobs", "k1", &request).await;
        assert_eq!(status, StatusCode::CREATED);
        let (status, again) = send(scene, "/v1/jobs", "k1", &request).await;
        assert_eq!((status, &again["id"]), (StatusCode::OK, &job["id"]));
        let (status, again) = send(scene, "/schedule", "k1", &request).await;
        assert_eq!((status, &again["job_id"]), (StatusCode::OK, &job["id"]));
        let (_, other) = send(scene, "/v1/jobs", "k2", &request).await;
        assert_ne!(other["id"], job["id"]);

        let (status, problem) = send(scene, "/v1/jobs", "k1", &json!({"task": "Twice."})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(problem["type"], "/docs#problem-idempotency-key-taken");
        let list = scene.json("/v1/jobs").await;
        assert_eq!(list["jobs"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn many_at_once_are_one_job() {
    run_test(async |scene| {
        let request = json!({"task": "Once."});
        let sent = (0..20).map(|_| send(scene, "/schedule", "race", &request));
        let answers = futures_util::future::join_all(sent).await;
        let ids: HashSet<_> = answers
            .iter()
            .map(|(_, job)| job["job_id"].to_string())
            .collect();
        assert_eq!(ids.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
    });
}

#[test]
fn keys_of_users_do_not_meet() {
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            let mut ids = HashSet::new();
            for user in [&scene.users.ann, &scene.users.ben] {
                let request = scene
                    .post("/schedule")
                    .bearer_auth(user)
                    .header("idempotency-key", "same");
                let answer = request
                    .json(&json!({"task": "Mine."}))
                    .send()
                    .await
                    .unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                let job: Value = answer.json().await.unwrap();
                ids.insert(job["job_id"].to_string());
            }
            assert_eq!(ids.len(), 2);
        },
    );
}

#[test]
fn a_key_is_short_and_visible() {
    run_test(async |scene| {
        let long = "x".repeat(256);
        for key in ["", "a b", "é", long.as_str()] {
            let (status, problem) = send(scene, "/schedule", key, &json!({"task": "x"})).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{key}: {problem}");
        }
    });
}
