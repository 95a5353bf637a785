//! HTTP: turns requests into calls of [`crate::app`], and results into responses. Never starts a
//! sandbox: a worker takes the job from the store.
//!
//! [`router`] lists all routes; [`guard`] checks every request; [`serve()`] handles connections.

mod artifacts;
mod body;
mod chat;
pub(crate) mod connections;
mod diff;
mod disposition;
mod events;
mod extractors;
mod files;
mod form;
mod guard;
mod health;
mod jobs;
mod keys;
mod logins;
mod logs;
mod openapi;
mod pages;
mod problem;
mod range;
mod schedule;
mod search;
mod serve;
mod server_metrics;
mod submission;
mod upload;
mod view;
mod webhooks;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::from_fn_with_state;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::{App, Caller};
use crate::http::connections::ConnectionTracker;
use crate::http::guard::authentication::Authenticator;
use crate::http::guard::host::AllowedHosts;
use crate::http::guard::origin::Origins;
use crate::http::guard::rate::RateLimiter;
use crate::http::guard::request_audit::RequestAudit;
pub(crate) use crate::http::serve::serve;
use crate::http::server_metrics::ServerMetrics;

/// Burst size in seconds of the average request rate.
const BURST_FACTOR: u32 = 10;

/// State shared by all requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedHttp(Arc<HttpState>);

#[derive(Debug)]
pub(crate) struct HttpState {
    app: App,
    /// The caller of requests without a key, on a server that requires none.
    local: Arc<Caller>,
    hosts: AllowedHosts,
    origins: Origins,
    /// Request rate of each user, if it is limited.
    users: Option<RateLimiter<String>>,
    authenticator: Authenticator,
    request_audit: RequestAudit,
    metrics: ServerMetrics,
    connections: Arc<ConnectionTracker>,
    /// The OpenAPI document.
    document: Bytes,
}

impl Deref for SharedHttp {
    type Target = HttpState;

    fn deref(&self) -> &HttpState {
        &self.0
    }
}

impl FromRef<SharedHttp> for App {
    fn from_ref(http: &SharedHttp) -> Self {
        http.app.clone()
    }
}

impl SharedHttp {
    fn new(app: App, connections: Arc<ConnectionTracker>, document: Bytes) -> Self {
        let config = app.config();
        let rate = config.rate;
        Self(Arc::new(HttpState {
            local: Arc::new(Caller::local()),
            hosts: AllowedHosts::new(app.address(), &config.hosts),
            origins: Origins::new(&config.origins),
            users: RateLimiter::new(rate, rate.saturating_mul(BURST_FACTOR)),
            authenticator: Authenticator::new(),
            request_audit: RequestAudit::new(Arc::clone(app.audit())),
            metrics: ServerMetrics::new(),
            connections,
            document,
            app,
        }))
    }
}

/// All routes of the API.
fn api() -> OpenApiRouter<SharedHttp> {
    OpenApiRouter::with_openapi(openapi::ApiDescription::openapi())
        .routes(routes!(schedule::schedule))
        .routes(routes!(schedule::status))
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(jobs::get, jobs::delete))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::send_message))
        .routes(routes!(jobs::interrupt))
        .routes(routes!(webhooks::redeliver))
        .routes(routes!(events::follow))
        .routes(routes!(chat::chat, pages::chat))
        .routes(routes!(files::list))
        .routes(routes!(files::content))
        .routes(routes!(files::raw))
        .routes(routes!(diff::diff))
        .routes(routes!(logs::read))
        .routes(routes!(artifacts::download))
        .routes(routes!(artifacts::output))
        .routes(routes!(search::search))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(logins::log_in))
        .routes(routes!(logins::log_out))
        .routes(routes!(logins::me))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(openapi::openapi))
}

pub(crate) fn router(app: App, connections: Arc<ConnectionTracker>) -> Router {
    let (router, document) = api().split_for_parts();
    let document = openapi::add_common_parts(document).to_json();
    let document = document.expect("an OpenAPI document serialises to JSON");
    let http = SharedHttp::new(app, connections, document.into());
    router
        .merge(pages::routes())
        // The guards limit the size of bodies per route.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(http.clone(), guard::apply))
        .with_state(http)
}
