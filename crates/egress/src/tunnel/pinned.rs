//! Plain HTTP inside a tunnel, request by request.
//!
//! The tunnel is pinned to its target host: every request on it must name that host, not only the
//! first. A request for another host is refused, reported, and ends the tunnel.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::ClientStream;
use super::relay::bridge;
use crate::attempt::EgressAttempt;
use crate::connection::DenialReason;
use crate::forward::{self, ForwardedResponse, UpgradeBridge};
use crate::headers::{check_host, prepare_request};
use crate::prefixed_stream::PrefixedStream;
use crate::proxy::http_server;
use crate::response::{self, ProxyBody};

struct PinnedTunnel {
    /// The first request decides the report of the tunnel. Later ones are reported only if refused.
    attempt: EgressAttempt,
    /// `None` while a request is in progress: hyper passes one at a time.
    sender: Mutex<Option<SendRequest<Incoming>>>,
    bridge: Mutex<Option<UpgradeBridge>>,
}

/// Serves the requests of a tunnel. The second argument holds the bytes already read from the client.
pub(super) async fn serve(
    client: ClientStream,
    first: Vec<u8>,
    server: TcpStream,
    attempt: EgressAttempt,
) {
    let (sender, connection) = match forward::start_http(server).await {
        Ok(started) => started,
        Err(error) => {
            tracing::debug!(%error, "cannot start HTTP in a tunnel");
            return;
        }
    };
    let pinned = PinnedTunnel {
        attempt,
        sender: Mutex::new(Some(sender)),
        bridge: Mutex::new(None),
    };
    let service = service_fn(|request| async { Ok::<_, Infallible>(pinned.answer(request).await) });
    let io = TokioIo::new(PrefixedStream::new(first, client));

    // When the server closes, the tunnel ends after the current response.
    let mut connection = pin!(connection.with_upgrades());
    let mut served = pin!(http_server().serve_connection(io, service).with_upgrades());
    let mut connected = true;
    let result = loop {
        tokio::select! {
            result = served.as_mut() => break result,
            _ = connection.as_mut(), if connected => {
                connected = false;
                served.as_mut().graceful_shutdown();
            }
        }
    };
    match result {
        Err(error) if error.is_parse() => {
            pinned.attempt.denied(DenialReason::BadRequest {
                error: error.to_string(),
            });
        }
        Err(error) => tracing::debug!(%error, "HTTP in a tunnel ended"),
        Ok(()) => {}
    }
    let next = pinned
        .bridge
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(next) = next {
        if connected {
            // The upgraded server stream is available when its HTTP connection has ended.
            let _ = connection.await;
        }
        bridge(next).await;
    }
}

impl PinnedTunnel {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<ProxyBody> {
        let target = &self.attempt.target;
        let checked = match check_host(&request, target, target.port) {
            // Using an allowed host as a proxy would reach another host.
            Ok(()) if *request.method() == Method::CONNECT => Err(DenialReason::BadRequest {
                error: "CONNECT inside a tunnel".into(),
            }),
            Ok(()) => prepare_request(&mut request, target),
            Err(reason) => Err(reason),
        };
        let websocket = match checked {
            Ok(websocket) => websocket,
            Err(reason) => {
                let response = response::refusal_response(&reason);
                self.attempt.denied(reason);
                return response::with_connection_close(response);
            }
        };
        self.attempt.allowed();

        let taken = self
            .sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut sender) = taken else {
            return response::with_connection_close(response::text(
                StatusCode::BAD_GATEWAY,
                "the server has closed the connection",
            ));
        };
        let ForwardedResponse { response, bridge } =
            forward::forward_request(&mut sender, request, websocket).await;
        *self.bridge.lock().unwrap_or_else(PoisonError::into_inner) = bridge;
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        response
    }
}
