//! The agent: a conversation between a person, a model and the tools of one sandbox.
//!
//! [`step`] decides and does nothing; [`session`] performs and decides nothing. Every event goes
//! to the store before anything that follows from it is done, so that a session can be taken up
//! again wherever it was cut. Prints nothing, reads no settings. Entry points: [`run`] with a
//! [`Setup`], [`replay()`], and the pure [`Conversation`].

mod asking;
mod budget;
mod calling;
mod cell;
mod checkpoint;
mod conversation;
mod error;
mod outputs;
mod prompt;
mod repetition;
mod replay;
mod scribe;
mod session;
mod step;
mod stopper;
mod toolbox;
mod turn;
mod undo;

pub use budget::{Budget, spent};
pub use conversation::Conversation;
pub use error::AgentError;
pub use replay::{Difference, Replayed, replay};
pub use session::{Price, Setup, run};
