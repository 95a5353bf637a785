//! Middleware for every request and response: authentication, limits, rates and the audit log.
//!
//! Each guard has its own module; [`apply`] runs them in order. A route that is not in [`PUBLIC_ROUTES`]
//! requires a caller, so new routes are closed by default.

pub(crate) mod authentication;
pub(crate) mod client;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod origin;
pub(crate) mod owner;
pub(crate) mod rate;
pub(crate) mod request_audit;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use uuid::Uuid;

use crate::http::body::{self, BodyError};
use crate::http::connections::ConnectionHandle;
use crate::http::guard::authentication::{Credential, no_key, too_many};
use crate::http::guard::client::ClientAddress;
use crate::http::guard::origin::{check_change, is_change};
use crate::http::guard::owner::TcpPeer;
use crate::http::guard::request_audit::{
    AuditIdentity, AuditedRequest, PendingOutcome, RefusedRequest,
};
use crate::http::problem::{HttpProblem, MEDIA_TYPE, ProblemKind};
use crate::http::{SharedHttp, pages};

/// Routes that need no caller. Pages are public too: they contain no data.
pub(crate) const PUBLIC_ROUTES: [&str; 5] = [
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/v1/login",
    "/v1/logout",
];

/// The only route that accepts files.
const UPLOAD_ROUTE: &str = "/v1/jobs";

/// Response extension: the user of a request that was not authenticated before, such as a login.
#[derive(Debug, Clone)]
pub(crate) struct AuthenticatedUser(pub(crate) String);

/// The audit state of a request.
enum AuditProgress {
    /// The requested change is recorded.
    Begun(PendingOutcome),
    /// The caller is unknown, as at a login. Recorded after it was handled and before it is
    /// answered, because it has no effect until then.
    Unknown(AuditedRequest),
}

pub(crate) async fn apply(
    State(http): State<SharedHttp>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let id = Uuid::now_v7();
    let (mut parts, body) = request.into_parts();
    let peer = peer(&parts.extensions).address().ip();
    let trusted = &http.app.config().trusted_proxies;
    let client = ClientAddress::find(peer, &parts.headers, trusted);
    let method = parts.method.clone();
    let origin = parts.headers.get(header::ORIGIN).cloned();
    let route = parts.extensions.get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", MatchedPath::as_str);

    let end = body::BodyEnd::of(&body);
    let mut seen = AuditIdentity::default();
    let asking = GuardInput {
        id,
        client,
        route,
        now: begun,
    };
    let admitted = admit(&http, &mut parts, (body, &end), &asking, &mut seen).await;
    let refused = |status: StatusCode| RefusedRequest {
        remote: client.0,
        who: seen.clone(),
        method: method.clone(),
        route: route.to_owned(),
        status,
    };
    let mut response = match admitted {
        Ok(GuardDecision::In { body, noted }) => {
            let request = Request::from_parts(parts, body);
            let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
            let response = handled.await.unwrap_or_else(|_| broken());
            match noted {
                Some(noted) => {
                    record_outcome(&http, noted, refused(response.status()), response).await
                }
                None => response,
            }
        }
        Ok(GuardDecision::Preflight(answer)) => answer,
        Err(problem) => {
            let response = problem.into_response();
            http.request_audit
                .refused(refused(response.status()), begun);
            response
        }
    };
    response = as_problem(response);

    let status = response.status();
    let kind = response.extensions().get::<ProblemKind>();
    if kind.is_some_and(|kind| kind.is_store_failure()) {
        http.metrics.record_store_error();
    }
    let headers = response.headers_mut();
    headers::add_defaults(headers);
    if !end.is_reached() {
        // The connection has unread data: the client must not send its next request on it.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    http.origins.open(origin.as_ref(), headers);
    let mut text = [0; 36];
    let text = id.as_hyphenated().encode_lower(&mut text);
    headers.insert(
        "x-request-id",
        HeaderValue::from_str(text).expect("an id is ASCII"),
    );
    let took = begun.elapsed();
    http.metrics.answered(route, &method, status, took);
    tracing::debug!(
        request = %id,
        %method,
        route,
        status = status.as_u16(),
        micros = took.as_micros() as u64,
        "request answered"
    );
    response
}

/// The decision of the guards.
enum GuardDecision {
    In {
        body: Body,
        noted: Option<AuditProgress>,
    },
    /// The response to a CORS preflight request.
    Preflight(Response),
}

/// The input of the guards.
struct GuardInput<'a> {
    id: Uuid,
    client: ClientAddress,
    route: &'a str,
    now: Instant,
}

