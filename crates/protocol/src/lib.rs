//! The types that all crates share: commands from a user interface to an agent ([`Command`]),
//! events from an agent ([`Event`]), and the content of a conversation ([`Message`]).
//!
//! Only types and pure functions: no I/O, no clock, no randomness. The JSON form of an event is a
//! public interface, described by [`schema`] and versioned by [`VERSION`].

mod approval;
mod command;
mod event;
mod id;
pub mod job;
mod message;
mod usage;

pub use approval::{Action, Decision, Question, Rule, Scope, Subject};
pub use command::Command;
pub use event::{
    BackgroundJob, BudgetKind, Change, Checkpoint, Event, EventKind, Fork, Kept, Moment, Outcome,
    Spending, VERSION, schema,
};
pub use id::{BadId, CallId, SessionId};
pub use message::{Block, Image, Message, Role, Stop, ToolDefinition};
pub use usage::Usage;
