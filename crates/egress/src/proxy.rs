//! The HTTP side of the proxy: `CONNECT`, and plain HTTP with absolute URLs.
//!
//! [`serve`] serves one stream until it ends. A request is forwarded only after its target was allowed,
//! resolved, checked and connected to.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::attempt::EgressAttempt;
use crate::connection::{DenialReason, sanitize};
use crate::egress::{Egress, Upstream};
use crate::forward::{self, MAX_HEAD_BYTES, UpgradeBridge};
use crate::headers::{check_host, prepare_request};
use crate::host::ConnectTarget;
use crate::response::{self, ProxyBody};
use crate::tunnel;

/// Timeout for reading the head of a request, from the end of the previous request.
const HEAD_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves one client until its stream ends, including the tunnel that it may become.
pub async fn serve<S>(stream: S, egress: Arc<Egress>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let session = Arc::new(ProxySession {
        egress: Arc::clone(&egress),
        next: Mutex::new(None),
        upstreams: Mutex::new(JoinSet::new()),
    });
    let service = service_fn(|request| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let served = http_server()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = served.await {
        report_parse_error(&egress, &error);
    }

    let next = lock(&session.next).take();
    match next {
        Some(AfterResponse::Tunnel { client, upstream }) => {
            if let Ok(client) = client.await {
                let policy = egress.gate.hosts().policy();
                tunnel::run(TokioIo::new(client), upstream, &policy).await;
            }
        }
        Some(AfterResponse::Bridge(bridge)) => tunnel::bridge(bridge).await,
        None => {}
    }
    let mut upstreams = std::mem::take(&mut *lock(&session.upstreams));
    upstreams.shutdown().await;
}

/// An HTTP server with the limits for all requests of a sandbox.
pub(crate) fn http_server() -> Builder {
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_READ_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .preserve_header_case(true)
        // A client may close its sending side after the request and wait for the response.
        .half_close(true);
    builder
}

/// Reports a request that hyper could not parse as an attempt. Hyper has already replied with 400.
fn report_parse_error(egress: &Egress, error: &hyper::Error) {
    if error.is_parse() {
        egress.report_unreadable(
            "",
            DenialReason::BadRequest {
                error: error.to_string(),
            },
        );
    } else {
        tracing::debug!(%error, "proxy stream ended");
    }
}

/// Locks for single statements only, so a panic cannot leave a partial change.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of one client.
struct ProxySession {
    egress: Arc<Egress>,
    /// What the stream becomes after the current response.
    next: Mutex<Option<AfterResponse>>,
    /// Connections to servers whose responses are in progress.
    upstreams: Mutex<JoinSet<()>>,
}

enum AfterResponse {
    Tunnel {
        client: OnUpgrade,
        upstream: Upstream,
    },
    Bridge(UpgradeBridge),
}

impl ProxySession {
    async fn answer(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        if request.method() == Method::CONNECT {
            return self.connect(request).await;
        }
        match request.uri().scheme_str() {
            Some("http") => self.fetch(request).await,
            Some(scheme) => {
                let reason = DenialReason::Scheme {
                    scheme: scheme.to_owned(),
                };
                self.refuse_unreadable(request.uri().host().unwrap_or_default(), reason)
            }
            None => {
                let host = request.headers().get(HOST).map(|host| host.as_bytes());
                let host = String::from_utf8_lossy(host.unwrap_or_default());
                self.refuse_unreadable(&host, DenialReason::NotForProxy)
            }
        }
    }

    async fn connect(&self, mut request: Request<Incoming>) -> Response<ProxyBody> {
        let uri = request.uri();
        let text = match uri.authority() {
            Some(authority) if uri.scheme().is_none() => authority.as_str(),
            _ => "",
        };
        let target = match ConnectTarget::parse(text, None) {
            Ok(target) => target,
            Err(error) => {
                let reason = DenialReason::BadTarget {
                    text: sanitize(text),
                    error,
                };
                return self.refuse_unreadable(text, reason);
            }
        };
        if request.headers().contains_key(HOST)
            && let Err(reason) = check_host(&request, &target, target.port)
        {
            return self.refuse(&target, reason);
        }
        match self.egress.connect(&target).await {
            Ok(upstream) => {
                let client = hyper::upgrade::on(&mut request);
                *lock(&self.next) = Some(AfterResponse::Tunnel { client, upstream });
                response::status(StatusCode::OK)
            }
            Err(reason) => response::refusal_response(&reason),
        }
    }

    async fn fetch(&self, mut request: Request<Incoming>) -> Response<ProxyBody> {
        let text = request
            .uri()
            .authority()
            .map_or("", |authority| authority.as_str())
            .to_owned();
        let target = match ConnectTarget::parse(&text, Some(80)) {
            Ok(target) => target,
            Err(error) => {
                let reason = DenialReason::BadTarget {
                    text: sanitize(&text),
                    error,
                };
                return self.refuse_unreadable(&text, reason);
            }
        };
        let checked =
            check_host(&request, &target, 80).and_then(|()| prepare_request(&mut request, &target));
        let websocket = match checked {
            Ok(websocket) => websocket,
            Err(reason) => return self.refuse(&target, reason),
        };
        if !websocket {
            // One request per connection: the next may be for another host.
            request
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let Upstream {
            stream,
            attempt,
            permit,
        } = match self.egress.connect(&target).await {
            Ok(upstream) => upstream,
            Err(reason) => return response::refusal_response(&reason),
        };
        attempt.allowed();
        let (mut sender, connection) = match forward::start_http(stream).await {
            Ok(started) => started,
            Err(error) => return response::text(StatusCode::BAD_GATEWAY, &error.to_string()),
        };
        {
            let mut upstreams = lock(&self.upstreams);
            while upstreams.try_join_next().is_some() {}
            upstreams.spawn(async move {
                if let Err(error) = connection.with_upgrades().await {
                    tracing::debug!(%error, "connection to a server ended");
                }
                drop(permit);
            });
        }
        let sent = forward::forward_request(&mut sender, request, websocket).await;
        *lock(&self.next) = sent.bridge.map(AfterResponse::Bridge);
        sent.response
    }

    fn refuse(&self, target: &ConnectTarget, reason: DenialReason) -> Response<ProxyBody> {
        let response = response::refusal_response(&reason);
        EgressAttempt::new(&self.egress, target).denied(reason);
        response
    }

    fn refuse_unreadable(&self, host: &str, reason: DenialReason) -> Response<ProxyBody> {
        let response = response::refusal_response(&reason);
        self.egress.report_unreadable(host, reason);
        response
    }
}
