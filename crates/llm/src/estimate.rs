//! Rough token counts without a tokenizer. Pure.
//!
//! Claude's tokenizer is not public. The tables of public ones (tiktoken's) would cost tens of
//! megabytes of memory and still be off by about a tenth. So bytes are counted, rounding up
//! slightly, and a [`Calibration`] learns from the provider's counts how far off that is for the
//! model and the text. Entry points: [`estimate`], [`estimate_text`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{Block, Image, Message};
use serde_json::Value;

use crate::model::ModelRequest;

/// Tokens that a provider adds to each message.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;
/// Tokens of a block besides its text: its type and ids.
const BLOCK_OVERHEAD_TOKENS: u64 = 4;
/// Tokens that a provider adds once if there are tools, and for each tool.
const TOOLS_OVERHEAD_TOKENS: u64 = 340;
const TOOL_OVERHEAD_TOKENS: u64 = 16;
/// Providers scale images down to about this many tokens.
const MAX_IMAGE_TOKENS: u64 = 1_600;
/// Pixels per token of an image.
const PIXELS_PER_TOKEN: u64 = 750;

/// Estimates a whole request.
pub fn estimate(request: ModelRequest<'_>) -> u64 {
    let system: u64 = request.system.iter().map(|text| estimate_text(text)).sum();
    let about_tools = if request.tools.is_empty() {
        0
    } else {
        TOOLS_OVERHEAD_TOKENS
    };
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            let words = estimate_text(&tool.name) + estimate_text(&tool.description);
            TOOL_OVERHEAD_TOKENS + words + estimate_json(&tool.input_schema)
        })
        .sum();
    let messages = request.messages.iter();
    let messages: u64 = messages.map(|message| estimate_message(message)).sum();
    system + about_tools + tools + messages
}

pub fn estimate_message(message: &Message) -> u64 {
    MESSAGE_OVERHEAD_TOKENS + estimate_blocks(&message.content)
}

pub fn estimate_blocks(blocks: &[Block]) -> u64 {
    blocks.iter().map(estimate_block).sum()
}

fn estimate_block(block: &Block) -> u64 {
    BLOCK_OVERHEAD_TOKENS
        + match block {
            Block::Text { text, .. } => estimate_text(text),
            Block::Thinking { thinking, .. } => estimate_text(thinking),
            Block::RedactedThinking { data } => estimate_text(data),
            Block::ToolUse { name, input, .. } => estimate_text(name) + estimate_json(input),
            Block::ToolResult { content, .. } => estimate_blocks(content),
            Block::Image { source } => estimate_image(source),
            Block::Other(value) => estimate_json(value),
        }
}

/// English and code have 3 to 4 bytes per token, other scripts 2 or fewer.
pub fn estimate_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.len() as u64 - ascii;
    (ascii * 2).div_ceil(7) + other.div_ceil(2)
}

/// Adds up the parts of the value, without serialising it.
fn estimate_json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(text) => 1 + estimate_text(text),
        Value::Array(items) => 1 + items.iter().map(estimate_json).sum::<u64>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            1 + fields
                .map(|(key, value)| 1 + estimate_text(key) + estimate_json(value))
                .sum::<u64>()
        }
    }
}

fn estimate_image(Image::Base64 { data, .. }: &Image) -> u64 {
    let pixels = png_size(data).map(|(width, height)| u64::from(width) * u64::from(height));
    pixels.map_or(MAX_IMAGE_TOKENS, |pixels| {
        pixels.div_ceil(PIXELS_PER_TOKEN).min(MAX_IMAGE_TOKENS)
    })
}

/// Width and height, which are at fixed offsets in every PNG.
fn png_size(data: &str) -> Option<(u32, u32)> {
    let head = STANDARD.decode(data.get(..32)?).ok()?;
    let size = head.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    Some((number(size.get(..4)?)?, number(size.get(4..8)?)?))
}

/// Corrects estimates by the token counts that the provider reports. Shared by all requests of a
/// model.
#[derive(Debug, Default)]
pub struct Calibration {
    ratio: Mutex<Option<f64>>,
    requests: AtomicU64,
}

/// Smaller requests are not sampled: the constant overhead dominates their counts.
const MIN_SAMPLE_TOKENS: u64 = 200;
/// One in this many requests is sampled.
const SAMPLE_EVERY_REQUESTS: u64 = 16;
/// Weight of a new sample against the earlier ones.
const SAMPLE_WEIGHT: f64 = 0.3;

impl Calibration {
    /// Whether to sample this request. Estimating costs time proportional to the request's length,
    /// so only some requests are sampled.
    pub fn is_due(&self) -> bool {
        self.requests
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(SAMPLE_EVERY_REQUESTS)
    }

