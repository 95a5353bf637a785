//! Events of a Messages API stream, in wire form. Event types that are not known here become
//! `Unknown` and are ignored.

use protocol::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{ModelError, ModelErrorKind};
use crate::failure::clean_line;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageEvent {
    MessageStart {
        message: MessageHead,
    },
    ContentBlockStart {
        index: u64,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop,
    MessageDelta {
        delta: MessageEnd,
        #[serde(default)]
        usage: Option<TokenCounts>,
    },
    MessageStop,
    Ping,
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageHead {
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) usage: Option<TokenCounts>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum BlockDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "citations_delta")]
    Citations { citation: Value },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageEnd {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// Token counts so far. Each number is for the whole reply and replaces the previous one.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenCounts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl TokenCounts {
    pub(super) fn replace(self, usage: &mut Usage) {
        let set = |place: &mut u64, figure: Option<u64>| *place = figure.unwrap_or(*place);
        set(&mut usage.input_tokens, self.input_tokens);
        set(
            &mut usage.cache_creation_input_tokens,
            self.cache_creation_input_tokens,
        );
        set(
            &mut usage.cache_read_input_tokens,
            self.cache_read_input_tokens,
        );
        set(&mut usage.output_tokens, self.output_tokens);
    }
}

impl MessageEvent {
    pub(super) fn parse(data: &str) -> Result<Self, ModelError> {
        serde_json::from_str(data).or_else(|error| match serde_json::from_str::<Value>(data) {
            // Not part of this API, such as a keep-alive message of a proxy.
            Ok(value) if value.get("type").is_none() => Ok(Self::Unknown),
            _ => Err(ModelError::new(
                ModelErrorKind::Stream,
                format!(
                    "cannot parse an event of the reply: {}",
                    clean_line(&error.to_string())
                ),
            )),
        })
    }
}
