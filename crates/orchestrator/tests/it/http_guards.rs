//! The guards of every route: host names, origins, headers, the audit log.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{run_test, run_test_with};

const EVIL: &str = "http://evil.example";

#[test]
fn only_known_names_are_served() {
    run_test_with(
        |config| config.hosts = vec!["hot.example".into()],
        async |scene| {
            let port = scene.address.port();
            for (host, status) in [
                (format!("127.0.0.1:{port}"), StatusCode::OK),
                (format!("localhost:{port}"), StatusCode::OK),
                ("localhost".to_owned(), StatusCode::OK),
                ("[::1]".to_owned(), StatusCode::OK),
                ("hot.example".to_owned(), StatusCode::OK),
                (
                    format!("evil.example:{port}"),
                    StatusCode::MISDIRECTED_REQUEST,
                ),
                (
                    "127.0.0.1.evil.example".to_owned(),
                    StatusCode::MISDIRECTED_REQUEST,
                ),
            ] {
                for path in ["/healthz", "/v1/jobs", "/"] {
                    let answer = scene.get(path).header("host", &host).send().await.unwrap();
                    assert_eq!(answer.status(), status, "{path} at {host}");
                }
            }
        },
    );
}

#[test]
fn pages_of_other_sites_change_nothing() {
    run_test_with(
        |config| config.origins = vec!["https://friend.example".into()],
        async |scene| {
            let own = scene.url("");
            let localhost = format!("http://localhost:{}", scene.address.port());
            for (headers, is_let_in) in [
                (vec![], true),
                (vec![("origin", own.as_str())], true),
                (vec![("sec-fetch-site", "same-origin")], true),
                (vec![("sec-fetch-site", "none")], true),
                (vec![("origin", "https://friend.example")], true),
                (
                    vec![
                        ("origin", "https://friend.example"),
                        ("sec-fetch-site", "cross-site"),
                    ],
                    true,
                ),
                (vec![("origin", EVIL)], false),
                (vec![("origin", "null")], false),
                (vec![("origin", localhost.as_str())], false),
                (vec![("sec-fetch-site", "cross-site")], false),
                (vec![("sec-fetch-site", "same-site")], false),
                (
                    vec![("origin", own.as_str()), ("sec-fetch-site", "cross-site")],
                    false,
                ),
            ] {
                // As a form of another site would send it, without a preflight request.
                let mut request = scene.post("/schedule").header("content-type", "text/plain");
                for (name, value) in &headers {
                    request = request.header(*name, *value);
                }
                let answer = request.body("Do harm.").send().await.unwrap();
                let expect = if is_let_in {
                    StatusCode::OK
                } else {
                    StatusCode::FORBIDDEN
                };
                assert_eq!(answer.status(), expect, "{headers:?}");
                let mut request = scene.get("/v1/jobs");
                for (name, value) in &headers {
                    request = request.header(*name, *value);
                }
                assert_eq!(
                    request.send().await.unwrap().status(),
                    StatusCode::OK,
                    "{headers:?}"
                );
            }
            let jobs = scene.json("/v1/jobs").await;
            assert_eq!(jobs["jobs"].as_array().unwrap().len(), 6);
        },
    );
}

#[test]
fn only_listed_sites_read_answers() {
    run_test_with(
        |config| config.origins = vec!["https://friend.example".into()],
        async |scene| {
            for (origin, is_listed) in [("https://friend.example", true), (EVIL, false)] {
                let answer = scene
                    .get("/v1/jobs")
                    .header("origin", origin)
                    .send()
                    .await
                    .unwrap();
                let allowed = answer.headers().get("access-control-allow-origin");
                assert_eq!(
                    allowed.is_some_and(|value| value == origin),
                    is_listed,
                    "{origin}"
                );
                assert!(
                    answer
                        .headers()
                        .get_all("vary")
                        .iter()
                        .any(|value| value == "origin")
                );
                assert!(
                    !answer
                        .headers()
                        .contains_key("access-control-allow-credentials")
                );

                let preflight = scene
                    .request("OPTIONS", "/v1/jobs")
                    .header("origin", origin);
                let preflight = preflight.header("access-control-request-method", "POST");
                let answer = preflight.send().await.unwrap();
                let allowed = answer.headers().get("access-control-allow-methods");
                if is_listed {
                    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
                    assert_eq!(answer.headers()["access-control-allow-origin"], origin);
                    assert!(allowed.unwrap().to_str().unwrap().contains("POST"));
                    let headers = &answer.headers()["access-control-allow-headers"];
                    assert!(headers.to_str().unwrap().contains("authorization"));
                } else {
                    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
                    assert_eq!(allowed, None);
                }
            }
        },
    );
}

