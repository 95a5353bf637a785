//! A server's jobs in the chat: listed, followed, talked to, and not ended by leaving.

use std::io::{BufRead, BufReader};

use serde_json::json;

use crate::hosted::Hosted;
use crate::place::{assert_code, feed, finish, start, stderr, stdout};
use crate::scene::{Scene, say, write};

/// A server beside the model.
struct ChatServer {
    scene: Scene,
    server: Hosted,
}

impl ChatServer {
    fn start(scene: Scene, flags: &[&str]) -> Self {
        let server = Hosted::start(&scene, flags);
        Self { scene, server }
    }

    #[track_caller]
    fn talk(&self, lines: &[&str]) -> std::process::Output {
        let said = lines.join("\n") + "\n";
        let mut command = self.scene.hotcell(["--server", &self.server.url]);
        // Its own store, as on another machine.
        command.args(["--data", "own"]);
        feed(&mut command, said.as_bytes())
    }
}

#[test]
fn a_job_is_followed_from_its_first_word_and_talked_to() {
    let scene = Scene::new([
        write("made", "by the job\n"),
        say("one"),
        say("two"),
        say("three"),
    ]);
    let jobs = ChatServer::start(scene, &[]);
    let id = jobs
        .server
        .schedule(json!({"task": "Make it", "interactive": true}));
    jobs.server.wait_until(&id, "waiting");
    let attach = format!("/attach {}", &id[..13]);
    let lines = [
        "/jobs", &attach, "And now?", "/files", "/diff", "/undo", "/clear", "Hello",
    ];
    let output = jobs.talk(&lines);
    assert_code(&output, 0);
    let said = stdout(&output);
    let expect = format!(
        "{id}  waiting   Make it\none\ntwo\nmade\nmade\n@@ -0,0 +1 @@\n+by the job\nthree\n"
    );
    assert_eq!(said, expect);
    assert!(
        stderr(&output).contains("a server's job cannot do that"),
        "{output:?}"
    );
    // Leaving did not end it.
    assert_eq!(
        jobs.server.ask(&format!("/v1/jobs/{id}"), None)["state"],
        "waiting"
    );
}

#[test]
fn a_message_wakes_up_a_job_that_has_ended() {
    let jobs = ChatServer::start(Scene::new(["one", "two"].map(say)), &[]);
    let id = jobs.server.schedule(json!({"task": "Say one"}));
    jobs.server.wait_until(&id, "complete");
    let output = jobs.talk(&[&format!("/attach {id}"), "And then?"]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "one\ntwo\n");
    assert!(
        stderr(&output).contains("the job is complete"),
        "{output:?}"
    );
}

#[test]
fn servers_that_cannot_be_talked_to() {
    let scene = Scene::new([say("never")]);
    let check = |url: &str, key: Option<&str>, line: &str, expect: &str| {
        let mut command = scene.hotcell(["--server", url]);
        command.envs(key.map(|key| ("HOTCELL_API_KEY", key)));
        let output = feed(&mut command, line.as_bytes());
        let said = stderr(&output);
        assert!(said.contains(expect), "{url}: {said}");
        assert!(!said.contains("hush-hush"), "{said}");
        assert_ne!(output.status.code(), Some(0));
    };
    let key = Some("hush-hush");
    check(
        "http://127.0.0.1:1",
        None,
        "/jobs\n",
        "cannot reach the server `http://127.0.0.1:1`",
    );
    check(
        "http://192.0.2.1",
        key,
        "/jobs\n",
        "the key would be sent to `http://192.0.2.1` unencrypted",
    );
    check(
        "ftp://host",
        key,
        "/jobs\n",
        "the server's address from flag is `ftp://host`",
    );
    check(
        "http://me@127.0.0.1:1",
        key,
        "/jobs\n",
        "the server's address from flag",
    );
    let jobs = ChatServer::start(scene, &["--require-keys"]);
    let output = jobs.talk(&["/jobs"]);
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("hint: set HOTCELL_API_KEY"),
        "{output:?}"
    );
}

#[test]
fn a_job_that_is_none() {
    let jobs = ChatServer::start(Scene::new(["one", "two"].map(say)), &[]);
    let output = jobs.talk(&["/attach 019"]);
    assert_code(&output, 2);
    assert!(stderr(&output).starts_with("hotcell: there is no job `019`\nhint: "));
    let one = jobs.server.schedule(json!({"task": "One"}));
    let two = jobs.server.schedule(json!({"task": "Two"}));
    jobs.server.wait_until(&one, "complete");
    jobs.server.wait_until(&two, "complete");
    let common: String = one
        .chars()
        .zip(two.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    let output = jobs.talk(&[&format!("/attach {common}")]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("matches 2 jobs"), "{output:?}");
}

/// The server goes away and comes back; missed events are received then.
#[test]
fn a_connection_that_is_lost_is_made_again() {
    let gate = testkit::StreamGate::new();
    let held = testkit::ScriptedAnswer::reply(say("one two three")).hold(5, &gate);
    let scene = Scene::new([held, say("one two three").into()]);
    let mut jobs = ChatServer::start(scene, &["--drain", "1ms"]);
    let id = jobs.server.schedule(json!({"task": "Count"}));
    gate.wait_reached();
    let mut command = jobs.scene.hotcell(["--server", &jobs.server.url]);
    command
        .args(["--data", "own"])
        .stdin(std::process::Stdio::piped());
    let mut child = start(&mut command);
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, format!("/attach {id}\n").as_bytes()).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut heard = String::new();
    let mut hear_until = |words: &str| {
        while !heard.contains(words) {
            assert_ne!(
                said.read_line(&mut heard).unwrap(),
                0,
                "no `{words}` in {heard}"
            );
        }
    };
    hear_until("session ");
    jobs.server.stop();
    hear_until("the connection is lost");
    let address = jobs.server.url.trim_start_matches("http://").to_owned();
    jobs.server = Hosted::listen(&jobs.scene, &address, &[]);
    hear_until("reconnected");
    hear_until("the job is complete");
    drop(stdin);
    let output = finish(child);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "one two three\n");
}
