//! Test helpers: clients for a server, requests, and recorded pieces.

use std::sync::Arc;
use std::time::Duration;

use llm::script::{ScriptedCall, ScriptedReply};
use llm::{
    Anthropic, AnthropicConfig, Model, ModelError, ModelReply, ModelRequest, OpenAi, OpenAiConfig,
    ReplyEvent,
};
use protocol::{Block, Message, Role, ToolDefinition, Usage};
use serde_json::json;
use testkit::ModelServer;

pub(crate) const TEST_KEY: &str = "sk-test-hushhush-0123456789";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelClient {
    Anthropic,
    OpenAi,
}

pub(crate) const ALL_CLIENTS: [ModelClient; 2] = [ModelClient::Anthropic, ModelClient::OpenAi];

pub(crate) fn anthropic_config(base_url: String) -> AnthropicConfig {
    AnthropicConfig {
        base_url,
        ..AnthropicConfig::new("claude-test", TEST_KEY.into())
    }
}

pub(crate) fn openai_config(base_url: String) -> OpenAiConfig {
    OpenAiConfig {
        api_key: Some(TEST_KEY.into()),
        ..OpenAiConfig::new("qwen-test", base_url)
    }
}

impl ModelClient {
    pub(crate) fn of(self, server: &ModelServer) -> Arc<dyn Model> {
        self.at(server.base_url())
    }

    pub(crate) fn at(self, base_url: String) -> Arc<dyn Model> {
        match self {
            Self::Anthropic => Arc::new(Anthropic::new(anthropic_config(base_url)).unwrap()),
            Self::OpenAi => Arc::new(OpenAi::new(openai_config(base_url)).unwrap()),
        }
    }

    /// A client with this idle timeout.
    pub(crate) fn with_idle_timeout(
        self,
        server: &ModelServer,
        silence_limit: Duration,
    ) -> Arc<dyn Model> {
        let base_url = server.base_url();
        match self {
            Self::Anthropic => Arc::new(
                Anthropic::new(AnthropicConfig {
                    silence_limit,
                    ..anthropic_config(base_url)
                })
                .unwrap(),
            ),
            Self::OpenAi => Arc::new(
                OpenAi::new(OpenAiConfig {
                    silence_limit,
                    ..openai_config(base_url)
                })
                .unwrap(),
            ),
        }
    }
}

/// A [`ReplyEvent`] with owned data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnedReplyEvent {
    Used(Usage),
    Text(String),
    Thinking(String),
    Input {
        name: String,
        json: String,
    },
    Retrying {
        attempt: u32,
        wait: Duration,
        reason: ModelError,
    },
}

impl From<ReplyEvent<'_>> for OwnedReplyEvent {
    fn from(piece: ReplyEvent<'_>) -> Self {
        match piece {
            ReplyEvent::Used(usage) => Self::Used(usage),
            ReplyEvent::Text(text) => Self::Text(text.to_owned()),
            ReplyEvent::Thinking(text) => Self::Thinking(text.to_owned()),
            ReplyEvent::Input { name, json, .. } => Self::Input {
                name: name.to_owned(),
                json: json.to_owned(),
            },
            ReplyEvent::Retrying {
                attempt,
                wait,
                reason,
            } => Self::Retrying {
                attempt,
                wait,
                reason: reason.clone(),
            },
        }
    }
}

/// All text that was emitted, of the last attempt only.
pub(crate) fn text_of(heard: &[OwnedReplyEvent]) -> String {
    pieces_of(heard, |piece| match piece {
        OwnedReplyEvent::Text(text) => Some(text),
        _ => None,
    })
}

pub(crate) fn thinking_of(heard: &[OwnedReplyEvent]) -> String {
    pieces_of(heard, |piece| match piece {
        OwnedReplyEvent::Thinking(text) => Some(text),
        _ => None,
    })
}

fn pieces_of(
    heard: &[OwnedReplyEvent],
    pick: impl Fn(&OwnedReplyEvent) -> Option<&String>,
) -> String {
    let is_retry = |piece: &OwnedReplyEvent| matches!(piece, OwnedReplyEvent::Retrying { .. });
    let begin = heard
        .iter()
        .rposition(is_retry)
        .map_or(0, |place| place + 1);
    heard[begin..]
        .iter()
        .filter_map(pick)
        .map(String::as_str)
        .collect()
}

