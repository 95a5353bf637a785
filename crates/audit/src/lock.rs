//! The lock on a log file, which serialises writers of all processes. Waiting has a timeout.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::AuditError;

/// Writing a few lines under the lock is fast. A process that holds it for longer is stopped or stuck.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay between two attempts; it doubles from the first value to the second.
const MIN_RETRY_DELAY: Duration = Duration::from_micros(50);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(10);

pub(crate) fn exclusive(file: &File, path: &Path) -> Result<(), AuditError> {
    retry_until(path, LOCK_TIMEOUT, || file.try_lock())
}

pub(crate) fn shared(file: &File, path: &Path) -> Result<(), AuditError> {
    retry_until(path, LOCK_TIMEOUT, || file.try_lock_shared())
}

/// Polls, because a blocking lock has no timeout.
fn retry_until(
    path: &Path,
    deadline: Duration,
    mut try_lock: impl FnMut() -> Result<(), TryLockError>,
) -> Result<(), AuditError> {
    let begun = Instant::now();
    let mut pause = MIN_RETRY_DELAY;
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= deadline => {
                return Err(AuditError::LockTimeout {
                    path: path.to_owned(),
                    waited: deadline,
                });
            }
            Err(TryLockError::WouldBlock) => {
                thread::sleep(pause);
                pause = (pause * 2).min(MAX_RETRY_DELAY);
            }
            Err(TryLockError::Error(source)) => {
                return Err(AuditError::Lock {
                    path: path.to_owned(),
                    source: Arc::new(source),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let holder = File::create(&path).unwrap();
        holder.lock().unwrap();
        let other = File::open(&path).unwrap();
        let deadline = Duration::from_millis(5);
        let error = retry_until(&path, deadline, || other.try_lock()).unwrap_err();
        assert!(matches!(error, AuditError::LockTimeout { .. }), "{error}");
        assert!(error.to_string().contains("audit.jsonl"), "{error}");
        holder.unlock().unwrap();
        retry_until(&path, deadline, || other.try_lock()).unwrap();
    }
}
