//! Rules about what an agent does: allow, ask or deny, by tool and argument or by host. Pure.
//!
//! The most specific rule applies: a rule with an argument before one without, more literal characters
//! before fewer, no `*` before a `*`. Among equally specific rules, an answer given in this session comes
//! before the configured rules, and a later answer before an earlier one. Among configured rules the
//! strictest applies: deny, then ask, then allow. Hosts are ordered in the same way, by
//! [`egress::EgressPolicy`].
//!
//! Without a matching rule, a tool call is allowed, because the sandbox contains it; a connection is
//! denied unless a user can be asked. A pattern over a command is a convenience, not a security boundary:
//! one command can be written in many ways, and only the sandbox holds against all of them. Entry type:
//! [`Approvals`].

use std::fmt;

use egress::{EgressAction, EgressPolicy, RuleError};
use protocol::{ApprovalRule, RuleAction, Subject};

use crate::pattern::{Specificity, matches, specificity};

/// The rules that a session starts with, and whether there is a user to ask.
#[derive(Debug, Clone, Default)]
pub struct Approvals {
    pub(crate) tools: ToolRules,
    pub(crate) hosts: EgressPolicy,
    /// If false, `ask` means deny.
    pub(crate) asks: bool,
}

impl Approvals {
    /// Fails for an invalid host.
    pub fn new(rules: &[ApprovalRule], asks: bool) -> Result<Self, RuleError> {
        let mut approvals = Self {
            asks,
            ..Self::default()
        };
        for ApprovalRule { subject, action } in rules {
            match subject {
                Subject::Host { host } => {
                    approvals.hosts.add(host.parse()?, egress_action(*action))
                }
                Subject::Tool { tool, argument } => {
                    approvals.tools.add(tool, argument.as_deref(), *action);
                }
            }
        }
        Ok(approvals)
    }
}

pub(crate) fn egress_action(action: RuleAction) -> EgressAction {
    match action {
        RuleAction::Allow => EgressAction::Allow,
        RuleAction::Ask => EgressAction::Ask,
        RuleAction::Deny => EgressAction::Deny,
    }
}

/// The decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolVerdict {
    /// By this rule, or because no rule matches.
    Allow {
        rule: Option<String>,
    },
    Ask {
        rule: String,
    },
    Deny {
        rule: String,
    },
}

/// The rules about tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolRules {
    rules: Vec<ToolRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolRule {
    tool: String,
    argument: Option<String>,
    action: RuleAction,
    /// Number of the answer, from 1 on; 0 for a configured rule.
    answer: usize,
}

impl ToolRules {
    fn add(&mut self, tool: &str, argument: Option<&str>, action: RuleAction) {
        self.push(tool, argument, action, 0);
    }

    /// Adds an answer, which replaces earlier answers about the same tool and argument.
    pub(crate) fn answer(&mut self, tool: &str, argument: Option<&str>, action: RuleAction) {
        let latest = self.rules.iter().map(|rule| rule.answer).max();
        let is_same = |rule: &ToolRule| rule.tool == tool && rule.argument.as_deref() == argument;
        // The old answer would never apply again.
        self.rules.retain(|rule| rule.answer == 0 || !is_same(rule));
        self.push(tool, argument, action, latest.unwrap_or(0) + 1);
    }

    fn push(&mut self, tool: &str, argument: Option<&str>, action: RuleAction, answer: usize) {
        self.rules.push(ToolRule {
            tool: tool.to_owned(),
            argument: argument.map(str::to_owned),
            action,
            answer,
        });
    }

    pub(crate) fn decide(&self, tool: &str, argument: Option<&str>) -> ToolVerdict {
        let most_specific = self
            .rules
            .iter()
            .filter(|rule| rule.applies_to(tool, argument))
            .max_by_key(|rule| (rule.rank(), rule.answer, egress_action(rule.action)));
        match most_specific {
            None => ToolVerdict::Allow { rule: None },
            Some(rule) => {
                let text = rule.to_string();
                match rule.action {
                    RuleAction::Allow => ToolVerdict::Allow { rule: Some(text) },
                    RuleAction::Ask => ToolVerdict::Ask { rule: text },
                    RuleAction::Deny => ToolVerdict::Deny { rule: text },
                }
            }
        }
    }
}

impl ToolRule {
    fn applies_to(&self, tool: &str, argument: Option<&str>) -> bool {
        matches(&self.tool, tool)
            && match (&self.argument, argument) {
                (None, _) => true,
                (Some(pattern), Some(argument)) => matches(pattern, argument),
                (Some(_), None) => false,
            }
    }

    fn rank(&self) -> (Option<Specificity>, Specificity) {
        (
            self.argument.as_deref().map(specificity),
            specificity(&self.tool),
        )
    }
}

/// As in a sentence: `bash`, or `bash git push*`.
impl fmt::Display for ToolRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.tool)?;
        match &self.argument {
            Some(argument) => write!(formatter, " {argument}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
