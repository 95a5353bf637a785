//! The agent: a conversation between a person, a model and the tools of one sandbox.
//!
//! [`step`] decides and does nothing; [`session`] performs and decides nothing. Every event goes
//! to the store before anything that follows from it is done, so that a session can be taken up
//! again wherever it was cut. Prints nothing, reads no settings. Entry points: [`run`] with a
//! [`Setup`], [`replay()`], and the pure [`Conversation`].

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
