//! Models that decide from the request alone, so that they are correct after any crash.

use llm::script::ScriptedReply;
use serde_json::{Value, json};
use testkit::{
    Framing, ModelServer, ModelServerSettings, RecordedRequest, Replies, ScriptedAnswer,
};

pub(crate) fn say(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

pub(crate) fn bash(command: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({ "command": command }))
}

pub(crate) fn write(path: &str, content: &str) -> ScriptedReply {
    ScriptedReply::call("write_file", json!({ "path": path, "content": content }))
}

/// A transient failure that is retried at once.
pub(crate) fn overloaded() -> ScriptedAnswer {
    let error = ScriptedReply::error(529, "overloaded_error", "full");
    ScriptedAnswer::reply(error).with_header("retry-after-ms", "0")
}

/// A server that stores no requests, but checks all of them against the providers' rules.
pub(crate) fn serve<T: Into<ScriptedAnswer>>(
    decide: impl FnMut(&RecordedRequest) -> T + Send + 'static,
) -> ModelServer {
    let settings = ModelServerSettings {
        framing: Framing::whole(),
        keep: 1,
        ..ModelServerSettings::default()
    };
    ModelServer::start_with(Replies::decide(decide), settings)
}

/// A server whose jobs all do the same steps, then report that they are done.
pub(crate) fn serve_steps(steps: impl IntoIterator<Item = ScriptedReply>) -> ModelServer {
    let steps: Vec<ScriptedReply> = steps.into_iter().collect();
    serve(move |request| {
        let done = RequestView::of(request).results;
        steps.get(done).cloned().unwrap_or_else(|| say("Done."))
    })
}

/// What a request contains about its job.
#[derive(Debug)]
pub(crate) struct RequestView {
    /// Messages of the user, in order; the first is the task.
    pub(crate) said: Vec<String>,
    /// Successful results, as text.
    pub(crate) done: Vec<String>,
    /// Number of results, including failed ones.
    pub(crate) results: usize,
    /// The latest result.
    pub(crate) last: String,
}

impl RequestView {
    pub(crate) fn of(request: &RecordedRequest) -> Self {
        let body = request.json();
        let mut heard = Self {
            said: Vec::new(),
            done: Vec::new(),
            results: 0,
            last: String::new(),
        };
        for message in body["messages"].as_array().unwrap() {
            if message["role"] != "user" {
                continue;
            }
            match &message["content"] {
                Value::String(text) => heard.said.push(text.clone()),
                content => {
                    for block in content.as_array().unwrap() {
                        heard.take(block);
                    }
                }
            }
        }
        heard
    }

    fn take(&mut self, block: &Value) {
        match block["type"].as_str() {
            Some("text") => self.said.push(block["text"].as_str().unwrap().to_owned()),
            Some("tool_result") => {
                self.results += 1;
                self.last = block["content"].to_string();
                if block["is_error"] != true {
                    self.done.push(self.last.clone());
                }
            }
            _ => {}
        }
    }

    pub(crate) fn task(&self) -> &str {
        &self.said[0]
    }

    /// Whether a successful result contains this.
    pub(crate) fn has_done(&self, words: &str) -> bool {
        self.done.iter().any(|result| result.contains(words))
    }
}
