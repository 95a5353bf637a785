//! The delivery state of a job's webhook, and redelivery. Never contains the webhook's address or
//! secret.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use protocol::job::JobId;
use serde::Serialize;
use store::jobs::{DeliveryOutcome, DeliveryState};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::extractors::{AuthenticatedCaller, JobPath};
use crate::http::problem::{HttpProblem, ProblemDocument};

/// The delivery of a job's webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = WebhookDelivery)]
pub(crate) struct DeliveryView {
    state: DeliveryStateName,
    /// Number of tries since the last request to deliver it again.
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    last_try: Option<Timestamp>,
    /// Why the last try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Time of the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    next_try: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WebhookState)]
pub(crate) enum DeliveryStateName {
    /// Not delivered yet; will be tried.
    Pending,
    Delivered,
    /// All tries failed.
    Failed,
}

impl From<DeliveryState> for DeliveryView {
    fn from(delivery: DeliveryState) -> Self {
        let (state, next_try) = match delivery.outcome {
            DeliveryOutcome::Pending { due } => (DeliveryStateName::Pending, Some(due)),
            DeliveryOutcome::Delivered => (DeliveryStateName::Delivered, None),
            DeliveryOutcome::Failed => (DeliveryStateName::Failed, None),
        };
        Self {
            state,
            tries: delivery.tries,
            last_try: delivery.last_try,
            last_error: delivery.last_error,
            next_try,
        }
    }
}

/// Delivers the end of a job to its webhook again.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/webhook/redeliver",
    tag = "jobs",
    operation_id = "redeliver_webhook",
    params(("id" = JobId, Path)),
    responses(
        (status = ACCEPTED, body = DeliveryView, description = "Delivery is tried at once."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The job has not ended, has no webhook, or a delivery is in progress."),
    ),
)]
pub(crate) async fn redeliver(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
) -> Result<(StatusCode, Json<DeliveryView>), HttpProblem> {
    let delivery = app.redeliver(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}
