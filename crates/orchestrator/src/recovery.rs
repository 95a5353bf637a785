//! Requeues the jobs of a server that died. Never starts a job. Entry points: [`recover`],
//! [`retry_recovery`].

use std::sync::{MutexGuard, PoisonError};

use protocol::job::Job;
use store::StoreError;
use tracing::{error, info};

use crate::job::JobChange;
use crate::parts::{ChangeError, ServerParts, chain};

/// Requeues the jobs that were running when the last server died. Returns how many. Jobs that
/// cannot be written because the disk is full are left to [`retry_recovery`], so that the server can
/// start on a full disk.
pub(crate) async fn recover(parts: &ServerParts) -> Result<u64, StoreError> {
    let mut recovered = 0;
    for mut job in parts.jobs.claimed().await? {
        let id = job.id;
        match parts.change(&mut job, JobChange::Crash, None).await {
            Ok(()) => recovered += 1,
            Err(ChangeError::Store(error)) if error.may_be_full() => {
                error!(job = %id, error = %chain(&error), "cannot requeue a job yet");
                lock_unrecovered(parts).push(job);
            }
            Err(ChangeError::Store(error)) => return Err(error),
            Err(error) => info!(job = %id, %error, "job needs no recovery"),
        }
    }
    Ok(recovered)
}

/// Tries again to requeue the jobs that [`recover`] could not.
pub(crate) async fn retry_recovery(parts: &ServerParts) {
    let rest = std::mem::take(&mut *lock_unrecovered(parts));
    for mut job in rest {
        match parts.change(&mut job, JobChange::Crash, None).await {
            Ok(()) if !job.state.has_ended() => parts.loads.record_requeue(&job.owner),
            Err(ChangeError::Store(_)) => lock_unrecovered(parts).push(job),
            _ => {}
        }
    }
}

fn lock_unrecovered(parts: &ServerParts) -> MutexGuard<'_, Vec<Job>> {
    parts
        .unrecovered
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}
