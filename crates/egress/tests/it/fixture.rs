//! Test fixture: a proxy with rules, resolver and log, and servers to reach through it.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use egress::{
    AllowList, ConnectionRecord, ConnectionVerdict, Egress, EgressGate, ResolveFuture, Resolver,
    serve,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

/// Resolves from a table. Each name has a list of answers; the last one is repeated.
#[derive(Clone, Default)]
pub(crate) struct TableResolver {
    table: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Resolver for TableResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut table = self.table.lock().unwrap();
        let answer = match table.get_mut(name) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(std::io::Error::other("no such name")),
        };
        Box::pin(async { answer })
    }
}

pub(crate) struct ProxyFixture {
    pub(crate) egress: Arc<Egress>,
    names: TableResolver,
    log: Arc<Mutex<Vec<ConnectionRecord>>>,
}

impl ProxyFixture {
    pub(crate) fn new<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> ProxyFixture {
        ProxyFixture::changed(rules, |egress| egress)
    }

    pub(crate) fn changed<T: AsRef<str>>(
        rules: impl IntoIterator<Item = T>,
        change: impl FnOnce(Egress) -> Egress,
    ) -> ProxyFixture {
        let names = TableResolver::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&log);
        let egress = Egress::new(AllowList::parse(rules).unwrap(), move |connection| {
            heard.lock().unwrap().push(connection);
        });
        let egress = Arc::new(change(egress.with_resolver(names.clone())));
        ProxyFixture { egress, names, log }
    }

    /// With a modified gate.
    pub(crate) fn with_gate<T: AsRef<str>>(
        rules: impl IntoIterator<Item = T>,
        change: impl FnOnce(EgressGate) -> EgressGate,
    ) -> ProxyFixture {
        let names = TableResolver::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&log);
        let gate = EgressGate::from(AllowList::parse(rules).unwrap())
            .with_resolver(Arc::new(names.clone()));
        let egress = Arc::new(Egress::new(change(gate), move |connection| {
            heard.lock().unwrap().push(connection);
        }));
        ProxyFixture { egress, names, log }
    }

    /// With `a.test` as the server at `port`.
    pub(crate) fn for_server(port: u16) -> ProxyFixture {
        let world = ProxyFixture::new([format!("a.test:{port}"), format!("127.0.0.1:{port}")]);
        world.resolve("a.test", &[&["127.0.0.1"]]);
        world
    }

    pub(crate) fn resolve(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.names
            .table
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.names.asked.lock().unwrap().clone()
    }

    /// A client of the proxy, and the task that serves it.
    pub(crate) fn client(&self) -> ProxyClient {
        let (stream, other) = tokio::io::duplex(64 << 10);
        let task = tokio::spawn(serve(other, Arc::clone(&self.egress)));
        ProxyClient { stream, task }
    }

    /// The log, one line per record: "host:port allowed by rule" or "host:port denied: reason".
    pub(crate) fn told(&self) -> Vec<String> {
        let line = |told: &ConnectionRecord| {
            let ConnectionRecord {
                host,
                port,
                verdict,
                ..
            } = told;
            match verdict {
                ConnectionVerdict::Allowed { rule } => {
                    assert!(told.address.is_some());
                    format!("{host}:{port} allowed by {rule}")
                }
                ConnectionVerdict::Denied { reason } => format!("{host}:{port} denied: {reason}"),
            }
        };
        self.log.lock().unwrap().iter().map(line).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<Option<String>> {
        let address = |told: &ConnectionRecord| told.address.map(|address| address.to_string());
        self.log.lock().unwrap().iter().map(address).collect()
    }

    pub(crate) fn forget(&self) {
        self.log.lock().unwrap().clear();
    }
}

pub(crate) struct ProxyClient {
    pub(crate) stream: DuplexStream,
    task: tokio::task::JoinHandle<()>,
}

impl ProxyClient {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Opens a tunnel and asserts that it was allowed.
    pub(crate) async fn tunnel(&mut self, target: &str) {
        self.send(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        ))
        .await;
        let head = read_head(&mut self.stream).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }

    pub(crate) async fn response(&mut self) -> ProxyResponse {
        let head = read_head(&mut self.stream).await;
        let status = head[9..12].parse().unwrap();
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        ProxyResponse {
            status,
            head,
            body: String::from_utf8(body).unwrap(),
        }
    }

    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> ProxyResponse {
        self.send(request).await;
        self.response().await
    }

    /// Aborts the proxy task, as when the sandbox ends.
    pub(crate) async fn abandon(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Shuts down the client's side, reads to the end, and waits for the proxy task.
    pub(crate) async fn finish(mut self) -> Vec<u8> {
        self.stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.unwrap();
        self.task.await.unwrap();
        rest
    }

    /// Reads until the proxy ends the stream.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.unwrap();
        drop(self.stream);
        self.task.await.unwrap();
        rest
    }
}

pub(crate) struct ProxyResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .next()
}

/// Reads up to and including the empty line.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
        }
    }
    String::from_utf8(head).unwrap()
}

/// A server that handles each connection with `handle`; returns its port.
pub(crate) async fn server<F, Fut>(handle: F) -> u16
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(handle(stream));
        }
    });
    port
}

/// An echo server.
pub(crate) async fn start_echo_server() -> u16 {
    server(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.shutdown().await;
    })
    .await
}

pub(crate) type RecordedBytes = Arc<Mutex<Vec<u8>>>;

/// A web server that records all received bytes and replies to each head with the number of heads so
/// far. It does not parse bodies.
pub(crate) async fn start_recording_server() -> (u16, RecordedBytes) {
    let seen = RecordedBytes::default();
    let keep = Arc::clone(&seen);
    let port = server(move |mut stream| {
        let seen = Arc::clone(&keep);
        async move {
            let mut pending = Vec::new();
            while let Ok(1..) = stream.read_buf(&mut pending).await {
                let heads = {
                    let mut seen = seen.lock().unwrap();
                    let before = count_heads(&seen);
                    seen.append(&mut pending);
                    before + 1..=count_heads(&seen)
                };
                for number in heads {
                    let body = number.to_string();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    if stream.write_all((head + &body).as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    })
    .await;
    (port, seen)
}

fn count_heads(bytes: &[u8]) -> usize {
    bytes.windows(4).filter(|part| part == b"\r\n\r\n").count()
}

pub(crate) fn text(seen: &RecordedBytes) -> String {
    String::from_utf8_lossy(&seen.lock().unwrap()).into_owned()
}
