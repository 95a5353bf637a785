//! Jobs of a real server on the screen: listed, followed while they run, and talked to.

use std::io::{BufRead, BufReader};
use std::process::Child;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testkit::{Answer, Gate, Replies};

use crate::heard::last_prompts;
use crate::place::{eventually, start};
use crate::scene::{Scene, bash, say, send};
use crate::screen::Screen;

/// A server that asks the scene's model. Ends with this.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(scene: &Scene) -> Self {
        let mut child = start(&mut scene.hotcell(["serve", "--listen", "127.0.0.1:0"]));
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { child, url }
    }

    fn ask(&self, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}{path}", self.url);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        runtime.block_on(async {
            let client = reqwest::Client::builder()
                .tls_certs_only([])
                .no_proxy()
                .build()
                .unwrap();
            let request = match body {
                Some(body) => client.post(url).json(&body),
                None => client.get(url),
            };
            request.send().await.unwrap().json().await.unwrap()
        })
    }

    fn schedule(&self, job: Value) -> String {
        let job = self.ask("/v1/jobs", Some(job));
        job["id"].as_str().unwrap().to_owned()
    }

    fn state(&self, id: &str) -> Value {
        self.ask(&format!("/v1/jobs/{id}"), None)["state"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        send(&self.child, Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

#[test]
fn a_running_job_is_followed_and_talked_to() {
    let gate = Gate::new();
    let scene = Scene::new(Replies::list([
        bash("echo from $((40 + 2)) inside").into(),
        Answer::reply(say("The job says one.")).hold(0, &gate),
        say("The job says two.").into(),
    ]));
    let server = Server::start(&scene);
    let id = server.schedule(json!({"task": "Count for me", "interactive": true}));
    gate.wait_reached();
    // A store of its own, as on another machine.
    let arguments = ["--server", &server.url, "--data", "own"];
    let screen = Screen::ready(&scene, 100, 30, &arguments);
    screen.say("/jobs");
    screen.wait_for("running");
    screen.wait_for("Count for me");
    screen.press(&["Enter"]);
    screen.wait_for("> Count for me");
    screen.wait_for("  │ from 42 inside");
    screen.wait_for(&format!("job {}", &id[..8]));
    screen.wait_for("esc interrupts");
    gate.open();
    screen.wait_for("The job says one.");
    eventually("the job waits", || server.state(&id) == "waiting");
    screen.say("And then?");
    screen.wait_for("The job says two.");
    assert_eq!(last_prompts(&scene), ["Count for me", "And then?"]);
    screen.say("/quit");
    screen.assert_left(0);
    // Whoever left did not end it.
    eventually("the job waits again", || server.state(&id) == "waiting");

    let screen = Screen::ready(&scene, 100, 30, &arguments);
    screen.say(&format!("/attach {}", &id[..13]));
    for past in [
        "> Count for me",
        "The job says one.",
        "> And then?",
        "The job says two.",
    ] {
        screen.wait_for(past);
    }
    // Back to an agent of one's own.
    screen.say("/clear");
    screen.wait_for("what do you want done?");
    screen.wait_gone("The job says two.");
}

#[test]
fn a_server_that_is_not_there() {
    let scene = Scene::new([say("Here all the same.")]);
    let screen = Screen::ready(&scene, 80, 24, &["--server", "http://127.0.0.1:1"]);
    screen.say("/jobs");
    screen.wait_for("cannot reach the server `http://127.0.0.1:1`");
    screen.press(&["Escape"]);
    screen.wait_gone("look for");
    screen.say("Hello");
    screen.wait_for("Here all the same.");
}
