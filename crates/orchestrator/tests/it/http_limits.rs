//! Limits: bodies, rates, queues, wrong keys.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{ServerScene, run_test, run_test_with, text};

#[test]
fn bodies_have_a_size() {
    run_test_with(
        |config| config.largest_body = 1_000,
        async |scene| {
            for (size, status) in [
                (100, StatusCode::OK),
                (1_000, StatusCode::OK),
                (1_001, StatusCode::PAYLOAD_TOO_LARGE),
                (1 << 20, StatusCode::PAYLOAD_TOO_LARGE),
            ] {
                let body = "x".repeat(size);
                let request = scene.post("/schedule").header("content-type", "text/plain");
                let answer = request.body(body.clone()).send().await.unwrap();
                assert_eq!(answer.status(), status, "{size}");

                // The same without `Content-Length`.
                let pieces = body
                    .into_bytes()
                    .chunks(300)
                    .map(|piece| Ok::<_, std::io::Error>(piece.to_vec()))
                    .collect::<Vec<_>>();
                let stream = futures_util::stream::iter(pieces);
                let request = scene.post("/schedule").header("content-type", "text/plain");
                let request = request.body(reqwest::Body::wrap_stream(stream));
                assert_eq!(
                    request.send().await.unwrap().status(),
                    status,
                    "{size} in pieces"
                );
            }
        },
    );
}

#[test]
fn too_many_requests_are_refused_for_a_while() {
    run_test_with(
        |config| {
            config.rate = 1;
            config.require_keys = true;
        },
        async |scene| {
            let ask = async |key: &str| scene.get("/v1/me").bearer_auth(key).send().await.unwrap();
            let mut refused = None;
            // Bursts of ten are accepted, plus the few that the elapsed time allows.
            for number in 0..30 {
                let answer = ask(&scene.users.ann).await;
                if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                    refused = Some((number, answer));
                    break;
                }
                assert_eq!(answer.status(), StatusCode::OK);
            }
            let (number, answer) = refused.expect("thirty requests in a row are too many");
            assert!(number >= 10, "{number}");
            let wait: u64 = answer.headers()["retry-after"]
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!(wait >= 1);
            let problem: Value = answer.json().await.unwrap();
            assert_eq!(problem["type"], "/docs#problem-too-many-requests");
            // Other users are not affected.
            assert_eq!(ask(&scene.users.ben).await.status(), StatusCode::OK);
        },
    );
}

#[test]
fn guessed_keys_are_limited_and_valid_keys_are_not() {
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            let known = async || {
                let request = scene.get("/v1/me").bearer_auth(&scene.users.ann);
                request.send().await.unwrap().status()
            };
            assert_eq!(known().await, StatusCode::OK);
            let mut statuses = Vec::new();
            for number in 0..200 {
                let request = scene.get("/v1/me").bearer_auth(format!("hc_guess{number}"));
                statuses.push(request.send().await.unwrap().status());
            }
            assert_eq!(statuses[0], StatusCode::UNAUTHORIZED);
            assert_eq!(statuses[199], StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(known().await, StatusCode::OK);
        },
    );
}

#[test]
fn wrong_keys_do_not_delay_valid_keys_of_the_same_address() {
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            let mut keys = Vec::new();
            for number in 0..40 {
                let new = json!({"user": format!("user{number}"), "role": "user"});
                let request = scene.post("/v1/keys").bearer_auth(&scene.users.admin);
                let made = request.json(&new).send().await.unwrap();
                let made: Value = made.json().await.unwrap();
                keys.push(made["token"].as_str().unwrap().to_owned());
            }
            let guess = async |number: u32| {
                let request = scene.get("/v1/me").bearer_auth(format!("hc_guess{number}"));
                request.send().await.unwrap().status()
            };
            let mut number = 0;
            while guess(number).await != StatusCode::TOO_MANY_REQUESTS {
                number += 1;
            }
            // None of these keys was used before.
            for key in &keys {
                let answer = scene.get("/v1/me").bearer_auth(key).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
            }
            // Logins are not delayed either, even with an expired cookie.
            for key in &keys {
                let request = scene.post("/v1/login").json(&json!({"key": key}));
                let request = request.header("cookie", "hotcell=hc_old");
                let request = request.header("origin", scene.url(""));
                let answer = request.send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::NO_CONTENT);
            }
            let request = scene.get("/login").header("cookie", "hotcell=hc_old");
            assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
        },
    );
}

#[test]
fn a_trusted_proxy_names_the_client_address() {
    async fn guess(scene: &ServerScene, client: &str) -> StatusCode {
        let request = scene.get("/v1/me").bearer_auth("hc_guess");
        let request = request.header("x-forwarded-for", client);
        request.send().await.unwrap().status()
    }
    async fn guess_until_refused(scene: &ServerScene, client: impl Fn(u8) -> String) {
        for number in 0..=u8::MAX {
            if guess(scene, &client(number)).await == StatusCode::TOO_MANY_REQUESTS {
                return;
            }
        }
        panic!("no request was refused");
    }
    run_test_with(
        |config| {
            config.require_keys = true;
            config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        },
        async |scene| {
            // Addresses that a client adds before the proxy's entry have no effect.
            guess_until_refused(scene, |number| format!("198.51.100.{number}, 192.0.2.1")).await;
            assert_eq!(guess(scene, "192.0.2.2").await, StatusCode::UNAUTHORIZED);
        },
    );
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            // A client that is not a trusted proxy cannot set its address.
            guess_until_refused(scene, |number| format!("198.51.100.{number}")).await;
        },
    );
}

#[test]
fn a_full_queue_has_a_retry_delay() {
    run_test_with(
        |config| {
            config.concurrency = 1;
            config.queue = 2;
            config.queue_per_user = 2;
        },
        async |scene| {
            let gate = scene.models.add_gated("slow", [text("Done.")]);
            let request = json!({"task": "Wait.", "model": "slow"});
            let running = scene.schedule(request.clone()).await;
            gate.asked(1).await;
            let waiting = [
                scene.schedule(request.clone()).await,
                scene.schedule(request.clone()).await,
            ];
            for path in ["/schedule", "/v1/jobs"] {
                let answer = scene.post(path).json(&request).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
                assert!(answer.headers().contains_key("retry-after"));
                let problem: Value = answer.json().await.unwrap();
                assert_eq!(problem["type"], "/docs#problem-queue-full");
            }
            gate.open(3);
            for id in [&running, &waiting[0], &waiting[1]] {
                scene.ended(id).await;
            }
            scene.schedule_plain().await;
        },
    );
}

#[test]
fn a_server_that_ends_accepts_no_jobs() {
    run_test(async |scene| {
        assert_eq!(
            scene.get("/readyz").send().await.unwrap().status(),
            StatusCode::OK
        );
        scene.end().await;
        assert!(scene.get("/readyz").send().await.is_err());
    });
}
