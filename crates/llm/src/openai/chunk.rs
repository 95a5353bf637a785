//! Chunks of a chat completion, in wire form. Servers differ, so almost nothing is required and
//! several forms of the same field are accepted.

use protocol::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One event of a stream, or the whole response of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CompletionChunk {
    #[serde(default)]
    pub(super) error: Option<Value>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) choices: Vec<ChunkChoice>,
    #[serde(default)]
    pub(super) usage: Option<ChunkUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChunkChoice {
    #[serde(default)]
    pub(super) index: Option<u64>,
    /// Called `message` in a response that is not streamed.
    #[serde(default, alias = "message", deserialize_with = "or_default")]
    pub(super) delta: ChoiceDelta,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChoiceDelta {
    /// Text, or a list of parts with text.
    content: Value,
    refusal: Value,
    reasoning_content: Value,
    reasoning: Value,
    #[serde(deserialize_with = "or_default")]
    pub(super) tool_calls: Vec<CallPiece>,
}

impl ChoiceDelta {
    pub(super) fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect()
            }
            _ => String::new(),
        }
    }

    pub(super) fn refusal(&self) -> &str {
        self.refusal.as_str().unwrap_or_default()
    }

    pub(super) fn thinking(&self) -> &str {
        let fields = [&self.reasoning_content, &self.reasoning];
        let mut texts = fields.iter().filter_map(|field| field.as_str());
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) function: FunctionPiece,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionPiece {
    pub(super) name: Option<String>,
    arguments: Value,
}

impl FunctionPiece {
    /// A piece of JSON text. Some servers send the object itself.
    pub(super) fn arguments(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            value => value.to_string(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChunkUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: PromptDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "or_default")]
    cached_tokens: u64,
}

impl ChunkUsage {
    pub(super) fn usage(&self) -> Usage {
        let cached = self.prompt_tokens_details.cached_tokens;
        Usage {
            input_tokens: self.prompt_tokens.saturating_sub(cached),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: self.completion_tokens,
        }
    }
}

/// Treats `null` like a missing field.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
