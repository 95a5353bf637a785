//! Forwards single HTTP requests to a server and streams the responses back.
//!
//! Never decides whether a request is allowed: the caller has checked it. Entry: [`forward_request`].

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::headers::{is_chunked, remove_hop_by_hop};
use crate::response::{self, ProxyBody};

/// Longest head of a request or response.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Both ends of a connection that is upgraded from HTTP.
#[derive(Debug)]
pub(crate) struct UpgradeBridge {
    pub(crate) client: OnUpgrade,
    pub(crate) server: OnUpgrade,
}

/// The response to a forwarded request.
pub(crate) struct ForwardedResponse {
    pub(crate) response: Response<ProxyBody>,
    /// Set if both sides agreed on a WebSocket, which starts after the response.
    pub(crate) bridge: Option<UpgradeBridge>,
}

/// Starts HTTP on a connection to a server. The returned connection must be polled for the sender to
/// work.
pub(crate) async fn start_http(
    stream: TcpStream,
) -> hyper::Result<(
    SendRequest<Incoming>,
    Connection<TokioIo<TcpStream>, Incoming>,
)> {
    Builder::new()
        .preserve_header_case(true)
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
}

/// Sends a request that was checked and prepared. `websocket` says whether it asks for a WebSocket.
pub(crate) async fn forward_request(
    sender: &mut SendRequest<Incoming>,
    mut request: Request<Incoming>,
    websocket: bool,
) -> ForwardedResponse {
    let client = websocket.then(|| hyper::upgrade::on(&mut request));
    let response = match sender.ready().await {
        Ok(()) => sender.send_request(request).await,
        Err(error) => Err(error),
    };
    match response {
        Ok(response) => convert_response(response, client),
        Err(error) => bad_gateway(&error.to_string()),
    }
}

fn convert_response(
    mut response: Response<Incoming>,
    client: Option<OnUpgrade>,
) -> ForwardedResponse {
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let bridge = match client {
        Some(client) if switching => Some(UpgradeBridge {
            client,
            server: hyper::upgrade::on(&mut response),
        }),
        // A server must not switch protocols without a request.
        _ if switching => return bad_gateway("it switched protocols without a request"),
        _ if is_chunked(response.headers()).is_err() => {
            return bad_gateway("its transfer coding is not supported");
        }
        _ => None,
    };
    remove_hop_by_hop(response.headers_mut());
    if bridge.is_some() {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    ForwardedResponse {
        response: response.map(Either::Left),
        bridge,
    }
}

fn bad_gateway(why: &str) -> ForwardedResponse {
    let text = format!("the server was reached, but its answer cannot be passed on: {why}");
    ForwardedResponse {
        response: response::text(StatusCode::BAD_GATEWAY, &text),
        bridge: None,
    }
}
