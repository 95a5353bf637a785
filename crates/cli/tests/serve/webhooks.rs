//! A receiver of webhooks that counts ended jobs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Accepts every webhook. Ends when dropped.
pub(crate) struct WebhookReceiver {
    address: String,
    heard: Arc<Mutex<HashMap<String, HashSet<String>>>>,
    task: JoinHandle<()>,
}

impl WebhookReceiver {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::<Mutex<HashMap<_, _>>>::default();
        let task = tokio::spawn({
            let heard = heard.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let heard = heard.clone();
                    tokio::spawn(async move { receive(stream, &heard).await });
                }
            }
        });
        Self {
            address,
            heard,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/ended", self.address)
    }

    /// Number of different ends received for a job.
    pub(crate) fn ends_of(&self, job: &str) -> usize {
        self.heard.lock().unwrap().get(job).map_or(0, HashSet::len)
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handles one request; ignores an incomplete one.
async fn receive(
    mut stream: TcpStream,
    heard: &Mutex<HashMap<String, HashSet<String>>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length: usize = header(&head, "content-length")?.parse().unwrap();
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body: Value = serde_json::from_slice(&bytes[end..end + length]).unwrap();
    assert_eq!(header(&head, "hotcell-event")?, "job.ended");
    let job = body["job_id"].as_str().unwrap().to_owned();
    let delivery = header(&head, "hotcell-delivery")?;
    heard
        .lock()
        .unwrap()
        .entry(job)
        .or_default()
        .insert(delivery);
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(answer).await.ok()
}

fn header(head: &str, wanted: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
    Some(value.trim().to_owned())
}
