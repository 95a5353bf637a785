//! The audit log: the requests to every sandbox and their results, one JSON object per line.
//!
//! Each line contains the SHA-256 of the previous line, so a change anywhere breaks the chain at that
//! place. A small head file beside the log stores the last line, so removed lines at the end are
//! detected too. A log that reaches its size limit is rotated to `<log>.<seq>`, and the chain
//! continues in a new file. [`AuditLog`] writes, [`verify()`] checks.
//!
//! The log never contains the value of an environment variable, and nothing in it is secret from the
//! owner of the machine. It is tamper-evident, not tamper-proof: a process that can rewrite both the
//! log and its head file completely can forge them. Storing [`AuditReport::last`] elsewhere prevents that.

mod background_sync;
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
pub use finding::{AuditFinding, AuditProblem, AuditReport};
pub use fold::{FoldLimits, FoldedLine, RepeatFold};
pub use line::is_unprintable;
pub use log::AuditLog;
pub use record::{AuditRecord, AuditVerdict};
pub use rotation::RotationPolicy;
pub use verify::verify;
