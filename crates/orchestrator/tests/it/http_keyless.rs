//! A server without keys accepts its own user, not every user of the machine.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{ServerScene, run_test, run_test_with};

/// A user that is neither root nor the one who runs the tests.
const OTHER_USER: u32 = 65_533;

/// Sends a request from another process, as another user if there is one. Prints the status, and
/// then the body.
const CLIENT: &str = r#"
import http.client, sys
host, port, method, path, body, *headers = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port))
headers = dict(header.split(': ', 1) for header in headers)
headers['Content-Type'] = 'application/json'
connection.request(method, path, body or None, headers)
answer = connection.getresponse()
print(answer.status)
print(answer.read().decode())
"#;

async fn request_as(
    user: Option<u32>,
    scene: &ServerScene,
    method: &str,
    path: &str,
    body: &str,
    headers: &[&str],
) -> (u16, Value) {
    let mut client = Command::new("python3");
    client.args(["-c", CLIENT, &scene.address.ip().to_string()]);
    client.args([&scene.address.port().to_string(), method, path, body]);
    client.args(headers).current_dir("/").stdin(Stdio::null());
    if let Some(user) = user {
        client.uid(user).gid(user);
    }
    let output = tokio::task::spawn_blocking(move || client.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (status, body) = text.split_once('\n').unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (status.parse().unwrap(), body)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn another_user_of_the_machine_is_refused_and_makes_no_key() {
    run_test(async |scene| {
        let key = json!({"user": "mallory", "role": "admin", "label": ""}).to_string();
        // Only root can switch users; requests of an ordinary user must be accepted.
        let (user, refused) = if is_root() {
            (Some(OTHER_USER), true)
        } else {
            (None, false)
        };
        for (method, path, body) in [
            ("GET", "/v1/me", ""),
            ("GET", "/v1/jobs", ""),
            ("GET", "/metrics", ""),
            ("POST", "/schedule", r#"{"task": "Do harm."}"#),
            ("POST", "/v1/keys", &key),
        ] {
            let (status, problem) = request_as(user, scene, method, path, body, &[]).await;
            assert_eq!(
                status == 403,
                refused,
                "{method} {path}: {status} {problem}"
            );
            if refused {
                assert_eq!(problem["type"], "/docs#problem-other-user", "{path}");
                assert!(problem["hint"].as_str().unwrap().contains("keys create"));
            }
        }
        let keys = scene.json("/v1/keys").await;
        let count = usize::from(!refused);
        assert_eq!(keys["keys"].as_array().unwrap().len(), count, "{keys}");
        // Routes without data are public.
        for path in ["/", "/healthz", "/login"] {
            let (status, _) = request_as(user, scene, "GET", path, "", &[]).await;
            assert_eq!(status, 200, "{path}");
        }
    });
}

#[test]
fn another_user_with_a_key_is_served() {
    run_test(async |scene| {
        let new = json!({"user": "ann", "role": "user", "label": ""});
        let made = scene.post("/v1/keys").json(&new).send().await.unwrap();
        assert_eq!(made.status(), StatusCode::CREATED);
        let made: Value = made.json().await.unwrap();
        let key = format!("Authorization: Bearer {}", made["token"].as_str().unwrap());
        let user = is_root().then_some(OTHER_USER);
        let (status, me) = request_as(user, scene, "GET", "/v1/me", "", &[&key]).await;
        assert_eq!((status, &me["user"]), (200, &json!("ann")));
    });
}

#[test]
fn a_proxy_does_not_give_clients_its_rights() {
    run_test(async |scene| {
        for name in ["x-forwarded-for", "forwarded", "x-real-ip", "via"] {
            let request = scene.get("/v1/jobs").header(name, "127.0.0.1");
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name}");
            let problem: Value = answer.json().await.unwrap();
            assert_eq!(problem["type"], "/docs#problem-other-user");
            let request = scene.get("/healthz").header(name, "127.0.0.1");
            assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
        }
        assert_eq!(scene.json("/v1/me").await["user"], "local");
    });
}

#[test]
fn a_client_that_closes_at_once_is_not_treated_as_root() {
    const CLIENT: &str = r#"
import socket, sys
host, port, body = sys.argv[1:]
for _ in range(30):
    connection = socket.create_connection((host, int(port)))
    head = f'POST /v1/keys HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n'
    connection.sendall(f'{head}Content-Length: {len(body)}\r\n\r\n{body}'.encode())
    connection.close()
"#;
    run_test(async |scene| {
        // The kernel lists a closed socket as root's, whatever its owner was.
        let body = json!({"user": "mallory", "role": "admin", "label": ""}).to_string();
        let mut client = Command::new("python3");
        client.args(["-c", CLIENT, &scene.address.ip().to_string()]);
        client.args([&scene.address.port().to_string(), &body]);
        client.current_dir("/").stdin(Stdio::null());
        if is_root() {
            client.uid(OTHER_USER).gid(OTHER_USER);
        }
        let status = tokio::task::spawn_blocking(move || client.status().unwrap());
        assert!(status.await.unwrap().success());
        // All requests are answered before the server ends.
        scene.end().await;
        let jobs = store::JobStore::open(&scene.data("")).await.unwrap();
        let keys = jobs.keys().await.unwrap();
        // Requests of an ordinary user are accepted if the socket was still open at the lookup.
        assert!(keys.is_empty() || !is_root(), "{keys:?}");
    });
}

#[test]
fn with_keys_the_machine_does_not_matter() {
    run_test_with(
        |config| config.require_keys = true,
        async |scene| {
            let user = is_root().then_some(OTHER_USER);
            let (status, _) = request_as(user, scene, "GET", "/v1/me", "", &[]).await;
            assert_eq!(status, 401);
            let key = format!("Authorization: Bearer {}", scene.users.ann);
            let (status, _) = request_as(user, scene, "GET", "/v1/me", "", &[&key]).await;
            assert_eq!(status, 200);
        },
    );
}
