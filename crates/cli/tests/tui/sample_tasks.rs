//! Three tasks, typed into the screen: the agent's work is shown live, and the files are correct
//! afterwards.

use llm::script::ScriptedReply;
use serde_json::json;
use testkit::{Replies, ScriptedAnswer, StreamGate};

use crate::programs::{FILTER, FILTER_TEST};
use crate::prompts::last_prompts;
use crate::scene::{Scene, bash, results, say, write};
use crate::screen::TmuxScreen;

#[track_caller]
fn assert_shown(screen: &TmuxScreen, parts: &[&str]) {
    let text = screen.text();
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn hello_world() {
    let hello = "print(\"Hello, World!\")\n";
    let mut first = write("hello.py", hello);
    first.text = Some("I write it first.".into());
    let scene = Scene::new([
        first,
        bash("python3 hello.py"),
        say("`hello.py` prints the greeting."),
    ]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    let task = "Create a Python script that prints Hello, World! and run it";
    screen.say(task);
    screen.wait_for("hello.py prints the greeting.");
    assert_shown(
        &screen,
        &[
            &format!("> {task}"),
            "  I write it first.",
            "✓ write hello.py · +1\n",
            "  │ +print(\"Hello, World!\")",
            "✓ $ python3 hello.py",
            "  │ Hello, World!",
        ],
    );
    assert_eq!(scene.read("hello.py"), hello);
    assert_eq!(last_prompts(&scene), [task]);
    assert!(scene.results()[0].contains("Hello, World!"));
}

const API: &str = r#"import http.server
import json


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/health"
        body = json.dumps({"status": "ok"} if found else {"error": "not found"}).encode()
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler)
    print("listening on 8080", flush=True)
    server.serve_forever()
"#;

const API_TEST: &str = r#"import json
import unittest
import urllib.error
import urllib.request

URL = "http://127.0.0.1:8080"


class Health(unittest.TestCase):
    def test_health(self):
        with urllib.request.urlopen(URL + "/health") as answer:
            self.assertEqual(json.load(answer), {"status": "ok"})

    def test_other(self):
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(URL + "/other")
"#;

#[test]
fn an_api_is_left_running_queried_tested_and_killed() {
    let query = "python3 -c 'import urllib.request as r; \
                 print(r.urlopen(\"http://127.0.0.1:8080/health\").read().decode())'";
    let serve = json!({"command": "python3 api.py", "background": true});
    let (runs, tested) = (StreamGate::new(), StreamGate::new());
    let steps: [ScriptedAnswer; 8] = [
        write("api.py", API).into(),
        write("test_api.py", API_TEST).into(),
        ScriptedReply::call("bash", serve).into(),
        // Not before the screen has shown the server's first output.
        ScriptedAnswer::reply(bash(query)).hold(0, &runs),
        bash("python3 -m unittest -v test_api 2>&1").into(),
        ScriptedAnswer::reply(ScriptedReply::call(
            "bash_job",
            json!({"job": 1, "action": "kill"}),
        ))
        .hold(0, &tested),
        bash(query).into(),
        say("The API answers, and its tests pass.").into(),
    ];
    let scene = Scene::new(Replies::list(steps));
    let screen = TmuxScreen::ready(&scene, 120, 70, &[]);
    screen.say("Write an HTTP API with /health, and test it");
    screen.wait_for("  │ listening on 8080");
    screen.wait_for("1 in background");
    runs.open();
    tested.wait_reached();
    screen.wait_for("  │ OK");
    assert_shown(
        &screen,
        &[
            "✓ write api.py · +17\n",
            "  │ +import http.server",
            "  │ {\"status\": \"ok\"}",
            "✓ $ python3 -m unittest -v test_api",
            "1 in background",
        ],
    );
    tested.open();
    screen.wait_for("The API answers, and its tests pass.");
    screen.wait_gone("in background");
    assert_shown(
        &screen,
        &["✓ kill job 1", "job 1 is over", "Connection refused"],
    );
    let requests = scene.server.requests();
    let result = |number: usize| results(&requests[number]).join("");
    assert!(result(4).contains(r#"{"status": "ok"}"#), "{}", result(4));
    assert!(result(5).contains("Ran 2 tests"), "{}", result(5));
    assert!(result(7).contains("exit code: 1"), "{}", result(7));
}

#[test]
fn a_filter_with_sample_data_that_is_changed_after_its_first_run() {
    let people = "name,age\nAda,36\nBob,17\n\"Eve, of old\",90\n";
    let mut files = write("filter.py", FILTER);
    files
        .calls
        .extend(write("test_filter.py", FILTER_TEST).calls);
    files.calls.extend(write("data/people.csv", people).calls);
    let edit = json!({
        "path": "filter.py",
        "edits": [{"old": "float(row[column]) >= least", "new": "float(row[column]) > least"}],
    });
    let run = "python3 filter.py data/people.csv age 36 data/adults.csv && cat data/adults.csv";
    let scene = Scene::new([
        files,
        bash(run),
        bash("python3 -m unittest 2>&1"),
        ScriptedReply::call("edit_file", edit),
        bash(run),
        say("One of three is older than 36."),
    ]);
    let screen = TmuxScreen::ready(&scene, 120, 70, &[]);
    screen.say("Filter a CSV file by age, with sample data");
    screen.wait_for("One of three is older than 36.");
    assert_shown(
        &screen,
        &[
            "✓ write data/people.csv · +4\n",
            "  │ +Ada,36",
            "  │ Ada,36",
            "✓ $ python3 -m unittest 2>&1",
            "  │ OK",
            "✓ edit filter.py · +1 −1",
            "  │ -    return [row for row in rows if float(row[column]) >= least]",
            "  │ +    return [row for row in rows if float(row[column]) > least]",
        ],
    );
    assert_eq!(
        scene.read("data/adults.csv"),
        "name,age\n\"Eve, of old\",90\n"
    );
    let requests = scene.server.requests();
    assert_eq!(results(&requests[1]).len(), 3);
    let tests = results(&requests[3]).join("");
    assert!(tests.contains("Ran 2 tests"), "{tests}");
}

#[test]
fn the_end_of_what_a_command_prints_is_seen_while_it_runs() {
    let scene = Scene::new([
        bash("seq 100; until [ -e go ]; do sleep 0.02; done; echo it went"),
        say("Over."),
    ]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Wait for the file");
    screen.wait_for("  │ 100\n");
    assert_shown(
        &screen,
        &["● $ seq 100; until", "esc interrupts", "running $"],
    );
    std::fs::write(scene.file("go"), "").unwrap();
    screen.wait_for("Over.");
    assert_shown(&screen, &["  │ it went"]);
    screen.wait_gone("esc interrupts");
}
