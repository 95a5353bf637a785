//! The providers' validation rules. Each check is a function from a request to its faults.

pub(crate) mod anthropic;
pub(crate) mod blocks;
pub(crate) mod openai;

use hyper::HeaderMap;
use serde_json::Value;

use crate::request_log::RecordedRequest;

/// The key sent with a request.
pub(crate) fn key(headers: &HeaderMap) -> Option<&str> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    header("x-api-key").or_else(|| header("authorization")?.strip_prefix("Bearer "))
}

/// The rules that both APIs share: JSON, a model, messages, a limit.
fn check_envelope(
    request: &RecordedRequest,
    limits: &[&str],
    faults: &mut Vec<String>,
) -> Option<Value> {
    let kind = request.header("content-type").unwrap_or_default();
    if !kind.starts_with("application/json") {
        faults.push(format!("the content type is `{kind}`"));
    }
    let body: Value = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(error) => {
            faults.push(format!("the body is no JSON: {error}"));
            return None;
        }
    };
    if body["model"].as_str().is_none_or(str::is_empty) {
        faults.push("there is no `model`".to_owned());
    }
    let has_limit = |name: &&str| body[*name].as_u64().is_some_and(|limit| limit > 0);
    if !limits.is_empty() && !limits.iter().any(has_limit) {
        faults.push(format!("there is no `{}`", limits[0]));
    }
    if list(&body["messages"]).is_empty() {
        faults.push("there are no messages".to_owned());
    }
    Some(body)
}

/// The elements of an array; empty for any other value.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether it is a valid name of a tool or call.
fn is_valid_name(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
    (1..=64).contains(&name.len()) && name.bytes().all(is_letter)
}

fn check_tool(name: &Value, schema: &Value, place: usize, faults: &mut Vec<String>) {
    if !name.as_str().is_some_and(is_valid_name) {
        faults.push(format!("tools[{place}] has the name {name}"));
    }
    if schema["type"] != "object" {
        faults.push(format!("tools[{place}] ({name}) has no object as schema"));
    }
}

fn check_unique<'a>(names: impl Iterator<Item = &'a str>, what: &str, faults: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            faults.push(format!("two {what} are `{name}`"));
        }
    }
}

/// Whether a strict parser accepts it as base64. Only checks the characters, because images are
/// long.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"+/".contains(&letter);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(is_letter)
}
