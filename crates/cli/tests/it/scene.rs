//! A place with a scripted model server, and helpers for both.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use llm::script::ScriptedReply;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::{ModelServer, RecordedRequest, Replies};

use crate::place::{Place, assert_code, run, start, stdout};

/// A key that is easy to find in any output.
pub(crate) const KEY: &str = "sk-ant-test-0123456789-verysecret";

pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) server: ModelServer,
}

impl Scene {
    pub(crate) fn new(replies: impl Into<Replies>) -> Self {
        Self {
            place: Place::new(),
            server: ModelServer::start(replies),
        }
    }

    /// `hotcell` with these arguments, and an environment that names the server.
    pub(crate) fn hotcell<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.place.hotcell(arguments);
        command
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", self.server.base_url());
        command
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        run(&mut self.hotcell(arguments.iter().copied()))
    }

    /// Runs it successfully, and returns its standard output.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_code(&output, 0);
        stdout(&output)
    }

    /// A path in the workspace.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.here("workspace").join(name)
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// All sessions, newest first, from `sessions --json`.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<Value> {
        lines(&self.done(&["sessions", "--json", "-n", "0"]))
    }

    /// The session that changed last.
    #[track_caller]
    pub(crate) fn latest(&self) -> Value {
        let changed = |session: &Value| session["changed"].as_str().unwrap().to_owned();
        self.sessions().into_iter().max_by_key(changed).unwrap()
    }

    /// Its name.
    #[track_caller]
    pub(crate) fn session(&self) -> String {
        self.latest()["session"].as_str().unwrap().to_owned()
    }

    /// The results of calls in the latest request, in order.
    #[track_caller]
    pub(crate) fn results(&self) -> Vec<String> {
        results(self.server.requests().last().unwrap())
    }
}

/// The results of calls in the last message of a request, of either API.
pub(crate) fn results(request: &RecordedRequest) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    if request.path.ends_with("/completions") {
        let results = messages
            .iter()
            .rev()
            .take_while(|message| message["role"] == "tool");
        let mut results: Vec<String> = results.map(|message| text(&message["content"])).collect();
        results.reverse();
        return results;
    }
    let blocks = messages.last().unwrap()["content"].as_array();
    let blocks = blocks.into_iter().flatten();
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| text(&block["content"]))
        .collect()
}

/// Content of either form.
fn text(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let parts = content.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect()
        }
    }
}

pub(crate) fn say(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

pub(crate) fn bash(command: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({"command": command}))
}

pub(crate) fn write(path: &str, content: &str) -> ScriptedReply {
    ScriptedReply::call("write_file", json!({"path": path, "content": content}))
}

/// Parses one JSON value per line.
#[track_caller]
pub(crate) fn lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    text.lines().map(parse).collect()
}

/// Starts a command, and returns a reader of its output, one value per line; `None` at the end.
pub(crate) fn listen(command: &mut Command) -> (Child, impl FnMut() -> Option<Value> + use<>) {
    let mut child = start(command);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = move || {
        let line = lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
    };
    (child, next)
}

/// Reads until an event of this type.
#[track_caller]
pub(crate) fn until(next: &mut impl FnMut() -> Option<Value>, kind: &str) -> Value {
    loop {
        let event = next().unwrap_or_else(|| panic!("no `{kind}` came"));
        if event["type"] == kind {
            return event;
        }
    }
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}
