//! Health, readiness and metrics.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::http::SharedHttp;
use crate::http::extractors::AuthenticatedCaller;
use crate::http::problem::{HttpProblem, ProblemDocument, ProblemKind};

/// Whether the server is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "server",
    operation_id = "get_health",
    responses((status = OK, body = String, content_type = "text/plain; charset=utf-8", description = "The server is alive.")),
)]
pub(crate) async fn healthz() -> &'static str {
    "ok"
}

/// Whether the server accepts jobs: its store is writable, and it is not shutting down.
///
/// `ok`, followed by one line that begins with `degraded: ` for each outage. During an outage jobs are
/// accepted, and run when it is over.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "server",
    operation_id = "get_readiness",
    responses(
        (status = OK, body = String, content_type = "text/plain; charset=utf-8", description = "The server accepts jobs."),
        (status = SERVICE_UNAVAILABLE, body = ProblemDocument, content_type = "application/problem+json", description = "The server does not accept jobs."),
    ),
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<String, HttpProblem> {
    match app.check().await {
        Ok(lines) => {
            let lines = lines.iter().map(|line| format!("\ndegraded: {line}"));
            Ok(std::iter::once("ok".to_owned()).chain(lines).collect())
        }
        Err(error) => {
            Err(HttpProblem::new(ProblemKind::Unavailable, error.to_string()).retry_after(5))
        }
    }
}

/// The server's metrics in the text format of Prometheus. For admins.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    operation_id = "get_metrics",
    responses((status = OK, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8", description = "The metrics.")),
)]
pub(crate) async fn metrics(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
) -> Result<Response, HttpProblem> {
    caller.require_admin()?;
    let parked = http.app.parked().await.unwrap_or_default();
    let text = http.metrics.render(&http.app, &http.connections, parked);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
