//! Scripts: what a scripted model says, reply by reply, and what goes wrong on the way.
//!
//! The same script drives the model inside `hotcell demo` and the model server of the tests.
//! Each request gets the next reply.

use std::time::Duration;

use protocol::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A list of replies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the script is about, for people.
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
    /// As the Messages API names it; without one, `tool_use` if there are calls, else `end_turn`.
    pub stop: Option<String>,
    pub usage: Option<Usage>,
    /// Before the first piece.
    pub delay_ms: u64,
    /// Between words.
    pub pace_ms: u64,
    /// The connection ends after this many events of the stream.
    pub cut_after: Option<usize>,
    /// Answered instead of, or in the middle of, the reply.
    pub error: Option<ScriptedError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    #[serde(default)]
    pub input: Value,
    /// JSON text that is sent as the input instead, whether it is JSON or not.
    #[serde(default)]
    pub raw: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    /// HTTP status; for an error in mid-stream it only chooses the kind.
    pub status: u16,
    /// As in `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    /// After this many events of the stream, instead of at once.
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
    /// Reads a script in TOML.
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

    /// The stop reason that it ends with.
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
