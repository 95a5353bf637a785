//! The validation rules of chat completions.

use std::collections::HashSet;

use serde_json::Value;

use super::{check_envelope, check_tool, check_unique, is_base64, is_valid_name, list};
use crate::request_log::RecordedRequest;

pub(crate) fn check(request: &RecordedRequest) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(value) = request.header("authorization")
        && value.strip_prefix("Bearer ").is_none_or(str::is_empty)
    {
        faults.push("the authorization is no bearer's".to_owned());
    }
    let limits = ["max_tokens", "max_completion_tokens"];
    let Some(body) = check_envelope(request, &limits, &mut faults) else {
        return faults;
    };
    let tools = list(&body["tools"]);
    for (place, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" {
            faults.push(format!("tools[{place}] is no function"));
        }
        let function = &tool["function"];
        check_tool(
            &function["name"],
            &function["parameters"],
            place,
            &mut faults,
        );
    }
    let names = tools
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str());
    check_unique(names, "tools", &mut faults);
    check_messages(list(&body["messages"]), &mut faults);
    faults
}

fn check_messages(messages: &[Value], faults: &mut Vec<String>) {
    let mut open: HashSet<&str> = HashSet::new();
    for (place, message) in messages.iter().enumerate() {
        let mut found = Vec::new();
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            report_open(&mut open, &mut found);
        }
        match role {
            "system" | "developer" | "user" => check_content(&message["content"], &mut found),
            "assistant" => check_assistant(message, &mut open, &mut found),
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    found.push(format!("a result for `{id}`, which is no open call"));
                }
                check_result(&message["content"], &mut found);
            }
            _ => found.push(format!("the role {}", message["role"])),
        }
        faults.extend(
            found
                .into_iter()
                .map(|fault| format!("messages[{place}]: {fault}")),
        );
    }
    report_open(&mut open, faults);
    let calls = messages
        .iter()
        .flat_map(|message| list(&message["tool_calls"]));
    check_unique(
        calls.filter_map(|call| call["id"].as_str()),
        "calls",
        faults,
    );
    let first = messages.iter().find(|message| message["role"] != "system");
    if first.is_some_and(|message| message["role"] != "user") {
        faults.push("the first message is not the user's".to_owned());
    }
}

fn report_open(open: &mut HashSet<&str>, faults: &mut Vec<String>) {
    let mut left: Vec<_> = open.drain().collect();
    left.sort_unstable();
    for id in left {
        faults.push(format!("the call `{id}` before it has no result"));
    }
}

fn check_assistant<'a>(message: &'a Value, open: &mut HashSet<&'a str>, faults: &mut Vec<String>) {
    let calls = list(&message["tool_calls"]);
    if !message["tool_calls"].is_null() && calls.is_empty() {
        faults.push("an empty list of calls".to_owned());
    }
    // With calls, text is optional, but some servers require the field.
    let content = &message["content"];
    if calls.is_empty() || !(content.is_null() || *content == "") {
        check_content(content, faults);
    }
    for call in calls {
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() || call["type"] != "function" {
            faults.push(format!("the call `{id}` lacks its id or type"));
        }
        if !call["function"]["name"].as_str().is_some_and(is_valid_name) {
            faults.push(format!("the call `{id}` of {}", call["function"]["name"]));
        }
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let parsed = serde_json::from_str::<Value>(arguments);
        if !parsed.is_ok_and(|arguments| arguments.is_object()) {
            faults.push(format!(
                "the arguments of `{id}` are no object as JSON text"
            ));
        }
        open.insert(id);
    }
}

fn check_content(content: &Value, faults: &mut Vec<String>) {
    let parts = list(content);
    let is_text = content.as_str().is_some_and(|text| !text.is_empty());
    if !is_text && parts.is_empty() {
        faults.push("the content is empty".to_owned());
    }
    for part in parts {
        match part["type"].as_str() {
            Some("text") if part["text"].as_str().is_some_and(|text| !text.is_empty()) => {}
            Some("text") => faults.push("an empty text".to_owned()),
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().unwrap_or_default();
                let data = url
                    .strip_prefix("data:image/")
                    .and_then(|rest| rest.split_once(','));
                let is_data =
                    data.is_some_and(|(kind, data)| kind.ends_with(";base64") && is_base64(data));
                if !is_data && !url.starts_with("http") {
                    faults.push("an image that is neither data nor an address".to_owned());
                }
            }
            _ => faults.push(format!("a part of the type {}", part["type"])),
        }
    }
}

/// Results are text only.
fn check_result(content: &Value, faults: &mut Vec<String>) {
    let is_text = |part: &Value| part["type"] == "text" && part["text"].is_string();
    if !(content.is_string() || content.is_array() && list(content).iter().all(is_text)) {
        faults.push("a result that is no text".to_owned());
    }
}
