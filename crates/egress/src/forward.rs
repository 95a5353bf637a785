//! Passes single HTTP requests on to a server, and its responses back, both as they stream.
//!
//! Never decides whether a request may go: the caller has checked it. Entry: [`send`].

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::answer::{self, Body};
use crate::headers::{is_chunked, remove_hop_by_hop};

/// The longest head of a request or response.
pub(crate) const MAX_HEAD: usize = 64 << 10;

/// Both ends of a connection that stops being HTTP.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) client: OnUpgrade,
    pub(crate) server: OnUpgrade,
}

/// What became of a request.
pub(crate) struct Sent {
    pub(crate) response: Response<Body>,
    /// Set if both sides agreed on a WebSocket; it begins after the response.
    pub(crate) bridge: Option<Bridge>,
}

/// Starts HTTP on a connection to a server. The second part has to be driven for the first to work.
pub(crate) async fn start(
    stream: TcpStream,
) -> hyper::Result<(
    SendRequest<Incoming>,
    Connection<TokioIo<TcpStream>, Incoming>,
)> {
    Builder::new()
        .preserve_header_case(true)
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
}

/// Sends a request that was checked and prepared; `websocket` if it asks for one.
pub(crate) async fn send(
    sender: &mut SendRequest<Incoming>,
    mut request: Request<Incoming>,
    websocket: bool,
) -> Sent {
    let client = websocket.then(|| hyper::upgrade::on(&mut request));
    let response = match sender.ready().await {
        Ok(()) => sender.send_request(request).await,
        Err(error) => Err(error),
    };
    match response {
        Ok(response) => receive(response, client),
        Err(error) => unusable(&error.to_string()),
    }
}

fn receive(mut response: Response<Incoming>, client: Option<OnUpgrade>) -> Sent {
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let bridge = match client {
        Some(client) if switching => Some(Bridge {
            client,
            server: hyper::upgrade::on(&mut response),
        }),
        // A server must not switch to what nobody asked for.
        _ if switching => return unusable("it switched protocols unasked"),
        _ if is_chunked(response.headers()).is_err() => {
            return unusable("its transfer coding is not supported");
        }
        _ => None,
    };
    remove_hop_by_hop(response.headers_mut());
    if bridge.is_some() {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    Sent {
        response: response.map(Either::Left),
        bridge,
    }
}

fn unusable(why: &str) -> Sent {
    let text = format!("the server was reached, but its answer cannot be passed on: {why}");
    Sent {
        response: answer::text(StatusCode::BAD_GATEWAY, &text),
        bridge: None,
    }
}
