//! Questions that a user must answer before something leaves the sandbox, and the rules that answer
//! them automatically.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An action that waits for the user's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Number within one run of a session, from 1.
    pub number: u32,
    /// The action in one line: `connect to pypi.org:443`.
    pub what: String,
    /// Why the user is asked: the rule that applies, or that there is none.
    pub why: String,
    /// What the answer applies to if it holds for longer than once.
    pub subject: Subject,
}

/// What a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Subject {
    /// A host, in the syntax of `--allow-net`.
    Host { host: String },
    /// Calls of a tool. With a pattern, only those whose main argument (a command, a path) matches
    /// it. `*` matches anything, `\*` a star.
    Tool {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argument: Option<String>,
    },
}

/// An answer given in advance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRule {
    #[serde(flatten)]
    pub subject: Subject,
    pub action: RuleAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    Allow,
    Ask,
    Deny,
}

/// The user's answer.
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
    /// Stored as a rule by the program that runs the session.
    Always,
}
