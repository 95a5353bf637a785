//! Connections: takes them, gives each its requests, ends them in order.
//!
//! A head that does not come, a reader that does not read and a crowd that is too large are all
//! bounded here. Knows nothing of what is asked.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::http::events::Ending;
use crate::http::guard::owner::Peer;

/// Connections at the same time; more wait to be taken.
const MOST_CONNECTIONS: usize = 8_192;

/// How long the head of a request may take, also the next one of a connection.
const HEAD: Duration = Duration::from_secs(30);

/// Bytes that a head may have.
const LARGEST_HEAD: usize = 64 << 10;

/// How long a client may leave what it was sent unread.
const UNREAD: Duration = Duration::from_secs(120);

/// How long requests may go on when the server ends.
const GRACE: Duration = Duration::from_secs(5);

/// After a failure to take a connection, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until told to end; then lets requests end, but not for long.
pub(crate) async fn serve(listener: TcpListener, router: Router, ending: CancellationToken) {
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Some((place, stream, peer)) = ending
        .run_until_cancelled(async {
            let place = Arc::clone(&room).acquire_owned().await;
            let place = place.expect("the room is never closed");
            let (stream, peer) = accept(&listener).await;
            (place, stream, peer)
        })
        .await
    {
        let connection = connection(stream, peer, router.clone(), ending.clone());
        let cut = cut.clone();
        connections.spawn(async move {
            cut.run_until_cancelled(connection).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if timeout(GRACE, connections.wait()).await.is_err() {
        tracing::info!(count = connections.len(), "connections are cut");
        cut.cancel();
        connections.wait().await;
    }
    // With the last of the router what it has to write is written, which may take a moment.
    let closed = tokio::task::spawn_blocking(move || drop(router));
    if let Err(error) = closed.await {
        tracing::error!(%error, "server was not closed in order");
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    ending: CancellationToken,
) {
    let peer = match prepare(&stream).and_then(|()| Peer::of(&stream, peer)) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::debug!(%error, "cannot set up a connection");
            return;
        }
    };
    let end = ending.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Ending(end.clone()));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::trace!(%error, "connection broke");
    }
}

/// Events go out at once, and a client that reads nothing is left.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let millis = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &millis)?;
    Ok(())
}