#[test]
fn no_origin_is_allowed_by_default() {
    run_test(async |scene| {
        let answer = scene
            .get("/v1/jobs")
            .header("origin", EVIL)
            .send()
            .await
            .unwrap();
        let cors = answer
            .headers()
            .keys()
            .filter(|name| name.as_str().starts_with("access-control"));
        assert_eq!(cors.count(), 0);
    });
}

#[test]
fn every_answer_is_guarded() {
    run_test(async |scene| {
        let id = scene.schedule_plain().await;
        scene.ended(&id).await;
        for (method, path) in [
            ("GET", "/".to_owned()),
            ("GET", "/healthz".to_owned()),
            ("GET", "/openapi.json".to_owned()),
            ("GET", format!("/v1/jobs/{id}")),
            ("GET", format!("/v1/jobs/{id}/events")),
            ("GET", format!("/v1/jobs/{id}/artifacts")),
            ("GET", "/no/such/page".to_owned()),
            ("PUT", "/v1/jobs".to_owned()),
            ("HEAD", "/v1/jobs".to_owned()),
        ] {
            let answer = scene.request(method, &path).send().await.unwrap();
            let headers = answer.headers();
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(headers[name], value, "{method} {path}");
            }
            let policy = headers["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'"), "{method} {path}");
            assert!(headers.contains_key("permissions-policy"));
            assert!(headers.contains_key("cache-control"));
            assert_eq!(headers["x-request-id"].len(), 36);
            assert!(!headers.contains_key("server"));
        }
        let policy = scene.get("/").send().await.unwrap();
        let policy = policy.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(policy.contains("script-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"), "{policy}");
    });
}

#[test]
fn changes_are_on_record_and_nothing_secret_is() {
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            let users = scene.users.clone();
            let secret = "a task that no other user may read";
            let request = scene
                .post("/schedule")
                .bearer_auth(&users.ann)
                .json(&json!({"task": secret}));
            let answer = request.send().await.unwrap();
            let schedule_id = answer.headers()["x-request-id"]
                .to_str()
                .unwrap()
                .to_owned();
            let answer: Value = answer.json().await.unwrap();
            let id = answer["job_id"].as_str().unwrap();
            let cancel = format!("/v1/jobs/{id}/cancel");
            scene
                .post(&cancel)
                .bearer_auth(&users.ben)
                .send()
                .await
                .unwrap();
            scene
                .get("/v1/jobs")
                .bearer_auth(&users.ann)
                .send()
                .await
                .unwrap();
            let login = scene.post("/v1/login").json(&json!({"key": users.ben}));
            login.send().await.unwrap();
            let login = scene.post("/v1/login").json(&json!({"key": "hc_wrong"}));
            login.send().await.unwrap();
            scene.post("/v1/keys").send().await.unwrap();
            scene.end().await;

            let path = scene.data("server-audit.jsonl");
            let log = std::fs::read_to_string(&path).unwrap();
            let lines = log
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let seen: Vec<_> = lines.map(|line| line["event"].clone()).collect();
            let shown: Vec<String> = seen
                .iter()
                .map(|event| {
                    let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                    match event["kind"].as_str().unwrap() {
                        "request" => format!("{} asks for {}", field("user"), field("path")),
                        "answer" => format!("{}{}", field("user"), event["status"]),
                        "refusal" => format!("{} {} is refused", event["status"], field("route")),
                        other => other.to_owned(),
                    }
                })
                .collect();
            assert_eq!(
                shown,
                [
                    "ann asks for /schedule".to_owned(),
                    "200".to_owned(),
                    format!("ben asks for {cancel}"),
                    "404".to_owned(),
                    " asks for /v1/login".to_owned(),
                    "ben204".to_owned(),
                    "401 /v1/login is refused".to_owned(),
                    "401 /v1/keys is refused".to_owned(),
                ]
            );
            // The caller, the address, and which request an answer belongs to.
            assert_eq!(seen[0]["id"], schedule_id.as_str());
            assert_eq!(seen[1]["id"], schedule_id.as_str());
            assert_eq!(seen[0]["remote"], "127.0.0.1");
            let key = seen[0]["key"].as_str().unwrap();
            assert!(uuid::Uuid::parse_str(key).is_ok(), "{key}");
            assert!(seen[4]["key"].is_null());
            for secret in [secret, &users.ann, &users.ben, "hc_wrong"] {
                assert!(!log.contains(secret), "{log}");
            }
            assert!(audit::verify(&path).unwrap().is_clean());
        },
    );
}