/// A request with owned data.
#[derive(Debug, Clone)]
pub(crate) struct OwnedRequest {
    pub(crate) system: Vec<String>,
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) max_tokens: u32,
}

impl Default for OwnedRequest {
    fn default() -> Self {
        Self {
            system: vec!["You work.".to_owned(), "In a sandbox.".to_owned()],
            tools: vec![tool("bash"), tool("read_file")],
            messages: vec![user([Block::text("go")])],
            max_tokens: 4096,
        }
    }
}

impl OwnedRequest {
    pub(crate) fn request(&self) -> ModelRequest<'_> {
        ModelRequest {
            system: &self.system,
            tools: &self.tools,
            messages: &self.messages,
            max_tokens: self.max_tokens,
        }
    }

    pub(crate) fn with(mut self, messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        self.messages.extend(messages);
        self
    }

    pub(crate) async fn ask(
        &self,
        model: &dyn Model,
    ) -> (Result<ModelReply, ModelError>, Vec<OwnedReplyEvent>) {
        let mut heard = Vec::new();
        let mut hear = |piece: ReplyEvent<'_>| heard.push(OwnedReplyEvent::from(piece));
        let reply = model.reply(self.request(), &mut hear).await;
        (reply, heard)
    }
}

/// Sends the simplest request.
pub(crate) async fn ask(model: &dyn Model) -> Result<ModelReply, ModelError> {
    OwnedRequest::default().ask(model).await.0
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("does {name}"),
        input_schema: json!({"type": "object", "properties": {"x": {"type": "string"}}}),
    }
}

pub(crate) fn user(content: impl Into<Vec<Block>>) -> Arc<Message> {
    Arc::new(Message {
        role: Role::User,
        content: content.into(),
    })
}

pub(crate) fn assistant(content: impl Into<Vec<Block>>) -> Arc<Message> {
    Arc::new(Message {
        role: Role::Assistant,
        content: content.into(),
    })
}

/// A message with a result for each call of a reply.
pub(crate) fn results_of(reply: &ModelReply) -> Arc<Message> {
    let results: Vec<_> = reply
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(Block::ToolResult {
                tool_use_id: id.clone(),
                content: vec![Block::text("done")],
                is_error: false,
            }),
            _ => None,
        })
        .collect();
    user(results)
}

/// Thinking, text and two calls, with multi-byte characters and escaped JSON.
pub(crate) fn rich() -> ScriptedReply {
    let call = |tool: &str, input| ScriptedCall {
        tool: tool.to_owned(),
        input,
        raw: None,
    };
    ScriptedReply {
        thinking: Some("First, \u{1f914} a look;\n  \"then\" more…\u{2028} ".to_owned()),
        text: Some("I look — at\n`größe` first.".to_owned()),
        calls: vec![
            call(
                "bash",
                json!({"x": "echo \"ü\" \\\n | wc", "deep": [1, {"y": null}]}),
            ),
            call("read_file", json!({})),
        ],
        usage: Some(Usage {
            input_tokens: 11,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 2000,
            output_tokens: 77,
        }),
        ..ScriptedReply::default()
    }
}

/// Checks that a reply has the content of [`rich`], ignoring ids.
pub(crate) fn assert_rich(client: ModelClient, reply: &ModelReply) {
    let script = rich();
    let mut content = reply.content.iter();
    if client == ModelClient::Anthropic {
        let Some(Block::Thinking { thinking, .. }) = content.next() else {
            panic!("no thinking: {reply:?}");
        };
        assert_eq!(Some(thinking), script.thinking.as_ref());
    }
    let text = content.next().and_then(Block::as_text).map(str::to_owned);
    assert_eq!(text, script.text);
    let mut ids = Vec::new();
    for expected in &script.calls {
        let Some(Block::ToolUse { id, name, input }) = content.next() else {
            panic!("no call of {}: {reply:?}", expected.tool);
        };
        assert_eq!((name, input), (&expected.tool, &expected.input));
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(content.next(), None);
    assert!(reply.broken_calls.is_empty(), "{reply:?}");
    assert_eq!(reply.stop, protocol::Stop::ToolUse);
}
