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

use crate::model::ModelRequest;

#[derive(Debug, Clone, Copy)]
pub(super) struct CompletionBody<'a> {
    pub(super) model: &'a str,
    pub(super) request: ModelRequest<'a>,
    /// The name that this server uses for the reply limit.
    pub(super) limit: &'static str,
}

impl Serialize for CompletionBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("model", self.model)?;
        body.serialize_entry(self.limit, &self.request.max_tokens)?;
        body.serialize_entry("stream", &true)?;
        body.serialize_entry("stream_options", &json!({"include_usage": true}))?;
        if !self.request.tools.is_empty() {
            body.serialize_entry("tools", &FunctionList(self.request.tools))?;
        }
        body.serialize_entry("messages", &ChatMessages(self.request))?;
        body.end()
    }
}

struct FunctionList<'a>(&'a [ToolDefinition]);

impl Serialize for FunctionList<'_> {
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

struct ChatMessages<'a>(ModelRequest<'a>);

impl Serialize for ChatMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let system = JoinedText(self.0.system.iter().map(String::as_str));
        if !system.is_empty() {
            messages.serialize_element(&ChatMessage {
                role: "system",
                content: system,
            })?;
        }
        for message in self.0.messages {
            match message.role {
                Role::Assistant => {
                    messages.serialize_element(&AssistantMessage(&message.content))?
                }
                Role::User => serialize_user(&mut messages, message)?,
            }
        }
        messages.end()
    }
}

/// A user message: first a result for each call, then the user's text and the images of the
/// results.
fn serialize_user<S: SerializeSeq>(messages: &mut S, message: &Message) -> Result<(), S::Error> {
    for block in &message.content {
        if let Block::ToolResult {
            tool_use_id,
            content,
            is_error,
        } = block
        {
            messages.serialize_element(&ToolMessage {
                role: "tool",
                tool_call_id: tool_use_id,
                content: ToolMessageText {
                    content,
                    is_error: *is_error,
                },
            })?;
        }
    }
    let has_pictures = message.content.iter().any(|block| match block {
        Block::Image { .. } => true,
        Block::ToolResult { content, .. } => has_image(content),
        _ => false,
    });
    let text = JoinedText::of(&message.content);
    if has_pictures {
        let content = UserParts(&message.content);
        messages.serialize_element(&ChatMessage {
            role: "user",
            content,
        })
    } else if !text.is_empty() {
        // Plain text, because many servers accept no other form.
        messages.serialize_element(&ChatMessage {
            role: "user",
            content: text,
        })
    } else {
        Ok(())
    }
}

fn has_image(blocks: &[Block]) -> bool {
    blocks
        .iter()
        .any(|block| matches!(block, Block::Image { .. }))
}

#[derive(Serialize)]
struct ChatMessage<T> {
    role: &'static str,
    content: T,
}

/// Joins texts with a blank line between them.
#[derive(Clone)]
struct JoinedText<I>(I);

impl<'a> JoinedText<()> {
    /// All text of these blocks.
    fn of(blocks: &'a [Block]) -> JoinedText<impl Iterator<Item = &'a str> + Clone> {
        JoinedText(blocks.iter().filter_map(Block::as_text))
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> JoinedText<I> {
    fn parts(&self) -> impl Iterator<Item = &'a str> {
        self.0.clone().filter(|text| !text.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Display for JoinedText<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, text) in self.parts().enumerate() {
            formatter.write_str(if place > 0 { "\n\n" } else { "" })?;
            formatter.write_str(text)?;
        }
        Ok(())
    }
}

impl<'a, I: Iterator<Item = &'a str> + Clone> Serialize for JoinedText<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    tool_call_id: &'a CallId,
    content: ToolMessageText<'a>,
}

struct ToolMessageText<'a> {
    content: &'a [Block],
    is_error: bool,
}

impl Display for ToolMessageText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = JoinedText::of(self.content);
        if self.is_error {
            formatter.write_str("The call failed:\n")?;
        }
        text.fmt(formatter)?;
        match has_image(self.content) {
            true if !text.is_empty() => formatter.write_str("\n\n(its picture follows)"),
            true => formatter.write_str("(its picture follows)"),
            // Some servers reject a message without content.
            false if text.is_empty() => formatter.write_str("(no output)"),
            false => Ok(()),
        }
    }
}

impl Serialize for ToolMessageText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// User content as a list of parts, which images require.
struct UserParts<'a>(&'a [Block]);

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum UserPart<'a> {
    Text {
        text: &'a str,
    },
    #[serde(rename = "text")]
    Caption {
        text: ImageCaption<'a>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

impl Serialize for UserParts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(None)?;
        for block in self.0 {
            match block {
                Block::Text { text, .. } if !text.is_empty() => {
                    parts.serialize_element(&UserPart::Text { text })?;
                }
                Block::Image { source } => parts.serialize_element(&image_part(source))?,
                Block::ToolResult {
                    tool_use_id,
                    content,
                    ..
                } if has_image(content) => {
                    let text = ImageCaption(tool_use_id);
                    parts.serialize_element(&UserPart::Caption { text })?;
                    for block in content {
                        if let Block::Image { source } = block {
                            parts.serialize_element(&image_part(source))?;
                        }
                    }
                }
                _ => {}
            }
        }
        parts.end()
    }
}

fn image_part(source: &Image) -> UserPart<'_> {
    let url = DataUrl(source);
    UserPart::ImageUrl {
        image_url: ImageUrl { url },
    }
}

struct ImageCaption<'a>(&'a CallId);

impl Serialize for ImageCaption<'_> {
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
struct AssistantMessage<'a>(&'a [Block]);

impl Serialize for AssistantMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = JoinedText::of(self.0);
        let calls = ToolCalls(self.0);
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

struct ToolCalls<'a>(&'a [Block]);

impl Serialize for ToolCalls<'_> {
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
