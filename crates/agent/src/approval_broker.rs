//! Asks the user before an action; the answer comes later or never.
//!
//! A question is open from the moment its event is sent until it is answered or withdrawn. An answer to
//! a question that is not open is refused, and does not apply to a later question with that number.
//! Makes no decisions itself: rules and the user do. Entry type: [`ApprovalBroker`].

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egress::{ConnectTarget, EgressAction, SharedPolicy};
use protocol::{AgentCommand, Decision, EventKind, Question, RuleAction, Scope, Subject};
use tokio::sync::oneshot;
use tracing::warn;

use crate::approval::{Approvals, ToolRules, egress_action};
use crate::approval_audit::ApprovalAudit;
use crate::error::AgentError;
use crate::event_log::{EventLog, EventSender, WrittenEvent};
use crate::typed_input::UnfinishedLines;

#[derive(Debug)]
pub(crate) struct ApprovalBroker {
    sender: EventSender,
    /// Where questions and answers are written; `None` once the session has ended.
    log: Mutex<Option<EventLog>>,
    pub(crate) audit: ApprovalAudit,
    /// The hosts of the sandbox's proxy; `None` without a proxy.
    hosts: Option<SharedPolicy>,
    state: Mutex<BrokerState>,
}

#[derive(Debug, Default)]
struct BrokerState {
    tools: ToolRules,
    /// Whether a user can be asked.
    can_ask: bool,
    last_number: u32,
    open: BTreeMap<u32, OpenQuestion>,
    /// Hosts that were denied once. Programs retry at once, so the denial holds for the rest of the
    /// turn.
    denied: HashSet<String>,
    /// Unfinished lines typed into background commands.
    unfinished: UnfinishedLines,
}

#[derive(Debug)]
struct OpenQuestion {
    question: Question,
    /// Dropped if there will be no answer.
    answer: oneshot::Sender<Decision>,
}

impl ApprovalBroker {
    pub(crate) fn new(
        sender: EventSender,
        log: EventLog,
        audit: ApprovalAudit,
        approvals: Approvals,
        hosts: Option<SharedPolicy>,
    ) -> Arc<Self> {
        let state = BrokerState {
            tools: approvals.tools,
            can_ask: approvals.asks,
            ..BrokerState::default()
        };
        Arc::new(Self {
            sender,
            log: Mutex::new(Some(log)),
            audit,
            hosts,
            state: Mutex::new(state),
        })
    }

    /// The current rules about tools.
    pub(crate) fn tool_rules(&self) -> ToolRules {
        self.state().tools.clone()
    }

    /// Reads or changes the unfinished lines of background commands.
    pub(crate) fn unfinished<T>(&self, work: impl FnOnce(&mut UnfinishedLines) -> T) -> T {
        work(&mut self.state().unfinished)
    }

