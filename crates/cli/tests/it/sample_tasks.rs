//! Three complete tasks: the replies are scripted, everything else is real.

use std::process::Output;

use llm::script::ScriptedReply;
use serde_json::json;
use testkit::ModelServer;

use crate::place::{Place, assert_code, run, stderr, stdout};
use crate::programs::{FILTER, FILTER_TEST};
use crate::scene::{KEY, Scene, bash, results, say, write};

const HELLO: &str = "print(\"Hello, World!\")\n";

fn hello_world() -> Vec<ScriptedReply> {
    let mut first = write("hello.py", HELLO);
    first.text = Some("I write it first.".into());
    vec![
        first,
        bash("python3 hello.py"),
        say("`hello.py` prints the greeting."),
    ]
}

/// The answer is alone on standard output; progress is on standard error.
#[track_caller]
fn check_streams(output: &Output, answer: &str, progress: &[&str]) {
    assert_code(output, 0);
    assert_eq!(stdout(output), format!("{answer}\n"));
    let said = stderr(output);
    for words in progress {
        assert!(said.contains(words), "no `{words}` in:\n{said}");
    }
    assert!(!said.contains('\x1b'), "{said}");
}

#[test]
fn hello_world_over_the_messages_api() {
    let scene = Scene::new(hello_world());
    let task = "Create a Python script that prints Hello, World! and run it";
    let output = scene.run(&["run", task]);
    check_streams(
        &output,
        "`hello.py` prints the greeting.",
        &[
            "I write it first.",
            "● write hello.py",
            "● $ python3 hello.py",
            "  │ Hello, World!",
            "sandbox: native walls · no network",
            "3 requests",
        ],
    );
    assert_eq!(scene.read("hello.py"), HELLO);
    let requests = scene.server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        requests[0].json()["messages"][0]["content"][0]["text"],
        task
    );
    let written = &results(&requests[1])[0];
    assert!(written.contains("hello.py"), "{written}");
    assert!(results(&requests[2])[0].contains("Hello, World!"));
}

#[test]
fn hello_world_over_chat_completions() {
    let place = Place::new();
    let server = ModelServer::start(hello_world());
    let url = server.base_url();
    let task = [
        "run",
        "--model",
        "openai/some-model",
        "--base-url",
        &url,
        "Greet",
    ];
    let output = run(place.hotcell(task).env("OPENAI_API_KEY", KEY));
    check_streams(
        &output,
        "`hello.py` prints the greeting.",
        &["● $ python3 hello.py", "  │ Hello, World!", "cost unknown"],
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].json()["model"], "some-model");
    let bearer = format!("Bearer {KEY}");
    assert_eq!(requests[0].header("authorization"), Some(bearer.as_str()));
    assert!(results(&requests[2])[0].contains("Hello, World!"));
    let file = place.here("workspace/hello.py");
    assert_eq!(std::fs::read_to_string(file).unwrap(), HELLO);
}

const API: &str = r#"import http.server
import json


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/health"
        body = json.dumps({"status": "ok"} if found else {"error": "not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)


def make(port):
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server = make(8080)
    print("listening", flush=True)
    server.serve_forever()
"#;

const API_TEST: &str = r#"import json
import threading
import unittest
import urllib.error
import urllib.request

import api


class Health(unittest.TestCase):
    def setUp(self):
        self.server = api.make(0)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def test_health(self):
        with urllib.request.urlopen(self.url + "/health") as answer:
            self.assertEqual(json.load(answer), {"status": "ok"})

    def test_other(self):
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(self.url + "/other")
"#;

#[test]
fn a_server_is_left_running_queried_tested_and_killed() {
    let query = "python3 -c 'import urllib.request as r; \
                 print(r.urlopen(\"http://127.0.0.1:8080/health\").read().decode())'";
    let patient = format!("for i in $(seq 100); do {query} 2>/dev/null && break; sleep 0.1; done");
    let scene = Scene::new([
        write("api.py", API),
        write("test_api.py", API_TEST),
        ScriptedReply::call(
            "bash",
            json!({"command": "python3 api.py", "background": true}),
        ),
        bash(&patient),
        bash("python3 -m unittest -v test_api 2>&1"),
        ScriptedReply::call("bash_job", json!({"job": 1, "action": "kill"})),
        bash(query),
        say("The API answers, and its tests pass."),
    ]);
    let output = scene.run(&["run", "Write an HTTP API with /health, and test it"]);
    check_streams(
        &output,
        "The API answers, and its tests pass.",
        &["● $ python3 api.py", "● kill job 1"],
    );
    let requests = scene.server.requests();
    let result = |number: usize| results(&requests[number]).join("");
    assert!(result(3).contains("job 1"), "{}", result(3));
    assert!(result(4).contains(r#"{"status": "ok"}"#), "{}", result(4));
    assert!(result(5).contains("Ran 2 tests"), "{}", result(5));
    assert!(result(5).contains("OK"), "{}", result(5));
    // The port is closed.
    assert!(result(7).contains("Connection refused"), "{}", result(7));
    assert!(result(7).contains("exit code: 1"), "{}", result(7));
}

#[test]
fn a_filter_with_sample_data_and_tests() {
    let people = "name,age\nAda,36\nBob,17\n\"Eve, of old\",90\n";
    // Three calls in one reply: their results are sent in one message.
    let mut files = write("filter.py", FILTER);
    files
        .calls
        .extend(write("test_filter.py", FILTER_TEST).calls);
    files.calls.extend(write("data/people.csv", people).calls);
    let scene = Scene::new([
        files,
        bash("python3 filter.py data/people.csv age 18 data/adults.csv && cat data/adults.csv"),
        bash("python3 -m unittest -v 2>&1"),
        say("Two of three are adults."),
    ]);
    let output = scene.run(&[
        "run",
        "Filter a CSV file by age, with sample data and tests",
    ]);
    check_streams(&output, "Two of three are adults.", &["data/people.csv"]);
    let requests = scene.server.requests();
    assert_eq!(results(&requests[1]).len(), 3);
    let tests = results(&requests[3]).join("");
    assert!(
        tests.contains("Ran 2 tests") && tests.contains("OK"),
        "{tests}"
    );
    let adults = "name,age\nAda,36\n\"Eve, of old\",90\n";
    assert_eq!(scene.read("data/adults.csv"), adults);
}
