//! Scripts for the scripted model: its replies in order, and the failures on the way.
//!
//! The model of `hotcell demo` and the model server of the tests use the same scripts. Each request
//! gets the next reply.

use std::time::Duration;

use protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A list of replies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the script is about.
    #[serde(default)]
    pub title: String,
    #[serde(default, rename = "reply")]
    pub replies: Vec<ScriptedReply>,
}

/// One reply: thinking, then text, then calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    pub thinking: Option<String>,
    pub text: Option<String>,
    #[serde(rename = "call")]
    pub calls: Vec<ScriptedCall>,
    /// As in the Messages API. By default `tool_use` if there are calls, else `end_turn`.
    pub stop: Option<String>,
    pub usage: Option<Usage>,
    /// Delay before the first piece.
    pub delay_ms: u64,
    /// Delay between words.
    pub pace_ms: u64,
    /// The connection closes after this many events of the stream.
    pub cut_after: Option<usize>,
    /// Sent instead of, or in the middle of, the reply.
    pub error: Option<ScriptedError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    #[serde(default)]
    pub input: Value,
    /// Text that is sent as the input instead, even if it is not valid JSON.
    #[serde(default)]
    pub raw: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    /// HTTP status. For an error in the middle of the stream it only determines the kind.
    pub status: u16,
    /// Such as `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    /// Send the error after this many events of the stream, instead of at once.
    #[serde(default)]
    pub after: Option<usize>,
    /// Response headers, such as `retry-after`.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

#[derive(Debug, Error)]
#[error("cannot understand the script")]
pub struct ScriptError(#[from] toml::de::Error);

impl Script {
    /// Parses a script in TOML.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Ok(toml::from_str(text)?)
    }
}

impl ScriptedReply {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        Self {
            calls: vec![ScriptedCall {
                tool: tool.into(),
                input,
                raw: None,
            }],
            ..Self::default()
        }
    }

    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self {
            error: Some(ScriptedError {
                status,
                kind: kind.to_owned(),
                message: message.to_owned(),
                after: None,
                headers: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// The stop reason of the reply.
    pub fn stop(&self) -> &str {
        match &self.stop {
            Some(stop) => stop,
            None if self.calls.is_empty() => "end_turn",
            None => "tool_use",
        }
    }

    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    pub fn pace(&self) -> Duration {
        Duration::from_millis(self.pace_ms)
    }
}
