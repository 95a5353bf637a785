//! The types that all crates share: commands from a user interface to an agent ([`AgentCommand`]),
//! events from an agent ([`Event`]), and the content of a conversation ([`Message`]).
//!
//! Only types and pure functions: no I/O, no clock, no randomness. The JSON form of an event is a
//! public interface, described by [`schema`] and versioned by [`EVENT_VERSION`].

mod approval;
mod budget;
mod call_summary;
mod command;
mod error_chain;
mod event;
mod id;
pub mod job;
mod message;
mod sandbox;
mod usage;

pub use approval::{ApprovalRule, Decision, Question, RuleAction, Scope, Subject};
pub use budget::Budget;
pub use call_summary::{
    CallKind, CallSummary, ShownInput, ShownOutput, TELLING_ARGUMENTS, is_invisible, one_line,
};
pub use command::AgentCommand;
pub use error_chain::{error_chain, root_cause};
pub use event::{
    BackgroundJob, BudgetKind, Change, Checkpoint, EVENT_VERSION, Event, EventKind, Fork, Kept,
    Moment, Outcome, Spending, schema,
};
pub use id::{CallId, InvalidSessionId, SessionId};
pub use message::{Block, Image, Message, Role, Stop, ToolDefinition};
pub use sandbox::{Backend, Limits, SandboxInfo, Strength};
pub use usage::Usage;
