//! Both clients against a real model behind a real server, llama.cpp, which supports both APIs.
//!
//! `make test-real-model` starts the server and passes its address in `HOTCELL_REAL_MODEL_URL`. The
//! model is far too small to be right about anything, so the tests do not check the content of
//! replies.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::sync::Arc;

use llm::{
    Anthropic, AnthropicConfig, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest,
    OpenAi, OpenAiConfig, ReplyEvent,
};
use protocol::{Block, Message, Role, Stop, ToolDefinition};
use serde_json::json;

fn server() -> String {
    std::env::var("HOTCELL_REAL_MODEL_URL")
        .expect("`HOTCELL_REAL_MODEL_URL` must be the server's address; run `make test-real-model`")
}

/// One client for each API.
fn models(base_url: &str) -> [Box<dyn Model>; 2] {
    let anthropic = AnthropicConfig {
        base_url: base_url.to_owned(),
        ..AnthropicConfig::new("smollm2", "any-key".into())
    };
    let openai = OpenAiConfig::new("smollm2", base_url);
    [
        Box::new(Anthropic::new(anthropic).unwrap()),
        Box::new(OpenAi::new(openai).unwrap()),
    ]
}

fn message(role: Role, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message { role, content })
}

fn user_message(text: &str) -> Arc<Message> {
    message(Role::User, vec![Block::text(text)])
}

fn tools() -> [ToolDefinition; 1] {
    [ToolDefinition {
        name: "bash".to_owned(),
        description: "Runs a command.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        }),
    }]
}

async fn ask(
    model: &dyn Model,
    tools: &[ToolDefinition],
    messages: &[Arc<Message>],
    max_tokens: u32,
) -> (Result<ModelReply, ModelError>, Vec<String>) {
    let system = ["You are brief.".to_owned()];
    let request = ModelRequest {
        system: &system,
        tools,
        messages,
        max_tokens,
    };
    let mut pieces = Vec::new();
    let mut hear = |piece: ReplyEvent<'_>| {
        if let ReplyEvent::Text(text) = piece {
            pieces.push(text.to_owned());
        }
    };
    let reply = model.reply(request, &mut hear).await;
    (reply, pieces)
}

#[tokio::test]
async fn a_reply_streams_and_is_cut_at_its_limit() {
    for model in models(&server()) {
        let messages = [user_message(
            "Tell me a long story about a whale and a sailor.",
        )];
        let (reply, pieces) = ask(&*model, &[], &messages, 16).await;
        let reply = reply.unwrap();
        assert_eq!(reply.stop, Stop::MaxTokens);
        let text = reply.content[0].as_text().unwrap();
        assert_eq!(text, pieces.concat());
        assert!(pieces.len() > 4, "in pieces, as it comes: {pieces:?}");
        assert_eq!(reply.usage.output_tokens, 16);
        assert!(
            (10..200).contains(&reply.usage.input()),
            "{:?}",
            reply.usage
        );
        assert_eq!(reply.model, "smollm2");
    }
}

#[tokio::test]
async fn a_conversation_with_tools_is_taken() {
    let id = || "call_1".into();
    let messages = [
        user_message("List the files."),
        message(
            Role::Assistant,
            vec![
                Block::text("I look."),
                Block::ToolUse {
                    id: id(),
                    name: "bash".to_owned(),
                    input: json!({"command": "ls"}),
                },
            ],
        ),
        message(
            Role::User,
            vec![Block::ToolResult {
                tool_use_id: id(),
                content: vec![Block::text("README.md\n[exit code 0]")],
                is_error: false,
            }],
        ),
    ];
    for model in models(&server()) {
        let (reply, _) = ask(&*model, &tools(), &messages, 16).await;
        let usage = reply.unwrap().usage;
        assert!(usage.input() > 0 && usage.output_tokens > 0);
    }
}

#[tokio::test]
async fn tokens_are_counted_or_estimated() {
    let count = async |text: &str| {
        let messages = [user_message(text)];
        let mut counts = Vec::new();
        for model in models(&server()) {
            let request = ModelRequest {
                system: &[],
                tools: &[],
                messages: &messages,
                max_tokens: 16,
            };
            counts.push(model.count(request).await.unwrap());
        }
        counts
    };
    let short = count("Hello.").await;
    let long = count(&"All work and no play makes Jack a dull boy. ".repeat(20)).await;
    for (short, long) in short.into_iter().zip(long) {
        assert!(short > 0 && long > short + 100, "{short} {long}");
    }
}

#[tokio::test]
async fn mistakes_are_told_apart() {
    let messages = [user_message("Hello.")];
    for model in models(&format!("{}/nowhere", server())) {
        let error = ask(&*model, &[], &messages, 16).await.0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::NotFound, "{error}");
        assert!(error.message.contains("404"), "{error}");
    }
    let endless = [user_message(&"word ".repeat(20_000))];
    for model in models(&server()) {
        let error = ask(&*model, &[], &endless, 16).await.0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::TooLong, "{error}");
        assert!(!error.is_retryable());
    }
}
