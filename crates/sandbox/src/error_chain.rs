//! Formats an error and its causes in one line, for messages and logs. Uses nothing else of this
//! crate, so that its test programs can include this file.

use std::error::Error;
use std::iter::successors;

/// The messages of an error and all its causes, outermost first, separated by `: `.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
