//! The agent: a conversation between a user, a model and the tools of one sandbox.
//!
//! [`step`] decides without acting; [`session`] acts on its decisions. Every event is written to the
//! store before its consequences are carried out, so a session can be resumed from any point where
//! it was cut off. Prints nothing, reads no settings. Entry points: [`run`] with a [`Setup`],
//! [`replay()`], and the pure [`Conversation`].

mod approval;
mod asking;
mod background;
mod baseline;
mod budget;
mod calling;
mod cell;
mod checkpoint;
mod compacting;
mod conversation;
mod differences;
mod error;
mod inquiries;
mod listener;
mod live;
mod models;
mod outputs;
mod pattern;
mod permission;
mod person;
mod prompt;
mod redo;
mod repetition;
mod replay;
mod scribe;
mod session;
mod step;
mod stopper;
mod surroundings;
mod switching;
mod toolbox;
mod turn;
mod typed;
mod undo;
mod visits;
mod witness;

pub use approval::Approvals;
pub use budget::{Budget, spent};
pub use conversation::Conversation;
pub use error::AgentError;
pub use models::{Chosen, Models, NoOtherModel, Price};
pub use replay::{Difference, Replayed, replay};
pub use session::{Setup, run};
