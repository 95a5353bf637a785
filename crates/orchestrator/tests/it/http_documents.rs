//! The OpenAPI document, the pages, health checks and metrics.

use std::collections::HashSet;

use reqwest::StatusCode;
use serde_json::Value;

use crate::scene::run_test;

#[test]
fn the_description_holds_together() {
    run_test(async |scene| {
        let document = scene.json("/openapi.json").await;
        assert!(document["openapi"].as_str().unwrap().starts_with("3."));
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 50);
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let mut names = HashSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let problem =
                    &operation["responses"]["default"]["content"]["application/problem+json"];
                assert!(problem.is_object(), "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path}");
                assert!(operation["tags"].is_array(), "{method} {path}");
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name), "{name} is there twice");
            }
        }
        // A job shows the delivery state of its webhook, but neither its address nor its secret.
        let shown = &document["components"]["schemas"]["WebhookDelivery"]["properties"];
        let shown: HashSet<_> = shown
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let known = ["state", "tries", "last_try", "last_error", "next_try"];
        assert_eq!(shown, HashSet::from(known));
    });
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "$ref" => references.push(text.clone()),
                    _ => collect(value, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}

#[test]
fn pages_come_out_of_the_binary() {
    run_test(async |scene| {
        let id = "0199aaaa-0000-7000-8000-000000000001";
        let job = format!("/jobs/{id}");
        let mut tags = Vec::new();
        for page in ["/", "/new", &job, "/history", "/keys", "/login", "/chat"] {
            let answer = scene.get(page).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{page}");
            assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
            assert_eq!(answer.headers()["cache-control"], "no-cache");
            let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
            let known = scene
                .get(page)
                .header("if-none-match", &tag)
                .send()
                .await
                .unwrap();
            assert_eq!(known.status(), StatusCode::NOT_MODIFIED, "{page}");
            tags.push(tag);
        }
        assert!(
            tags.iter().all(|tag| *tag == tags[0]),
            "one page has all addresses"
        );
        let whole = scene.get("/assets/index.html").send().await.unwrap();
        assert_eq!(whole.status(), StatusCode::OK);
        let docs = scene.get("/docs").send().await.unwrap();
        assert_eq!(docs.status(), StatusCode::OK);
    });
}

#[test]
fn health_readiness_and_metrics_are_readable() {
    run_test(async |scene| {
        for path in ["/healthz", "/readyz"] {
            let answer = scene.get(path).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert_eq!(answer.text().await.unwrap(), "ok");
        }
        let id = scene.schedule_plain().await;
        scene.ended(&id).await;
        scene.get("/nothing").send().await.unwrap();
        let answer = scene.get("/metrics").send().await.unwrap();
        let media = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(media.starts_with("text/plain; version=0.0.4"), "{media}");
        let text = answer.text().await.unwrap();
        for line in [
            "hotcell_schedules_total 1",
            "hotcell_jobs{status=\"pending\"} 0",
            "hotcell_jobs{status=\"running\"} 0",
            "hotcell_event_readers 0",
            "hotcell_store_errors_total 0",
            "hotcell_request_duration_seconds_count{route=\"/v1/jobs\",method=\"POST\",status=\"201\"} 1",
            "hotcell_request_duration_seconds_count{route=\"\",method=\"GET\",status=\"404\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let memory = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(memory.unwrap().parse::<f64>().unwrap() > 1e6);
    });
}
