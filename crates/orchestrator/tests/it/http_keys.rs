//! Keys and logins: shown once, and invalid as soon as they are ended.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{ServerScene, run_test, run_test_with};

fn play_with_users(test: impl AsyncFnOnce(&mut ServerScene)) {
    run_test_with(|config| config.require_keys = true, test);
}

async fn me(scene: &ServerScene, header: &str, value: &str) -> (StatusCode, Value) {
    let answer = scene
        .get("/v1/me")
        .header(header, value)
        .send()
        .await
        .unwrap();
    (answer.status(), answer.json().await.unwrap())
}

#[test]
fn a_key_works_until_it_is_revoked() {
    play_with_users(async |scene| {
        let admin = scene.users.admin.clone();
        let request = scene.post("/v1/keys").bearer_auth(&admin);
        let request = request.json(&json!({"user": "cleo", "role": "user", "label": "laptop"}));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let made: Value = answer.json().await.unwrap();
        let token = made["token"].as_str().unwrap();
        assert!(token.starts_with(made["key"]["prefix"].as_str().unwrap()));

        for (header, value) in [
            ("authorization", format!("Bearer {token}")),
            ("authorization", format!("bearer {token}")),
            ("x-api-key", token.to_owned()),
        ] {
            let (status, me) = me(scene, header, &value).await;
            assert_eq!(
                (status, &me["user"]),
                (StatusCode::OK, &json!("cleo")),
                "{header}"
            );
            assert_eq!(me["role"], "user");
            assert_eq!(me["needs_key"], true);
        }
        let list = scene
            .get("/v1/keys")
            .bearer_auth(&admin)
            .send()
            .await
            .unwrap();
        let list = list.text().await.unwrap();
        assert!(list.contains("laptop") && !list.contains(token), "{list}");

        let id = made["key"]["id"].as_str().unwrap();
        let revoke = async || {
            let request = scene.request("DELETE", &format!("/v1/keys/{id}"));
            request.bearer_auth(&admin).send().await.unwrap().status()
        };
        assert_eq!(revoke().await, StatusCode::NO_CONTENT);
        let (status, _) = me(scene, "x-api-key", token).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert_eq!(revoke().await, StatusCode::CONFLICT);
    });
}

#[test]
fn users_create_only_keys_of_their_own() {
    play_with_users(async |scene| {
        for (user, role, status) in [
            ("ann", "user", StatusCode::CREATED),
            ("ann", "admin", StatusCode::FORBIDDEN),
            ("ben", "user", StatusCode::FORBIDDEN),
        ] {
            let request = scene.post("/v1/keys").bearer_auth(&scene.users.ann);
            let request = request.json(&json!({"user": user, "role": role, "label": "x"}));
            assert_eq!(
                request.send().await.unwrap().status(),
                status,
                "{user} {role}"
            );
        }
    });
}

#[test]
fn a_browser_logs_in_and_out() {
    play_with_users(async |scene| {
        let request = scene
            .post("/v1/login")
            .json(&json!({"key": scene.users.ann}));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let pair = cookie.split(';').next().unwrap();
        assert!(
            !pair.contains(&scene.users.ann),
            "the key itself is not in it"
        );
        let (status, who) = me(scene, "cookie", pair).await;
        assert_eq!((status, &who["user"]), (StatusCode::OK, &json!("ann")));

        // A change with a cookie must provably come from a page of this server.
        let own = scene.url("");
        for (headers, status) in [
            (vec![], StatusCode::FORBIDDEN),
            (vec![("sec-fetch-site", "none")], StatusCode::FORBIDDEN),
            (
                vec![("sec-fetch-site", "cross-site")],
                StatusCode::FORBIDDEN,
            ),
            (
                vec![("origin", "http://evil.example")],
                StatusCode::FORBIDDEN,
            ),
            (vec![("sec-fetch-site", "same-origin")], StatusCode::OK),
            (vec![("origin", own.as_str())], StatusCode::OK),
        ] {
            let mut request = scene
                .post("/schedule")
                .json(&json!({"task": "x"}))
                .header("cookie", pair);
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            assert_eq!(
                request.send().await.unwrap().status(),
                status,
                "{headers:?}"
            );
        }

        let request = scene
            .post("/v1/logout")
            .header("cookie", pair)
            .header("origin", &own);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert!(
            answer.headers()["set-cookie"]
                .to_str()
                .unwrap()
                .contains("Max-Age=0")
        );
        assert_eq!(me(scene, "cookie", pair).await.0, StatusCode::UNAUTHORIZED);
        // Pages are served to clients with an expired cookie.
        for page in ["/", "/login", "/chat"] {
            let answer = scene.get(page).header("cookie", pair).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{page}");
        }
    });
}

#[test]
fn a_login_ends_with_its_key() {
    play_with_users(async |scene| {
        let request = scene
            .post("/v1/login")
            .json(&json!({"key": scene.users.ben}));
        let answer = request.send().await.unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        let pair = cookie.split(';').next().unwrap();
        assert_eq!(me(scene, "cookie", pair).await.0, StatusCode::OK);
        let keys = scene
            .get("/v1/keys")
            .bearer_auth(&scene.users.ben)
            .send()
            .await
            .unwrap();
        let keys: Value = keys.json().await.unwrap();
        let id = keys["keys"][0]["id"].as_str().unwrap();
        let request = scene.request("DELETE", &format!("/v1/keys/{id}"));
        request.bearer_auth(&scene.users.ben).send().await.unwrap();
        assert_eq!(me(scene, "cookie", pair).await.0, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn without_keys_local_callers_are_admins_but_wrong_keys_are_refused() {
    run_test(async |scene| {
        let here = scene.json("/v1/me").await;
        assert_eq!(
            (&here["user"], &here["role"]),
            (&json!("local"), &json!("admin"))
        );
        assert_eq!(here["needs_key"], false);
        assert_eq!(here["default_model"], "scripted");
        assert_eq!(here["max_upload"], 4 << 20);
        assert!(here["limits"]["memory"].as_u64().unwrap() > 0);
        for path in ["/v1/me", "/v1/jobs", "/healthz", "/"] {
            let answer = scene
                .get(path)
                .bearer_auth("hc_wrong")
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
            assert!(answer.headers().contains_key("www-authenticate"));
        }
    });
}
