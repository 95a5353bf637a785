//! Accepts connections, serves their requests, and shuts them down gracefully.
//!
//! Limits slow request heads, clients that do not read, and the number of connections. Independent
//! of what is requested.

use std::future::pending;
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
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::http::connections::{ConnectionHandle, ConnectionTracker, OpenConnection};
use crate::http::guard::owner::TcpPeer;

/// Timeout of the first request's head.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of later request heads, including idle time before them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

const MAX_HEAD_BYTES: usize = 64 << 10;

/// How long sent data may stay unacknowledged.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(120);

/// How long requests may continue on shutdown.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Delay after a failed accept, as when there are no descriptors left. Doubled each time.
const MIN_ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);
const MAX_ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Serves until shutdown; then gives running requests a short time to finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    open: Arc<ConnectionTracker>,
    ending: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let cut = CancellationToken::new();
    while let Some((stream, peer)) = ending.run_until_cancelled(accept(&listener, &open)).await {
        // Close at once if there is no room, so that the client need not wait for a timeout.
        let Some(entry) = open.enter(peer) else {
            continue;
        };
        let connection = connection(stream, peer, entry.clone(), router.clone(), ending.clone());
        let cut = cut.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = cut.cancelled() => {}
                () = entry.cut.cancelled() => {}
                () = connection => {}
            }
        });
        // Let the tasks of closed connections end before more are accepted.
        tokio::task::yield_now().await;
    }
    drop(listener);
    tasks.close();
    if timeout(SHUTDOWN_GRACE_PERIOD, tasks.wait()).await.is_err() {
        tracing::info!(count = tasks.len(), "closing remaining connections");
        cut.cancel();
        tasks.wait().await;
    }
    // Dropping the router flushes the audit log, which may block.
    let closed = tokio::task::spawn_blocking(move || drop(router));
    if let Err(error) = closed.await {
        tracing::error!(%error, "cannot close the router");
    }
}

async fn accept(listener: &TcpListener, open: &ConnectionTracker) -> (TcpStream, SocketAddr) {
    let mut pause = MIN_ACCEPT_RETRY_DELAY;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client has closed the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if pause == MIN_ACCEPT_RETRY_DELAY {
                    tracing::warn!(%error, "cannot accept a connection");
                }
                open.make_room();
                sleep(pause).await;
                pause = (pause * 2).min(MAX_ACCEPT_RETRY_DELAY);
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    entry: Arc<OpenConnection>,
    router: Router,
    ending: CancellationToken,
) {
    let peer = match configure_socket(&stream).and_then(|()| TcpPeer::of(&stream, peer)) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::debug!(%error, "cannot set up a connection");
            return;
        }
    };
    let begun = CancellationToken::new();
    let has_begun = begun.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        has_begun.cancel();
        entry.set_idle(false);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request
            .extensions_mut()
            .insert(ConnectionHandle::new(entry.clone()));
        let entry = entry.clone();
        let answer = router.clone().call(request);
        async move {
            let answer = answer.await;
            entry.set_idle(true);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut silence = pin!(silence(&begun));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = silence.as_mut() => return,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::trace!(%error, "connection broke");
    }
}

/// Completes if the first request does not arrive in time.
async fn silence(begun: &CancellationToken) {
    if timeout(FIRST_HEAD_TIMEOUT, begun.cancelled()).await.is_ok() {
        pending().await
    }
}

/// Sends events without delay, and drops a client that does not read.
fn configure_socket(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let millis = u32::try_from(UNREAD_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &millis)?;
    Ok(())
}