    /// Records that the provider counted `counted` tokens where `estimated` were estimated.
    pub fn learn(&self, estimated: u64, counted: u64) {
        if estimated < MIN_SAMPLE_TOKENS || counted == 0 {
            return;
        }
        // Bounded, so that a server that reports nonsense cannot block every later request.
        let seen = (counted as f64 / estimated as f64).clamp(0.25, 4.0);
        let mut ratio = self.ratio();
        *ratio = Some(ratio.map_or(seen, |ratio| ratio + SAMPLE_WEIGHT * (seen - ratio)));
    }

    fn ratio(&self) -> MutexGuard<'_, Option<f64>> {
        // The value is valid even if a thread panicked while holding the lock.
        self.ratio.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn apply(&self, estimated: u64) -> u64 {
        (estimated as f64 * self.ratio().unwrap_or(1.0)).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use protocol::{Role, ToolDefinition};
    use serde_json::json;

    use super::*;

    #[test]
    fn text_has_about_as_many_tokens_as_tokenizers_say() {
        fn check(text: &str, least: u64, most: u64) {
            let tokens = estimate_text(text);
            assert!((least..=most).contains(&tokens), "{text:?}: {tokens}");
        }
        check("", 0, 0);
        check("a", 1, 1);
        check("The quick brown fox jumps over the lazy dog.", 9, 14);
        check("fn main() { println!(\"{}\", 1 + 1); }", 10, 18);
        check("快速的棕色狐狸跳过懒狗", 10, 18);
        check("🦀🦀🦀", 3, 9);
    }

    #[test]
    fn a_picture_counts_by_its_size_not_its_bytes() {
        fn check(media_type: &str, data: &str, expect: u64) {
            let block = Block::Image {
                source: Image::Base64 {
                    media_type: media_type.into(),
                    data: data.into(),
                },
            };
            assert_eq!(estimate_block(&block), BLOCK_OVERHEAD_TOKENS + expect);
        }
        let png = |width: u32, height: u32| {
            let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
            bytes.extend(width.to_be_bytes());
            bytes.extend(height.to_be_bytes());
            bytes.resize(10_000, 7);
            STANDARD.encode(bytes)
        };
        check("image/png", &png(300, 250), 100);
        check("image/png", &png(1, 1), 1);
        check("image/png", &png(u32::MAX, u32::MAX), MAX_IMAGE_TOKENS);
        check(
            "image/jpeg",
            &STANDARD.encode([9; 10_000]),
            MAX_IMAGE_TOKENS,
        );
        check("image/png", "", MAX_IMAGE_TOKENS);
        check(
            "image/png",
            "????????????????????????????????",
            MAX_IMAGE_TOKENS,
        );
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let tool = ToolDefinition {
            name: "bash".into(),
            description: "runs a command".into(),
            input_schema: json!({"type": "object", "properties": {"command": {}}}),
        };
        let message = |block| {
            Arc::new(Message {
                role: Role::User,
                content: vec![block],
            })
        };
        let system = ["be brief".to_owned()];
        let tools = [tool];
        let call = Block::ToolUse {
            id: "c".into(),
            name: "bash".into(),
            input: json!({"command": "ls"}),
        };
        let messages = [message(Block::text("hello")), message(call)];
        let count = |system, tools, messages| {
            estimate(ModelRequest {
                system,
                tools,
                messages,
                max_tokens: 10,
            })
        };
        let sizes = [
            count(&[], &[], &[]),
            count(&system, &[], &[]),
            count(&system, &[], &messages[..1]),
            count(&system, &[], &messages),
            count(&system, &tools, &messages),
        ];
        assert_eq!(sizes[0], 0);
        assert!(sizes.is_sorted_by(|less, more| less < more), "{sizes:?}");
    }

    #[test]
    fn estimates_learn_from_the_provider() {
        let calibration = Calibration::default();
        assert_eq!(calibration.apply(1_000), 1_000);
        calibration.learn(100, 900);
        calibration.learn(1_000, 0);
        assert_eq!(calibration.apply(1_000), 1_000, "nothing worth learning");
        calibration.learn(1_000, 1_500);
        assert_eq!(calibration.apply(2_000), 3_000);
        for _ in 0..30 {
            calibration.learn(1_000, 800);
        }
        assert_eq!(calibration.apply(1_000), 801, "it follows, and rounds up");
        calibration.learn(1_000, u64::MAX);
        assert!(calibration.apply(1_000) < 2_000, "nonsense is bounded");
    }
}