/// Applies the guards in order. Sets `seen` as soon as the caller is known.
async fn admit(
    http: &SharedHttp,
    parts: &mut Parts,
    body: (Body, &body::BodyEnd),
    asking: &GuardInput<'_>,
    seen: &mut AuditIdentity,
) -> Result<GuardDecision, HttpProblem> {
    let &GuardInput {
        id,
        client,
        route,
        now,
    } = asking;
    let headers = &parts.headers;
    let host = http.hosts.check(&parts.uri, headers)?;
    if let Some(answer) = http.origins.preflight(&parts.method, headers) {
        return Ok(GuardDecision::Preflight(answer));
    }

    let peer = peer(&parts.extensions).clone();

    let token = Credential::find(headers)?;
    let is_change = is_change(&parts.method);
    if is_change {
        let has_cookie = matches!(token, Some(Credential::Login(_)));
        check_change(http.origins.site(headers, host), has_cookie)?;
    }

    let caller = match token {
        None => None,
        Some(token) => {
            let authenticator = &http.authenticator;
            authenticator.caller(&http.app, token, client, now).await?
        }
    };
    // A page may share its path with an action.
    let is_page = pages::is_page(route) && !is_change;
    let is_open = route.is_empty() || PUBLIC_ROUTES.contains(&route) || is_page;
    let caller = match caller {
        None if is_open => None,
        None if http.app.needs_key() => return Err(no_key()),
        None => {
            let user = peer.keyless_user(&parts.headers).await?;
            parts.extensions.insert(user);
            Some(Arc::clone(&http.local))
        }
        caller => caller,
    };
    if let Some(caller) = &caller {
        *seen = AuditIdentity::from(&**caller);
    }
    if let Some(caller) = &caller
        && let Some(users) = &http.users
    {
        users.count(caller.user.as_str(), now).map_err(too_many)?;
    }

    let body = bound(http, &parts.headers, body, route)?;

    let mut noted = None;
    if is_change && !route.is_empty() {
        let asked = AuditedRequest {
            id,
            remote: client.0,
            who: seen.clone(),
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
        };
        noted = Some(match &caller {
            Some(_) => AuditProgress::Begun(http.request_audit.begin(asked).await?),
            None => AuditProgress::Unknown(asked),
        });
    }
    parts.extensions.insert(client);
    if let Some(caller) = caller {
        if let Some(connection) = parts.extensions.get::<ConnectionHandle>() {
            connection.make_known();
        }
        parts.extensions.insert(caller);
    }
    Ok(GuardDecision::In { body, noted })
}

/// The response after a handler panicked. The panic hook has reported the panic.
fn broken() -> Response {
    HttpProblem::from_status(StatusCode::INTERNAL_SERVER_ERROR).into_response()
}

/// The peer of a request's connection.
fn peer(extensions: &Extensions) -> &TcpPeer {
    extensions
        .get()
        .expect("`serve` sets the peer of every request")
}

/// The client address of a request that passed the guards.
pub(crate) fn client(extensions: &Extensions) -> ClientAddress {
    *extensions.get().expect("the guards set the client address")
}

/// Limits the body that a handler can read.
fn bound(
    http: &SharedHttp,
    headers: &HeaderMap,
    (body, end): (Body, &body::BodyEnd),
    route: &str,
) -> Result<Body, HttpProblem> {
    if body.is_end_stream() {
        return Ok(body);
    }
    let config = http.app.config();
    let mut limit = config.largest_body as u64;
    if route == UPLOAD_ROUTE && is_multipart(headers) {
        limit = limit.saturating_add(config.largest_zip);
    }
    if body.size_hint().lower() > limit {
        Err(HttpProblem::from_body_error(&BodyError::TooLarge { limit }))
    } else {
        Ok(body::limit_body(body, limit, end.clone()))
    }
}

fn is_multipart(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"multipart/"))
}

/// Records the outcome of a request before it is answered. If the beginning of an unauthenticated
/// change cannot be recorded, the response is withheld.
async fn record_outcome(
    http: &SharedHttp,
    noted: AuditProgress,
    refused: RefusedRequest,
    response: Response,
) -> Response {
    let status = response.status();
    let user = response.extensions().get::<AuthenticatedUser>();
    let user = user.map(|AuthenticatedUser(user)| user.clone());
    let line = match noted {
        AuditProgress::Begun(line) => line,
        // Unauthenticated clients can cause any number of refusals, which are recorded in folded
        // form.
        AuditProgress::Unknown(_) if status.is_client_error() => {
            http.request_audit.refused(refused, Instant::now());
            return response;
        }
        AuditProgress::Unknown(asked) => match http.request_audit.begin(asked).await {
            Ok(line) => line,
            Err(problem) => return problem.into_response(),
        },
    };
    line.end(user, status).await;
    response
}

/// Gives error responses of the framework a problem body. Problems and pages are left as they are.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let says_itself = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value == MEDIA_TYPE || value.as_bytes().starts_with(b"text/html"));
    if status.as_u16() < 400 || says_itself {
        return response;
    }
    let mut problem = HttpProblem::from_status(status).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}
