//! The Messages API's rules for one block of a message.

use serde_json::Value;

use super::{is_base64, is_valid_name, list};
use crate::wire::sign;

pub(crate) fn check_block(role: &Value, block: &Value) -> Result<(), String> {
    let kind = block["type"].as_str().unwrap_or_default();
    if !block["cache_control"].is_null() {
        check_breakpoint(kind, &block["cache_control"])?;
    }
    let is_from = |wanted: &str| {
        if role == wanted {
            Ok(())
        } else {
            Err(format!("a `{kind}` in a message of the {role}"))
        }
    };
    match kind {
        "text" => match block["text"].as_str() {
            Some(text) if !text.trim().is_empty() => Ok(()),
            _ => Err("an empty text".to_owned()),
        },
        "image" => check_image(&block["source"]),
        "tool_use" => is_from("assistant").and_then(|()| check_call(block)),
        "tool_result" => is_from("user").and_then(|()| check_result(block)),
        "thinking" => is_from("assistant").and_then(|()| check_thinking(block)),
        "redacted_thinking" => match block["data"].as_str() {
            Some(data) if !data.is_empty() => is_from("assistant"),
            _ => Err("a `redacted_thinking` without data".to_owned()),
        },
        "" => Err("a block without a type".to_owned()),
        // Unknown block types must be accepted.
        _ => Ok(()),
    }
}

/// The number of breakpoints in a request.
pub(crate) fn count_breakpoints(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(count_breakpoints).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| match name.as_str() {
                // The content of a model's input or a tool's schema is not part of the protocol.
                "input" | "input_schema" => 0,
                "cache_control" => usize::from(!field.is_null()),
                _ => count_breakpoints(field),
            })
            .sum(),
        _ => 0,
    }
}

fn check_breakpoint(kind: &str, breakpoint: &Value) -> Result<(), String> {
    if breakpoint["type"] != "ephemeral" {
        return Err(format!("a breakpoint of the type {}", breakpoint["type"]));
    }
    match kind {
        "thinking" | "redacted_thinking" => Err(format!("a breakpoint on a `{kind}`")),
        _ => Ok(()),
    }
}

fn check_call(block: &Value) -> Result<(), String> {
    let id = block["id"].as_str().unwrap_or_default();
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
    if id.is_empty() || !id.bytes().all(is_letter) {
        return Err(format!("a call with the id `{id}`"));
    }
    if !block["name"].as_str().is_some_and(is_valid_name) {
        return Err(format!("a call of the tool {}", block["name"]));
    }
    if block["input"].is_object() {
        Ok(())
    } else {
        Err(format!("the input of `{id}` is no object"))
    }
}

fn check_result(block: &Value) -> Result<(), String> {
    let content = &block["content"];
    if !(content.is_null() || content.is_string() || content.is_array()) {
        return Err("a result that is neither text nor blocks".to_owned());
    }
    for inner in list(content) {
        match inner["type"].as_str() {
            Some("text") if inner["text"].as_str().is_some_and(|text| !text.is_empty()) => {}
            Some("text") => return Err("an empty text in a result".to_owned()),
            Some("image") => check_image(&inner["source"])?,
            Some("document" | "search_result") => {}
            _ => return Err(format!("a {} in a result", inner["type"])),
        }
    }
    match &block["is_error"] {
        Value::Null | Value::Bool(_) => Ok(()),
        other => Err(format!("`is_error` is {other}")),
    }
}

fn check_thinking(block: &Value) -> Result<(), String> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    if sign(&text("thinking")) == text("signature") {
        Ok(())
    } else {
        Err("thinking that is not as it was served".to_owned())
    }
}

fn check_image(source: &Value) -> Result<(), String> {
    const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    match source["type"].as_str() {
        Some("url" | "file") => Ok(()),
        Some("base64") => {
            let kind = source["media_type"].as_str().unwrap_or_default();
            if !TYPES.contains(&kind) {
                return Err(format!("an image of the type `{kind}`"));
            }
            if source["data"].as_str().is_some_and(is_base64) {
                Ok(())
            } else {
                Err("an image that is no base64".to_owned())
            }
        }
        _ => Err(format!("an image from {}", source["type"])),
    }
}
