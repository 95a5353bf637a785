//! Browser logins, which use a cookie in place of a key, and the current user.

use std::time::Instant;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use protocol::job::UserRole;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::SharedHttp;
use crate::http::extractors::{AuthenticatedCaller, JsonBody};
use crate::http::guard::authentication::{
    Credential, LOGIN_COOKIE, login_cookie as token_of, wrong_key,
};
use crate::http::guard::{AuthenticatedUser, client};
use crate::http::problem::{HttpProblem, ProblemDocument, ProblemKind};

/// Lifetime of a login.
const LOGIN_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A key to log in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRequest {
    #[schema(format = Password)]
    key: String,
}

/// Logs a browser in: sets the cookie `hotcell`.
#[utoipa::path(
    post,
    path = "/v1/login",
    tag = "keys",
    operation_id = "log_in",
    request_body = LoginRequest,
    responses(
        (status = NO_CONTENT, description = "The cookie is set, for seven days.", headers(("Set-Cookie" = String))),
        (status = UNAUTHORIZED, body = ProblemDocument, content_type = "application/problem+json", description = "The key is unknown."),
    ),
)]
pub(crate) async fn log_in(
    State(http): State<SharedHttp>,
    request: Request,
) -> Result<Response, HttpProblem> {
    let client = client(request.extensions());
    let JsonBody(LoginRequest { key }): JsonBody<LoginRequest> =
        JsonBody::from_request(request, &()).await?;
    let token = Credential::Key(&key);
    let caller = http
        .authenticator
        .caller(&http.app, token, client, Instant::now())
        .await?
        .ok_or_else(wrong_key)?;
    let until = Timestamp::now()
        .checked_add(LOGIN_LIFETIME)
        .map_err(|error| HttpProblem::failed(ProblemKind::Server, &error))?;
    let login = http.app.log_in(&caller, until).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    let cookie = cookie(login.expose_secret(), LOGIN_LIFETIME.as_secs());
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
        .extensions_mut()
        .insert(AuthenticatedUser(caller.user.clone()));
    Ok(response)
}

/// Ends the browser's login.
#[utoipa::path(
    post,
    path = "/v1/logout",
    tag = "keys",
    operation_id = "log_out",
    responses((status = NO_CONTENT, description = "The login has ended.", headers(("Set-Cookie" = String)))),
)]
pub(crate) async fn log_out(
    State(http): State<SharedHttp>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    if let Some(token) = token_of(&headers) {
        let ended = http.app.log_out(token).await;
        // Also after a failure: the login may have ended. An unknown token needs no invalidation.
        if !matches!(ended, Ok(false)) {
            http.authenticator.invalidate_login(token);
        }
        ended?;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response
        .headers_mut()
        .insert(header::SET_COOKIE, cookie("", 0));
    Ok(response)
}

/// The login cookie: hidden from scripts, not sent by other sites, valid for all paths.
fn cookie(token: &str, seconds: i64) -> HeaderValue {
    let text =
        format!("{LOGIN_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
    let mut value = HeaderValue::try_from(text).expect("a token is ASCII");
    value.set_sensitive(true);
    value
}

/// The caller, and what this server offers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    user: String,
    role: UserRole,
    /// Whether every request needs a key.
    needs_key: bool,
    version: &'static str,
    /// The model of jobs that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_model: Option<String>,
    limits: Ceilings,
    /// The sandbox backend.
    backend: &'static str,
    /// Minimum strength of the walls: `none`, `namespaces`, `kernel` or `vm`.
    require: &'static str,
    /// Maximum run time of a job, in seconds.
    timeout: u64,
    /// Maximum bytes of an uploaded zip.
    max_upload: u64,
}

/// The maximum limits of a job, which are also the defaults.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ceilings {
    memory: u64,
    cpus: f64,
    pids: u32,
    disk: u64,
    open_files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
}

/// The caller, and what this server offers.
#[utoipa::path(
    get,
    path = "/v1/me",
    tag = "keys",
    operation_id = "get_me",
    responses((status = OK, body = Me, description = "The caller.")),
)]
pub(crate) async fn me(State(app): State<App>, caller: AuthenticatedCaller) -> Json<Me> {
    let config = app.config();
    let policy = &config.policy;
    let limits = &policy.sandbox.limits;
    Json(Me {
        user: caller.user.clone(),
        role: caller.role,
        needs_key: app.needs_key(),
        version: env!("CARGO_PKG_VERSION"),
        default_model: app.default_model(),
        limits: Ceilings {
            memory: limits.memory,
            cpus: limits.cpus,
            pids: limits.pids,
            disk: limits.disk,
            open_files: limits.open_files,
            cost: policy.budget.cost,
            tokens: policy.budget.tokens,
            turns: policy.budget.turns,
        },
        backend: policy.sandbox.backend.name(),
        require: policy.sandbox.require.name(),
        timeout: policy.timeout.as_secs(),
        max_upload: config.largest_zip,
    })
}