    /// Asks a question and waits for the answer. `None` if there will be none. Dropping the future
    /// withdraws the question.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        what: String,
        why: String,
        subject: Subject,
    ) -> Option<Decision> {
        let log = self.log()?;
        let number = {
            let mut state = self.state();
            if !state.can_ask {
                return None;
            }
            state.last_number += 1;
            state.last_number
        };
        let question = Question {
            number,
            what,
            why,
            subject,
        };
        let asked = EventKind::Asked {
            question: question.clone(),
        };
        let _guard = QuestionGuard {
            broker: self.clone(),
            number,
        };
        let (answer, answered) = oneshot::channel();
        let broker = self.clone();
        let send = move |written: WrittenEvent<'_>| {
            let mut state = broker.state();
            // Under one lock: a question is answerable exactly from when it is sent.
            if state.can_ask && !answer.is_closed() {
                written.send();
                state.open.insert(number, OpenQuestion { question, answer });
            }
        };
        // A question that cannot be recorded is not asked. `answer` is dropped if it was not sent.
        log.append_with(asked, send).await.ok()?;
        drop(log);
        answered.await.ok()
    }

    fn log(&self) -> Option<EventLog> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Handles answers and allowed hosts, and reports a refusal; returns any other command.
    pub(crate) async fn handle(&self, command: AgentCommand) -> Option<AgentCommand> {
        let handled = match command {
            AgentCommand::Decide { question, decision } => self.answer(question, decision).await,
            AgentCommand::AllowHost { host } => self.allow_host(&host).await,
            command => return Some(command),
        };
        if let Err(error) = handled {
            let reason = error.to_string();
            self.sender.send(EventKind::CommandRefused { reason }).await;
        }
        None
    }

    /// Handles an answer to an open question.
    async fn answer(&self, number: u32, decision: Decision) -> Result<(), AgentError> {
        let open = self.state().open.remove(&number);
        let open = open.ok_or(AgentError::NoQuestion { number })?;
        self.apply_answer(open, decision).await
    }

    async fn apply_answer(&self, open: OpenQuestion, decision: Decision) -> Result<(), AgentError> {
        let OpenQuestion { question, answer } = open;
        // An answer that cannot be recorded does not take effect.
        if let Err(error) = self.audit.record_answer(&question, decision).await {
            self.record_decision(question, None).await;
            return Err(error);
        }
        let is_network_changed = self.apply_scope(&question.subject, decision);
        self.record_decision(question, Some(decision)).await;
        if is_network_changed {
            self.send_network().await;
        }
        let _ = answer.send(decision);
        Ok(())
    }

    /// Makes a rule of an answer, if its scope asks for it. Returns whether it changes the reachable hosts.
    fn apply_scope(&self, subject: &Subject, decision: Decision) -> bool {
        let action = if decision.is_allowed {
            RuleAction::Allow
        } else {
            RuleAction::Deny
        };
        match (subject, decision.scope) {
            (Subject::Host { host }, Scope::Once) => {
                if !decision.is_allowed {
                    self.state().denied.insert(host.clone());
                }
                false
            }
            (Subject::Host { host }, Scope::Session | Scope::Always) => {
                let (Some(hosts), Ok(rule)) = (&self.hosts, host.parse()) else {
                    return false;
                };
                hosts.answer(rule, egress_action(action));
                decision.is_allowed
            }
            (Subject::Tool { .. }, Scope::Once) => false,
            (Subject::Tool { tool, argument }, Scope::Session | Scope::Always) => {
                let mut state = self.state();
                state.tools.answer(tool, argument.as_deref(), action);
                false
            }
        }
    }

    /// Allows a host for the rest of the session, and answers the open questions about it.
    async fn allow_host(&self, host: &str) -> Result<(), AgentError> {
        let hosts = self.hosts.as_ref().ok_or(AgentError::NoProxy)?;
        let rule: egress::EgressRule = host.parse()?;
        let host = rule.to_string();
        self.audit.record_allowed_host(&host).await?;
        hosts.answer(rule, EgressAction::Allow);
        self.state().denied.remove(&host);
        self.send_network().await;
        let decision = Decision {
            is_allowed: true,
            scope: Scope::Session,
        };
        for open in self.take_allowed(hosts) {
            self.apply_answer(open, decision).await?;
        }
        Ok(())
    }

    /// Takes out the open questions about hosts that are now allowed.
    fn take_allowed(&self, hosts: &SharedPolicy) -> Vec<OpenQuestion> {
        let policy = hosts.policy();
        let is_allowed = |_: &u32, open: &mut OpenQuestion| match &open.question.subject {
            Subject::Host { host } => ConnectTarget::parse(host, Some(443))
                .is_ok_and(|target| matches!(policy.find(&target), Some((_, EgressAction::Allow)))),
            Subject::Tool { .. } => false,
        };
        let mut state = self.state();
        state
            .open
            .extract_if(.., is_allowed)
            .map(|(_, open)| open)
            .collect()
    }

    /// Whether a host was denied in this turn.
    pub(crate) fn has_denied(&self, host: &str) -> bool {
        self.state().denied.contains(host)
    }

    /// Starts a turn: a host that was denied once can be asked about again.
    pub(crate) fn start_turn(&self) {
        self.state().denied.clear();
    }

    /// Withdraws all questions.
    pub(crate) async fn withdraw_questions(&self) {
        let open = std::mem::take(&mut self.state().open);
        for OpenQuestion { question, answer } in open.into_values() {
            self.audit.record_unanswered(&question);
            self.record_decision(question, None).await;
            drop(answer);
        }
    }

    /// Withdraws all questions and accepts no new ones.
    pub(crate) async fn close(&self) {
        self.state().can_ask = false;
        self.withdraw_questions().await;
        if let Some(log) = self.log() {
            log.flush().await;
        }
        // Releases the session's journal, even if this value is still referenced elsewhere.
        let log = self
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(log);
    }

    /// Records a decision and sends it. Sends it even if recording failed, so that no UI keeps asking.
    async fn record_decision(&self, question: Question, decision: Option<Decision>) {
        let decided = EventKind::Decided { question, decision };
        let written = match self.log() {
            Some(log) => log.append(decided.clone()).await,
            None => return,
        };
        if let Err(error) = written {
            warn!(%error, "cannot record an answer");
            self.sender.send(decided).await;
        }
    }

    async fn send_network(&self) {
        if let Some(hosts) = &self.hosts {
            let network = hosts.open();
            self.sender
                .send(EventKind::NetworkChanged { network })
                .await;
        }
    }

    /// Locked for single statements only, so a panic cannot leave it half-changed.
    fn state(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Withdraws its question when dropped before the answer arrived.
struct QuestionGuard {
    broker: Arc<ApprovalBroker>,
    number: u32,
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        let Some(open) = self.broker.state().open.remove(&self.number) else {
            return;
        };
        self.broker.audit.record_unanswered(&open.question);
        let decided = EventKind::Decided {
            question: open.question,
            decision: None,
        };
        if let Some(log) = self.broker.log() {
            log.append_detached(decided);
        }
    }
}
