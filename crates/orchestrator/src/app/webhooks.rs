//! The delivery state of a job's webhook, and redelivery.

use jiff::Timestamp;
use protocol::job::{Job, JobId};
use store::jobs::{DeliveryState, Redelivery};

use super::{App, AppError, Caller};
use crate::webhook_body::notice;

impl App {
    /// The last delivery to a job's webhook; `None` before the job first ends.
    pub(crate) async fn delivery(&self, job: &Job) -> Result<Option<DeliveryState>, AppError> {
        match job.request.webhook {
            Some(_) => Ok(self.parts.jobs.last_delivery(job.id).await?),
            None => Ok(None),
        }
    }

    /// Delivers the job's end to its webhook again, with the full number of tries.
    pub(crate) async fn redeliver(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<DeliveryState, AppError> {
        let conflict = |reason: &str| Err(AppError::Conflict(reason.to_owned()));
        let job = self.job(caller, id).await?;
        if job.request.webhook.is_none() {
            return conflict("the job has no webhook");
        }
        let Some(body) = notice(&job) else {
            return conflict("the job has not ended");
        };
        let jobs = &self.parts.jobs;
        match jobs.redeliver(id, body, Timestamp::now()).await? {
            Redelivery::Due => self.parts.deliveries.notify_one(),
            Redelivery::UnderWay => return conflict("a delivery of the webhook is in progress"),
            Redelivery::NoJob => return Err(AppError::NoJob(id)),
        }
        let state = jobs.last_delivery(id).await?;
        state.ok_or(AppError::NoJob(id))
    }
}
