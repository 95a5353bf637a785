//! Questions to a person before something leaves the sandbox, and the rules that answer them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Within the run of a session, from 1 on.
    pub number: u32,
    /// What is to be done, in one line: `connect to pypi.org:443`.
    pub what: String,
    /// Why it is asked: which rule, or that there is none.
    pub why: String,
    /// What an answer for longer than once is about.
    pub subject: Subject,
}

/// What a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Subject {
    /// A host, as `--allow-net` takes it.
    Host { host: String },
    /// Calls of a tool; only those whose main argument (a command, a path) fits the pattern, if
    /// there is one. `*` stands for anything, `\*` for a star.
    Tool {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argument: Option<String>,
    },
}

/// A standing answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    #[serde(flatten)]
    pub subject: Subject,
    pub action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Allow,
    Ask,
    Deny,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    pub is_allowed: bool,
    pub scope: Scope,
}

/// For how long an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
    /// As a rule, kept by whoever runs the session.
    Always,
}
