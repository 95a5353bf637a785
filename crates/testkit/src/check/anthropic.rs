//! The Messages API's rules for a whole request. Those for one block are in `blocks`.

use std::collections::HashSet;

use serde_json::Value;

use super::blocks::{check_block, count_breakpoints};
use super::{check_envelope, check_tool, check_unique, key, list};
use crate::request_log::RecordedRequest;

/// Maximum number of cache breakpoints in a request.
const MAX_BREAKPOINTS: usize = 4;

/// The last parameter has the calls that were served with thinking before them.
pub(crate) fn check(
    request: &RecordedRequest,
    is_count: bool,
    thoughtful: &HashSet<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    if key(&request.headers).is_none_or(str::is_empty) {
        faults.push("there is no key".to_owned());
    }
    if request.header("anthropic-version").is_none() {
        faults.push("there is no `anthropic-version`".to_owned());
    }
    let limits: &[&str] = if is_count { &[] } else { &["max_tokens"] };
    let Some(body) = check_envelope(request, limits, &mut faults) else {
        return faults;
    };
    check_system(&body["system"], &mut faults);
    check_tools(&body, &mut faults);
    check_thinking(&body, &mut faults);
    let messages = list(&body["messages"]);
    for (place, message) in messages.iter().enumerate() {
        let mut found = Vec::new();
        check_message(message, &mut found);
        if message["role"] != if place % 2 == 0 { "user" } else { "assistant" } {
            found.push(format!("the role {} does not alternate", message["role"]));
        }
        let before = place.checked_sub(1).map(|before| &messages[before]);
        check_results(before, message, &mut found);
        faults.extend(
            found
                .into_iter()
                .map(|fault| format!("messages[{place}]: {fault}")),
        );
    }
    check_last_reply(messages, thoughtful, &mut faults);
    let calls = messages.iter().flat_map(calls);
    check_unique(calls, "calls", &mut faults);
    let breakpoints = count_breakpoints(&body);
    if breakpoints > MAX_BREAKPOINTS {
        faults.push(format!("{breakpoints} cache breakpoints"));
    }
    faults
}

fn check_system(system: &Value, faults: &mut Vec<String>) {
    for (place, block) in list(system).iter().enumerate() {
        if block["type"] != "text" || block["text"].as_str().is_none_or(str::is_empty) {
            faults.push(format!("system[{place}] is no text"));
        }
    }
    if !(system.is_null() || system.is_string() || system.is_array()) {
        faults.push("the system prompt is neither text nor blocks".to_owned());
    }
}

fn check_tools(body: &Value, faults: &mut Vec<String>) {
    let tools = list(&body["tools"]);
    for (place, tool) in tools.iter().enumerate() {
        // Tools with their own type have a schema that is built into the service.
        if tool["type"].is_null() || tool["type"] == "custom" {
            check_tool(&tool["name"], &tool["input_schema"], place, faults);
        }
    }
    check_unique(
        tools.iter().filter_map(|tool| tool["name"].as_str()),
        "tools",
        faults,
    );
    let mut messages = list(&body["messages"]).iter();
    if tools.is_empty() && messages.any(|message| calls(message).next().is_some()) {
        faults.push("there are calls, but no tools".to_owned());
    }
}

fn check_thinking(body: &Value, faults: &mut Vec<String>) {
    let thinking = &body["thinking"];
    if thinking["type"] != "enabled" {
        return;
    }
    check_turn_thinking(list(&body["messages"]), faults);
    let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
    if budget < 1024 {
        faults.push(format!("a thinking budget of {budget}, below 1024"));
    }
    if body["max_tokens"]
        .as_u64()
        .is_some_and(|most| most <= budget)
    {
        faults.push(format!(
            "a thinking budget of {budget}, not below `max_tokens`"
        ));
    }
}

fn check_message(message: &Value, faults: &mut Vec<String>) {
    let content = &message["content"];
    if let Some(text) = content.as_str() {
        if text.trim().is_empty() {
            faults.push("the content is empty".to_owned());
        }
        return;
    }
    let blocks = list(content);
    if blocks.is_empty() {
        faults.push("the content is empty".to_owned());
    }
    for (place, block) in blocks.iter().enumerate() {
        if let Err(fault) = check_block(&message["role"], block) {
            faults.push(format!("content[{place}]: {fault}"));
        }
    }
    if blocks.iter().any(is_thinking) && !blocks.first().is_some_and(is_thinking) {
        faults.push("there is thinking, but not first".to_owned());
    }
    if blocks.last().is_some_and(is_thinking) {
        faults.push("the final block is thinking".to_owned());
    }
}

/// Every call of the previous message must have one result at the start of this one, and there must
/// be no other results.
fn check_results(before: Option<&Value>, message: &Value, faults: &mut Vec<String>) {
    let mut open: HashSet<&str> = before.into_iter().flat_map(calls).collect();
    let mut is_head = true;
    for block in list(&message["content"]) {
        if block["type"] != "tool_result" {
            is_head = false;
            continue;
        }
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        if !open.remove(id) {
            faults.push(format!("a result for `{id}`, which is no open call"));
        }
        if !is_head {
            faults.push(format!("the result for `{id}` comes after other content"));
        }
    }
    let mut left: Vec<_> = open.into_iter().collect();
    left.sort_unstable();
    for id in left {
        faults.push(format!("the call `{id}` has no result"));
    }
}

/// The rules for the last reply: no open calls, and its thinking must be sent back with its calls.
fn check_last_reply(messages: &[Value], thoughtful: &HashSet<String>, faults: &mut Vec<String>) {
    let Some(last) = messages
        .iter()
        .rfind(|message| message["role"] == "assistant")
    else {
        return;
    };
    if messages
        .last()
        .is_some_and(|message| message["role"] == "assistant")
    {
        for id in calls(last) {
            faults.push(format!("the call `{id}` in the last message has no result"));
        }
        let text = list(&last["content"]).last().map(|block| &block["text"]);
        let text = text.and_then(Value::as_str).unwrap_or_default();
        if text.ends_with(char::is_whitespace) {
            faults.push("the last message is the model's, and ends with a space".to_owned());
        }
    }
    let kept = list(&last["content"])
        .iter()
        .any(|block| block["type"] == "thinking");
    for id in calls(last) {
        if thoughtful.contains(id) && !kept {
            faults.push(format!("the thinking before the call `{id}` is lost"));
        }
    }
}

/// The model thinks at the start of its turn, before the first calls of the turn. Later replies of
/// the turn need no thinking.
fn check_turn_thinking(messages: &[Value], faults: &mut Vec<String>) {
    let has_results = |message: &Value| {
        let mut blocks = list(&message["content"]).iter();
        blocks.any(|block| block["type"] == "tool_result")
    };
    let is_prompt = |message: &Value| message["role"] == "user" && !has_results(message);
    let begin = messages
        .iter()
        .rposition(is_prompt)
        .map_or(0, |place| place + 1);
    let Some(first) = messages[begin..].first() else {
        return;
    };
    let blocks = list(&first["content"]);
    if calls(first).next().is_some() && !blocks.first().is_some_and(is_thinking) {
        faults.push("thinking is on in a turn that began without".to_owned());
    }
}

fn is_thinking(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking")
    )
}

fn calls(message: &Value) -> impl Iterator<Item = &str> {
    let blocks = list(&message["content"]).iter();
    blocks
        .filter(|block| block["type"] == "tool_use")
        .filter_map(|block| block["id"].as_str())
}
