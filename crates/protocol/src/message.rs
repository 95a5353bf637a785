//! The content of a conversation. The JSON form is that of the Anthropic Messages API, because it
//! is the most expressive one; the adapters of other providers translate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::CallId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub role: Role,
    pub content: Vec<Block>,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        citations: Vec<Value>,
    },
    /// Must be sent back to the provider unchanged.
    Thinking {
        thinking: String,
        signature: String,
    },
    /// Thinking that only the provider can read. Must be sent back unchanged.
    RedactedThinking {
        data: String,
    },
    /// A tool call by the model.
    ToolUse {
        id: CallId,
        name: String,
        input: Value,
    },
    /// The result of a [`Block::ToolUse`].
    ToolResult {
        tool_use_id: CallId,
        content: Vec<Block>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Image,
    },
    /// A block type that is not known here. Stored and sent back unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// An image, embedded in the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Image {
    Base64 { media_type: String, data: String },
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            citations: Vec::new(),
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// A tool, as described to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input, an object.
    pub input_schema: Value,
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    EndTurn,
    ToolUse,
    /// The reply was cut off, possibly in the middle of a tool's input.
    MaxTokens,
    StopSequence,
    /// The provider paused a long reply. It continues when the reply is sent back.
    PauseTurn,
    Refusal,
    ModelContextWindowExceeded,
    /// We stopped reading the reply.
    Interrupted,
    /// A reason that is not known here.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_survive_json() {
        for block in [
            json!({"type": "text", "text": "hi"}),
            json!({"type": "thinking", "thinking": "hm\u{2028}", "signature": "c2ln+/="}),
            json!({"type": "redacted_thinking", "data": "eA=="}),
            json!({"type": "tool_use", "id": "t1", "name": "bash", "input": {"z": 1, "a": [2.5]}}),
            json!({"type": "tool_result", "tool_use_id": "t1",
                   "content": [{"type": "text", "text": "x"}], "is_error": true}),
            json!({"type": "image", "source":
                   {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
            json!({"type": "from_the_future", "deep": {"b": null, "a": [1]}}),
        ] {
            let parsed: Block = serde_json::from_value(block.clone()).unwrap();
            assert_eq!(
                serde_json::to_string(&parsed).unwrap(),
                block.to_string(),
                "the order of keys too"
            );
        }
        let future = json!({"type": "from_the_future"});
        let parsed = serde_json::from_value::<Block>(future).unwrap();
        assert!(matches!(parsed, Block::Other(_)));
    }

    #[test]
    fn stops_survive_json() {
        for text in ["end_turn", "model_context_window_exceeded", "something_new"] {
            let stop: Stop = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(serde_json::to_value(&stop).unwrap(), json!(text));
        }
    }
}
