//! Request bodies of the chat completions API, serialised directly from borrowed data. Pure.
//!
//! The format is less expressive than ours. A tool result is text only, so its images follow in a
//! user message; a failed call is reported in words; thinking and provider-specific blocks are left
//! out.

use std::fmt::{self, Display};

use protocol::{Block, CallId, Image, Message, Role, ToolDefinition};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::model::Request;

#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) request: Request<'a>,
    /// The name that this server uses for the reply limit.
    pub(super) limit: &'static str,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("model", self.model)?;
        body.serialize_entry(self.limit, &self.request.max_tokens)?;
        body.serialize_entry("stream", &true)?;
        body.serialize_entry("stream_options", &json!({"include_usage": true}))?;
        if !self.request.tools.is_empty() {
            body.serialize_entry("tools", &Tools(self.request.tools))?;
        }
        body.serialize_entry("messages", &Messages(self.request))?;
        body.end()
    }
}

struct Tools<'a>(&'a [ToolDefinition]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'static str,
            function: Function<'a>,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
            },
        }))
    }
}

struct Messages<'a>(Request<'a>);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let system = Text(self.0.system.iter().map(String::as_str));
        if !system.is_empty() {
            messages.serialize_element(&Plain {
                role: "system",
                content: system,
            })?;
        }
        for message in self.0.messages {
            match message.role {
                Role::Assistant => messages.serialize_element(&Assistant(&message.content))?,
                Role::User => user(&mut messages, message)?,
            }
        }
        messages.end()
    }
}

/// A user message: first a result for each call, then the user's text and the images of the
/// results.
fn user<S: SerializeSeq>(messages: &mut S, message: &Message) -> Result<(), S::Error> {
    for block in &message.content {
        if let Block::ToolResult {
            tool_use_id,
            content,
            is_error,
        } = block
        {
            messages.serialize_element(&Answer {
                role: "tool",
                tool_call_id: tool_use_id,
                content: AnswerText {
                    content,
                    is_error: *is_error,
                },
            })?;
        }
    }
    let has_pictures = message.content.iter().any(|block| match block {
        Block::Image { .. } => true,
        Block::ToolResult { content, .. } => has_picture(content),
        _ => false,
    });
    let text = Text::of(&message.content);
    if has_pictures {
        let content = Parts(&message.content);
        messages.serialize_element(&Plain {
            role: "user",
            content,
        })
    } else if !text.is_empty() {
        // Plain text, because many servers accept no other form.
        messages.serialize_element(&Plain {
            role: "user",
            content: text,
        })
    } else {
        Ok(())
    }
}

fn has_picture(blocks: &[Block]) -> bool {
    blocks
        .iter()
        .any(|block| matches!(block, Block::Image { .. }))
}

#[derive(Serialize)]
struct Plain<T> {
    role: &'static str,
    content: T,
}

/// Joins texts with a blank line between them.
#[derive(Clone)]
struct Text<I>(I);

impl<'a> Text<()> {
    /// All text of these blocks.
    fn of(blocks: &'a [Block]) -> Text<impl Iterator<Item = &'a str> + Clone> {
        Text(blocks.iter().filter_map(Block::as_text))
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Text<I> {
    fn parts(&self) -> impl Iterator<Item = &'a str> {
        self.0.clone().filter(|text| !text.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Display for Text<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, text) in self.parts().enumerate() {
            formatter.write_str(if place > 0 { "\n\n" } else { "" })?;
            formatter.write_str(text)?;
        }
        Ok(())
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Serialize for Text<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    role: &'static str,
    tool_call_id: &'a CallId,
    content: AnswerText<'a>,
}

struct AnswerText<'a> {
    content: &'a [Block],
    is_error: bool,
}

impl Display for AnswerText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Text::of(self.content);
        if self.is_error {
            formatter.write_str("The call failed:\n")?;
        }
        text.fmt(formatter)?;
        match has_picture(self.content) {
            true if !text.is_empty() => formatter.write_str("\n\n(its picture follows)"),
            true => formatter.write_str("(its picture follows)"),
            // Some servers reject a message without content.
            false if text.is_empty() => formatter.write_str("(no output)"),
            false => Ok(()),
        }
    }
}

impl Serialize for AnswerText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// User content as a list of parts, which images require.
struct Parts<'a>(&'a [Block]);

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    #[serde(rename = "text")]
    Caption {
        text: Caption<'a>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(None)?;
        for block in self.0 {
            match block {
                Block::Text { text, .. } if !text.is_empty() => {
                    parts.serialize_element(&Part::Text { text })?;
                }
                Block::Image { source } => parts.serialize_element(&picture(source))?,
                Block::ToolResult {
                    tool_use_id,
                    content,
                    ..
                } if has_picture(content) => {
                    let text = Caption(tool_use_id);
                    parts.serialize_element(&Part::Caption { text })?;
                    for block in content {
                        if let Block::Image { source } = block {
                            parts.serialize_element(&picture(source))?;
                        }
                    }
                }
                _ => {}
            }
        }
        parts.end()
    }
}

fn picture(source: &Image) -> Part<'_> {
    let url = DataUrl(source);
    Part::ImageUrl {
        image_url: ImageUrl { url },
    }
}

struct Caption<'a>(&'a CallId);

impl Serialize for Caption<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!(
            "Picture from the answer to call `{}`:",
            self.0
        ))
    }
}

struct DataUrl<'a>(&'a Image);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Image::Base64 { media_type, data } = self.0;
        serializer.collect_str(&format_args!("data:{media_type};base64,{data}"))
    }
}

/// A reply of the model, sent back as history.
struct Assistant<'a>(&'a [Block]);

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Text::of(self.0);
        let calls = Calls(self.0);
        let has_calls = self
            .0
            .iter()
            .any(|block| matches!(block, Block::ToolUse { .. }));
        let mut message = serializer.serialize_map(None)?;
        message.serialize_entry("role", "assistant")?;
        if has_calls && text.is_empty() {
            message.serialize_entry("content", &())?
        } else {
            message.serialize_entry("content", &text)?
        }
        if has_calls {
            message.serialize_entry("tool_calls", &calls)?;
        }
        message.end()
    }
}

struct Calls<'a>(&'a [Block]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: JsonText<'a>,
        }
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a CallId,
            r#type: &'static str,
            function: Function<'a>,
        }
        let calls = self.0.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input } => Some(Call {
                id,
                r#type: "function",
                function: Function {
                    name,
                    arguments: JsonText(input),
                },
            }),
            _ => None,
        });
        serializer.collect_seq(calls)
    }
}

/// A JSON value as a JSON string, serialised without an intermediate copy.
struct JsonText<'a>(&'a Value);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

#[cfg(test)]
mod tests;
