//! The server: its thread, its port, and its interface for tests.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::counter::Counter;
use crate::replies::Replies;
use crate::request_log::{RecordedRequest, RequestLog};
use crate::serve::{ServerState, lock, serve};
use crate::settings::ModelServerSettings;

/// A scripted model server on 127.0.0.1. Dropping it stops it, and panics if a request broke a
/// rule.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Needs no runtime, and does not block one.
    pub fn start(replies: impl Into<Replies>) -> Self {
        Self::start_with(replies, ModelServerSettings::default())
    }

    pub fn start_with(replies: impl Into<Replies>, settings: ModelServerSettings) -> Self {
        let shared = Arc::new(ServerState {
            settings,
            replies: Mutex::new(replies.into()),
            record: RequestLog::default(),
            connected: Counter::default(),
            counted: Counter::default(),
            hang_ups: Arc::default(),
            violations: Mutex::default(),
            thoughtful: Mutex::new(HashSet::new()),
        });
        // Bound here, so that clients can connect as soon as the address is known.
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        listener
            .set_nonblocking(true)
            .expect("a new socket can be made non-blocking");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("model-server".to_owned())
            .spawn(move || run(listener, &served, stopped))
            .expect("a thread can be started");
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Without `/v1` and without a trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests for a reply so far, in order. Requests that only count tokens are not included.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.record.all()
    }

    /// Number of requests for a reply, including those that are no longer kept.
    pub fn request_count(&self) -> usize {
        self.shared.record.count()
    }

    /// Number of token counting requests.
    pub fn token_counts(&self) -> usize {
        self.shared.counted.get()
    }

    /// Number of connections.
    pub fn connection_count(&self) -> usize {
        self.shared.connected.get()
    }

    /// The next request that was not returned yet, as soon as it arrives, before its reply.
    pub async fn next_request(&self) -> RecordedRequest {
        self.shared.record.next().await
    }

    /// Blocks until request `number` has arrived. The first has number 1.
    pub fn wait_for(&self, number: usize) -> RecordedRequest {
        self.shared.record.wait(number)
    }

    /// Waits until this many clients have disconnected in the middle of their reply.
    pub async fn hung_up(&self, times: usize) {
        self.shared.hang_ups.reaches(times).await;
    }

    /// Blocking version of [`ModelServer::hung_up`], for a test without a runtime.
    pub fn wait_hung_up(&self, times: usize) {
        self.shared.hang_ups.wait(times, "hang-up");
    }

    /// The rules that requests broke so far.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.shared.violations).clone()
    }

    /// Returns and clears the violations, for a test that expects them.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.violations))
    }

    /// Stops the server and returns its requests.
    ///
    /// # Panics
    /// If a request broke a rule.
    pub fn finish(self) -> Vec<RecordedRequest> {
        self.requests()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self
            .thread
            .take()
            .is_none_or(|thread| thread.join().is_ok());
        if std::thread::panicking() {
            return;
        }
        assert!(ended, "the model server panicked");
        let violations = self.violations();
        assert!(violations.is_empty(), "{}", format_violations(&violations));
    }
}

fn format_violations(violations: &[String]) -> String {
    let mut text = "requests that a provider would refuse:".to_owned();
    for violation in violations {
        write!(text, "\n  {violation}").expect("writing to a string does not fail");
    }
    text
}

fn run(listener: std::net::TcpListener, shared: &Arc<ServerState>, stopped: oneshot::Receiver<()>) {
    // One thread, so that replies are chosen in the order in which requests arrive.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be created");
    // Running requests end with the runtime.
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("the socket is non-blocking");
        tokio::select! {
            () = accept(listener, shared) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener, shared: &Arc<ServerState>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        shared.connected.add();
        // Otherwise the kernel delays small chunks until earlier ones are acknowledged.
        stream
            .set_nodelay(true)
            .expect("options of a new connection can be set");
        let shared = Arc::clone(shared);
        let service = service_fn(move |request| serve(Arc::clone(&shared), request));
        tokio::spawn(async move {
            // A client that disconnects, or a script that breaks the connection, is not an error.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}
