//! What is known of the conversation that goes on: a fold over its events. Pure.

use std::path::PathBuf;

use protocol::{Action, Command, Event, EventKind, Rule, Scope, SessionId, Spending};

use super::desk::Start;
use crate::complaint::Complaint;

/// Which conversation it is, and how far. The default is one with a job of a server.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Of an agent of this process.
    pub(super) session: Option<SessionId>,
    pub(super) workspace: PathBuf,
    /// Something of it is in the store.
    pub(super) is_stored: bool,
    /// A turn was begun since it was opened.
    pub(super) has_worked: bool,
    /// Hosts that can be reached.
    pub(super) network: Vec<String>,
    pub(super) spending: Option<Spending>,
    /// The model that was asked for, until it is there.
    wanted_model: Option<String>,
    /// The model that was chosen, as it was asked for.
    pub(super) chosen_model: Option<String>,
}

impl Talk {
    pub(super) fn of(start: &Start) -> Self {
        Self {
            session: Some(start.session.clone()),
            workspace: start.workspace.clone(),
            is_stored: !start.history.is_empty(),
            ..Self::default()
        }
    }

    /// The session, if there is anything of it that can be copied or written to a file.
    pub(super) fn stored(&self) -> Result<SessionId, Complaint> {
        match &self.session {
            Some(session) if self.is_stored => Ok(session.clone()),
            Some(_) => Err(Complaint::usage("nothing was said yet")),
            None => Err(Complaint::usage("a server's job cannot do that")
                .hint("its session is kept by the server".to_owned())),
        }
    }

    /// Before a command is passed on.
    pub(super) fn ask(&mut self, command: &Command) {
        if let Command::UseModel { name } = command {
            self.wanted_model = Some(name.clone());
        }
    }

    /// Takes in what happened. A rule that comes of it is to be kept for all sessions.
    pub(super) fn learn(&mut self, event: &Event) -> Option<Rule> {
        self.is_stored |= event.seq.is_some();
        match &event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => {
                self.has_worked = true;
            }
            EventKind::ModelChanged { .. } => {
                self.chosen_model = self.wanted_model.take().or(self.chosen_model.take());
            }
            EventKind::Ready { network, .. }
            | EventKind::SandboxStarted { network, .. }
            | EventKind::NetworkChanged { network } => self.network.clone_from(network),
            EventKind::Spent { spending } | EventKind::TurnEnded { spending, .. } => {
                self.spending = Some(spending.clone());
            }
            // What a server's job was told is the server's to keep.
            EventKind::Decided {
                question,
                decision: Some(decision),
            } if decision.scope == Scope::Always && self.session.is_some() => {
                return Some(Rule {
                    subject: question.subject.clone(),
                    action: match decision.is_allowed {
                        true => Action::Allow,
                        false => Action::Deny,
                    },
                });
            }
            _ => {}
        }
        None
    }
}
