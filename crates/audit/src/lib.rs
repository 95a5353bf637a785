//! The audit log: what every sandbox was asked to do and what came of it, one JSON object a line.
//!
//! Each line carries the SHA-256 of the line before, so a change anywhere breaks the chain at that
//! place, and a small head file beside the log remembers the last line, so lines cut off at the end
//! are missed too. A log that has grown to its limit is put aside under `<log>.<last number>` and
//! the chain goes on in a new file. [`AuditLog`] writes, [`verify()`] proves.
//!
//! The log never holds the value of an environment variable, and nothing in it is secret from the
//! person who owns the machine. It is evidence, not a vault: whoever can rewrite the log *and* its
//! head file whole can forge both. Keep [`Report::last`] somewhere else to rule that out.

mod chain;
mod error;
mod finding;
mod fold;
mod head;
mod line;
mod lock;
mod log;
mod record;
mod rotation;
mod tail;
mod verify;
mod writer;

pub use error::AuditError;
pub use finding::{Finding, Problem, Report};
pub use fold::{Fold, FoldLimits, Folded};
pub use line::is_unprintable;
pub use log::AuditLog;
pub use record::{Record, Verdict};
pub use rotation::Rotation;
pub use verify::verify;
