//! The state of the current conversation: a fold over its events. Pure.

use std::path::PathBuf;

use protocol::{
    AgentCommand, ApprovalRule, Event, EventKind, RuleAction, Scope, SessionId, Spending,
};

use super::session_opener::ReadySession;
use crate::cli_error::CliError;

/// The current conversation. The default is one with a server's job.
#[derive(Debug, Default)]
pub(super) struct ChatState {
    /// Of an agent of this process.
    pub(super) session: Option<SessionId>,
    pub(super) workspace: PathBuf,
    /// Part of it is in the store.
    pub(super) is_stored: bool,
    /// A turn was started since it was opened.
    pub(super) has_worked: bool,
    /// Hosts that can be reached.
    pub(super) network: Vec<String>,
    pub(super) spending: Option<Spending>,
    /// The model that was requested and is not confirmed yet.
    wanted_model: Option<String>,
    /// The confirmed model, as it was requested.
    pub(super) chosen_model: Option<String>,
}

impl ChatState {
    pub(super) fn of(start: &ReadySession) -> Self {
        Self {
            session: Some(start.session.clone()),
            workspace: start.workspace.clone(),
            is_stored: !start.history.is_empty(),
            ..Self::default()
        }
    }

    /// The session, if part of it is stored, so that it can be copied or exported.
    pub(super) fn stored(&self) -> Result<SessionId, CliError> {
        match &self.session {
            Some(session) if self.is_stored => Ok(session.clone()),
            Some(_) => Err(CliError::usage("the conversation is empty")),
            None => Err(CliError::usage("a server's job cannot do that")
                .hint("its session is stored by the server".to_owned())),
        }
    }

    /// Called before a command is sent.
    pub(super) fn ask(&mut self, command: &AgentCommand) {
        if let AgentCommand::UseModel { name } = command {
            self.wanted_model = Some(name.clone());
        }
    }

    /// Updates the state. Returns a rule that is to be saved for all sessions.
    pub(super) fn learn(&mut self, event: &Event) -> Option<ApprovalRule> {
        self.is_stored |= event.seq.is_some();
        match &event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => {
                self.has_worked = true;
            }
            EventKind::ModelChanged { .. } => {
                self.chosen_model = self.wanted_model.take().or(self.chosen_model.take());
            }
            EventKind::Ready { sandbox, .. } | EventKind::SandboxStarted { sandbox, .. } => {
                self.network.clone_from(&sandbox.network);
            }
            EventKind::NetworkChanged { network } => self.network.clone_from(network),
            EventKind::Spent { spending } | EventKind::TurnEnded { spending, .. } => {
                self.spending = Some(spending.clone());
            }
            // Rules from answers to a server's job are the server's to store.
            EventKind::Decided {
                question,
                decision: Some(decision),
            } if decision.scope == Scope::Always && self.session.is_some() => {
                return Some(ApprovalRule {
                    subject: question.subject.clone(),
                    action: if decision.is_allowed {
                        RuleAction::Allow
                    } else {
                        RuleAction::Deny
                    },
                });
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{Decision, Question, Subject};

    use super::*;

    fn event(kind: EventKind) -> Event {
        let seq = kind.is_lasting().then_some(1);
        Event {
            v: protocol::EVENT_VERSION,
            session: "20260131-174502-k3fd".parse().unwrap(),
            seq,
            time: jiff::Timestamp::UNIX_EPOCH,
            kind,
        }
    }

    fn decided(decision: Option<(bool, Scope)>) -> EventKind {
        EventKind::Decided {
            question: Question {
                number: 1,
                what: "connect to pypi.org:443".into(),
                why: "no rule".into(),
                subject: Subject::Host {
                    host: "pypi.org".into(),
                },
            },
            decision: decision.map(|(is_allowed, scope)| Decision { is_allowed, scope }),
        }
    }

    #[test]
    fn only_answers_for_ever_become_rules_and_only_here() {
        let check = |session: Option<&str>, decision, expect: Option<RuleAction>| {
            let mut talk = ChatState {
                session: session.map(|name| name.parse().unwrap()),
                ..ChatState::default()
            };
            let rule = talk.learn(&event(decided(decision)));
            assert_eq!(rule.map(|rule| rule.action), expect, "{decision:?}");
        };
        let here = Some("20260131-174502-k3fd");
        check(here, Some((true, Scope::Always)), Some(RuleAction::Allow));
        check(here, Some((false, Scope::Always)), Some(RuleAction::Deny));
        check(here, Some((true, Scope::Session)), None);
        check(here, Some((true, Scope::Once)), None);
        check(here, None, None);
        check(None, Some((true, Scope::Always)), None);
    }

    #[test]
    fn a_model_counts_once_it_is_there() {
        let changed = event(EventKind::ModelChanged {
            model: "qwen3".into(),
            window: None,
        });
        let mut talk = ChatState::default();
        talk.ask(&AgentCommand::UseModel {
            name: "openai/qwen3".into(),
        });
        assert_eq!(talk.chosen_model, None);
        talk.learn(&changed);
        assert_eq!(talk.chosen_model.as_deref(), Some("openai/qwen3"));
        talk.learn(&changed);
        assert_eq!(talk.chosen_model.as_deref(), Some("openai/qwen3"));
    }

    #[test]
    fn nothing_can_be_copied_before_something_is_stored() {
        let mut talk = ChatState {
            session: Some("20260131-174502-k3fd".parse().unwrap()),
            ..ChatState::default()
        };
        let refused = EventKind::CommandRefused {
            reason: "no".into(),
        };
        talk.learn(&event(refused));
        assert!(talk.stored().is_err());
        talk.learn(&event(EventKind::TurnContinued { turn: 1 }));
        assert!(talk.stored().is_ok());
        assert!(talk.has_worked);
        assert!(ChatState::default().stored().is_err());
    }
}
