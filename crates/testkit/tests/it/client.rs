//! A low-level client: chunks as they arrived, and how the body ended.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testkit::ModelServer;
use tokio::net::TcpStream;

pub(crate) struct ReceivedResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) chunks: Vec<Bytes>,
    /// Whether the body ended normally.
    pub(crate) is_whole: bool,
}

impl ReceivedResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The data of each event that is JSON.
    pub(crate) fn data(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub(crate) fn messages_body() -> Value {
    json!({
        "model": "claude-test", "max_tokens": 100, "stream": true,
        "messages": [{"role": "user", "content": "hi"}],
    })
}

pub(crate) fn chat_body() -> Value {
    let mut body = messages_body();
    body["stream_options"] = json!({"include_usage": true});
    body
}

pub(crate) async fn messages(server: &ModelServer) -> ReceivedResponse {
    post(server, "/v1/messages", &messages_body()).await
}

pub(crate) async fn chat(server: &ModelServer) -> ReceivedResponse {
    post(server, "/v1/chat/completions", &chat_body()).await
}

pub(crate) async fn post(server: &ModelServer, path: &str, body: &Value) -> ReceivedResponse {
    let response = open(server, path, body.to_string()).await.unwrap();
    let (parts, mut body) = response.into_parts();
    let mut chunks = Vec::new();
    let is_whole = loop {
        match body.frame().await {
            Some(Ok(frame)) => chunks.extend(frame.into_data()),
            Some(Err(_)) => break false,
            None => break true,
        }
    };
    ReceivedResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        chunks,
        is_whole,
    }
}

/// The response as soon as its head has arrived.
pub(crate) async fn open(
    server: &ModelServer,
    path: &str,
    body: String,
) -> hyper::Result<Response<Incoming>> {
    let address = server.base_url().replace("http://", "");
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("x-api-key", "a-key")
        .header("anthropic-version", "2023-06-01")
        .body(Full::<Bytes>::from(body))
        .unwrap();
    sender.send_request(request).await
}
