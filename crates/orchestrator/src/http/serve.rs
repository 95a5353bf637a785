//! Connections: takes them, gives each its requests, ends them in order.
//!
//! A head that does not come, a reader that does not read and a crowd that is too large are all
//! bounded here. Knows nothing of what is asked.

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

use crate::http::connections::{Connections, Introduction, OpenConnection};
use crate::http::events::Ending;
use crate::http::guard::owner::Peer;

/// How long the head of a connection's first request may take.
const FIRST_HEAD: Duration = Duration::from_secs(5);

/// How long the head of any other request may take, and a connection may be idle before it.
const HEAD: Duration = Duration::from_secs(30);

/// Bytes that a head may have.
const LARGEST_HEAD: usize = 64 << 10;

/// How long a client may leave what it was sent unread.
const UNREAD: Duration = Duration::from_secs(120);

/// How long requests may go on when the server ends.
const GRACE: Duration = Duration::from_secs(5);

/// After a failure to take a connection, as when there are no descriptors left; doubled each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Serves until told to end; then lets requests end, but not for long.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    open: Arc<Connections>,
    ending: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let cut = CancellationToken::new();
    while let Some((stream, peer)) = ending.run_until_cancelled(accept(&listener, &open)).await {
        // Closed at once if there is no room: the client hears of it now and not after a timeout.
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
        // So that those that were closed to make room are gone before more are taken.
        tokio::task::yield_now().await;
    }
    drop(listener);
    tasks.close();
    if timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::info!(count = tasks.len(), "connections are cut");
        cut.cancel();
        tasks.wait().await;
    }
    // With the last of the router what it has to write is written, which may take a moment.
    let closed = tokio::task::spawn_blocking(move || drop(router));
    if let Err(error) = closed.await {
        tracing::error!(%error, "server was not closed in order");
    }
}

async fn accept(listener: &TcpListener, open: &Connections) -> (TcpStream, SocketAddr) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client was quicker.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if pause == SHORTEST_PAUSE {
                    tracing::warn!(%error, "cannot take a connection");
                }
                open.make_room();
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
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
    let peer = match prepare(&stream).and_then(|()| Peer::of(&stream, peer)) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::debug!(%error, "cannot set up a connection");
            return;
        }
    };
    let end = ending.clone();
    let begun = CancellationToken::new();
    let has_begun = begun.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        has_begun.cancel();
        entry.set_idle(false);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Ending(end.clone()));
        request
            .extensions_mut()
            .insert(Introduction::new(entry.clone()));
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
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD)
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

/// Ends when no first request has come in time.
async fn silence(begun: &CancellationToken) {
    if timeout(FIRST_HEAD, begun.cancelled()).await.is_ok() {
        pending().await
    }
}

/// Events go out at once, and a client that reads nothing is left.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let millis = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::TcpUserTimeout, &millis)?;
    Ok(())
}
