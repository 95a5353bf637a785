//! Models for tests, and scripted replies.

use std::sync::Arc;
use std::time::Duration;

use llm::script::{Script, ScriptedReply};
use llm::{
    Anthropic, AnthropicConfig, Model, OpenAi, OpenAiConfig, RetryPolicy, RetryingModel,
    ScriptedModel,
};
use serde_json::{Value, json};
use testkit::ModelServer;

/// The two model APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
}

pub(crate) const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

impl Wire {
    /// A client that retries almost without delay.
    pub(crate) fn client(self, server: &ModelServer) -> Arc<dyn Model> {
        self.client_with_retry_delay(server, Duration::from_millis(1))
    }

    pub(crate) fn client_with_retry_delay(
        self,
        server: &ModelServer,
        first_wait: Duration,
    ) -> Arc<dyn Model> {
        let patience = RetryPolicy {
            first_wait,
            ..RetryPolicy::default()
        };
        match self {
            Self::Anthropic => {
                let mut config = AnthropicConfig::new("claude-test", "a-key".into());
                config.base_url = server.base_url();
                Arc::new(RetryingModel::new(
                    Anthropic::new(config).unwrap(),
                    patience,
                ))
            }
            Self::OpenAi => {
                let config = OpenAiConfig::new("test", server.base_url());
                Arc::new(RetryingModel::new(OpenAi::new(config).unwrap(), patience))
            }
        }
    }
}

/// A model in this process, for tests that do not depend on an API.
pub(crate) fn scripted(replies: Vec<ScriptedReply>) -> Arc<dyn Model> {
    let title = String::new();
    Arc::new(ScriptedModel::new(Script { title, replies }))
}

/// A call of `bash`.
pub(crate) fn bash(command: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({"command": command}))
}

/// A reply with several calls.
pub(crate) fn calls(all: &[(&str, Value)]) -> ScriptedReply {
    let one = |(tool, input): &(&str, Value)| ScriptedReply::call(*tool, input.clone()).calls;
    ScriptedReply {
        calls: all.iter().flat_map(one).collect(),
        ..ScriptedReply::default()
    }
}

pub(crate) fn done() -> ScriptedReply {
    ScriptedReply::text("Done.")
}
