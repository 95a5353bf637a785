//! The user's messages in a request.

use serde_json::Value;
use testkit::RecordedRequest;

use crate::scene::Scene;

/// Messages of the user in a request, in order, without results of calls.
pub(crate) fn prompts(request: &RecordedRequest) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let is_person = |message: &&Value| message["role"] == "user";
    messages
        .iter()
        .filter(is_person)
        .filter_map(|message| words(&message["content"]))
        .collect()
}

/// The same, of the latest request.
#[track_caller]
pub(crate) fn last_prompts(scene: &Scene) -> Vec<String> {
    prompts(scene.server.requests().last().unwrap())
}

fn words(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
