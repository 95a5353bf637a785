//! Webhooks against a real server and a real store.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;

use jiff::SignedDuration;
use protocol::job::{Job, JobId, JobRequest, JobState, Webhook};
use store::jobs::{ChangeExtras, DeliveryOutcome, Redelivery};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::post::sign;
use super::*;
use crate::own_network;

/// A received request.
#[derive(Debug)]
struct ReceivedRequest {
    headers: HashMap<String, String>,
    body: String,
}

/// A server that answers each request with the next of these responses, and repeats the last one.
struct WebhookServer {
    url: String,
    received: mpsc::UnboundedReceiver<ReceivedRequest>,
    task: tokio::task::JoinHandle<()>,
}

impl WebhookServer {
    async fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/hook?token=hidden",
            listener.local_addr().unwrap()
        );
        let (sender, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answers[number.min(answers.len() - 1)];
                number += 1;
                let mut stream = BufReader::new(stream);
                let mut headers = HashMap::new();
                let mut line = String::new();
                stream.read_line(&mut line).await.unwrap();
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).await.unwrap();
                    let Some((name, value)) = line.trim().split_once(": ") else {
                        break;
                    };
                    headers.insert(name.to_lowercase(), value.to_owned());
                }
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                stream.read_exact(&mut body).await.unwrap();
                let body = String::from_utf8(body).unwrap();
                let answer =
                    format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ = sender.send(ReceivedRequest { headers, body });
            }
        });
        Self {
            url,
            received,
            task,
        }
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct WebhookScene {
    _home: TempDir,
    jobs: JobStore,
}

impl WebhookScene {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let jobs = JobStore::open(Path::new(home.path())).await.unwrap();
        Self { _home: home, jobs }
    }

    async fn due(&self, now: Timestamp) -> Vec<DueDelivery> {
        self.jobs.due(now, 100, 100).await.unwrap()
    }

    /// An ended job with a due delivery.
    async fn end_job(&self, url: &str, secret: Option<&str>, body: &str) -> JobId {
        self.end_job_of("owner", url, secret, body).await
    }

    async fn end_job_of(&self, owner: &str, url: &str, secret: Option<&str>, body: &str) -> JobId {
        let webhook = Webhook {
            url: url.to_owned(),
            secret: secret.map(str::to_owned),
        };
        let job = Job::new(
            JobId(Uuid::now_v7()),
            owner.to_owned(),
            JobRequest {
                task: "task".to_owned(),
                webhook: Some(webhook),
                ..JobRequest::default()
            },
            Timestamp::now(),
        );
        self.jobs.schedule(job.clone(), None).await.unwrap();
        let ended = Job {
            state: JobState::Complete,
            ended: Some(Timestamp::now()),
            ..job.clone()
        };
        let along = ChangeExtras {
            delivery: Some(body.to_owned()),
            ..ChangeExtras::default()
        };
        self.jobs.change(ended, along).await.unwrap();
        job.id
    }

    async fn only_due(&self) -> DueDelivery {
        let mut due = self.due(Timestamp::MAX).await;
        assert_eq!(due.len(), 1);
        due.remove(0)
    }
}

#[tokio::test]
async fn a_webhook_is_delivered_once_and_signed() {
    let scene = WebhookScene::new().await;
    let mut listener = WebhookServer::start(&["204 No Content"]).await;
    let (wake, end) = (Arc::new(Notify::new()), CancellationToken::new());
    let deliverer = tokio::spawn(run(
        scene.jobs.clone(),
        Arc::clone(&wake),
        true,
        end.clone(),
    ));
    scene
        .end_job(&listener.url, Some("secret"), r#"{"event":"job.ended"}"#)
        .await;
    wake.notify_one();
    let received = listener.received.recv().await.unwrap();
    assert_eq!(received.body, r#"{"event":"job.ended"}"#);
    assert_eq!(received.headers["content-type"], "application/json");
    assert_eq!(received.headers["hotcell-event"], "job.ended");
    assert_eq!(received.headers["hotcell-delivery"], "1");
    // The output of `printf … | openssl dgst -sha256 -hmac secret`.
    let signature = "4b390091f51dfc429416a3a25662f9c3f7884bba93466f1020ac2766f1a4d51e";
    assert_eq!(
        received.headers["hotcell-signature"],
        format!("sha256={signature}")
    );
    scene.end_job(&listener.url, None, "second").await;
    wake.notify_one();
    let received = listener.received.recv().await.unwrap();
    assert_eq!(received.body, "second");
    assert!(!received.headers.contains_key("hotcell-signature"));
    end.cancel();
    deliverer.await.unwrap();
    assert!(listener.received.try_recv().is_err());
}

#[test]
fn signatures_are_standard_hmac() {
    for (secret, body) in [
        ("key", "The quick brown fox jumps over the lazy dog"),
        ("", ""),
    ] {
        let script = "import hmac, sys; print(hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), 'sha256').hexdigest())";
        let mut python = std::process::Command::new("python3");
        let output = python.args(["-c", script, secret, body]).output().unwrap();
        let expect = String::from_utf8(output.stdout).unwrap();
        assert_eq!(sign(secret.as_bytes(), body.as_bytes()), expect.trim());
    }
}

/// Tries the due delivery once, as `deliver` does.
async fn try_once(scene: &WebhookScene, allows_private: bool) {
    let poster = Arc::new(WebhookClient::new(allows_private));
    let delivery = scene.only_due().await;
    deliver(
        scene.jobs.clone(),
        poster,
        delivery,
        limiter::DELIVERY_TIMEOUT,
    )
    .await;
}

#[tokio::test]
async fn failures_are_tried_again_later_and_later_and_then_given_up() {
    let scene = WebhookScene::new().await;
    // A redirect is not a success and is not followed.
    let answers = &[
        "500 No",
        "302 Found\r\nLocation: /elsewhere",
        "404 No",
        "200 OK",
    ];
    let mut listener = WebhookServer::start(answers).await;
    scene.end_job(&listener.url, None, "body").await;
    for (tries, wait) in (0..).zip(RETRY_DELAYS).take(3) {
        assert_eq!(scene.only_due().await.tries, tries);
        let before = Timestamp::now();
        try_once(&scene, true).await;
        let after = Timestamp::now();
        listener.received.recv().await.unwrap();
        let wait = SignedDuration::try_from(wait).unwrap();
        assert!(scene.due(before).await.is_empty());
        let next = scene.jobs.next_delivery_due(before).await.unwrap().unwrap();
        assert!(next >= before + wait && next <= after + wait, "{next}");
    }
    // Delivered: nothing is left.
    try_once(&scene, true).await;
    assert!(scene.due(Timestamp::MAX).await.is_empty());
    assert!(listener.received.recv().await.is_some());
    assert!(listener.received.try_recv().is_err());
    // Connections are refused, five times and once more.
    drop(listener);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    scene.end_job(&url, None, "body").await;
    for _ in 0..RETRY_DELAYS.len() {
        try_once(&scene, true).await;
        assert_eq!(scene.due(Timestamp::MAX).await.len(), 1);
    }
    try_once(&scene, true).await;
    assert!(scene.due(Timestamp::MAX).await.is_empty());
}

#[tokio::test]
async fn the_servers_own_public_address_gets_no_webhook() {
    if !own_network::enter_or_rerun(
        "webhook::tests::the_servers_own_public_address_gets_no_webhook",
    ) {
        return;
    }
    for own in own_network::OWN_ADDRESSES {
        // A request would be answered.
        TcpListener::bind((own.trim_matches(['[', ']']), 0))
            .await
            .unwrap();
    }
    for host in own_network::SPELLINGS {
        let scene = WebhookScene::new().await;
        scene
            .end_job(&format!("http://{host}:9/"), None, "body")
            .await;
        let due = scene.only_due().await;
        let failed = attempt(&scene.jobs, &WebhookClient::new(false), &due).await;
        let failed = failed.unwrap_err();
        assert!(failed.is_final, "{host}: {failed:?}");
        assert!(
            failed.reason.ends_with("is not a public address"),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn nothing_of_the_servers_own_network_is_reached() {
    let mut listener = WebhookServer::start(&["200 OK"]).await;
    let port = listener.url.split(['/', ':']).nth(4).unwrap().to_owned();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "0x7f.1",
        "0.0.0.0",
        "127.1",
    ] {
        let scene = WebhookScene::new().await;
        scene
            .end_job(&format!("http://{host}:{port}/"), None, "body")
            .await;
        let poster = WebhookClient::new(false);
        let failed = attempt(&scene.jobs, &poster, &scene.only_due().await)
            .await
            .unwrap_err();
        assert!(failed.is_final, "{host}: {failed:?}");
        // There is no retry.
        try_once(&scene, false).await;
        assert!(scene.due(Timestamp::MAX).await.is_empty(), "{host}");
    }
    assert!(listener.received.try_recv().is_err());
    // Nor any other scheme.
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "no url",
        "gopher://127.0.0.1/",
    ] {
        let scene = WebhookScene::new().await;
        scene.end_job(url, None, "body").await;
        let delivery = scene.only_due().await;
        let failed = attempt(&scene.jobs, &WebhookClient::new(true), &delivery).await;
        assert!(failed.unwrap_err().is_final, "{url}");
    }
}

#[tokio::test]
async fn due_deliveries_survive_a_restart_and_secrets_are_hidden() {
    let scene = WebhookScene::new().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?token=hidden", closed.local_addr().unwrap());
    drop(closed);
    scene.end_job(&url, Some("secret"), "body").await;
    let delivery = scene.only_due().await;
    let failed = attempt(&scene.jobs, &WebhookClient::new(true), &delivery)
        .await
        .unwrap_err();
    assert!(!failed.is_final);
    assert!(!failed.reason.contains("hidden"), "{failed:?}");
    // There is no wake-up.
    let mut listener = WebhookServer::start(&["200 OK"]).await;
    scene.end_job(&listener.url, None, "other").await;
    let end = CancellationToken::new();
    let idle = Arc::new(Notify::new());
    let deliverer = tokio::spawn(run(scene.jobs.clone(), idle, true, end.clone()));
    assert_eq!(listener.received.recv().await.unwrap().body, "other");
    end.cancel();
    deliverer.await.unwrap();
}

/// An endpoint that accepts connections and never responds.
async fn silent_endpoint() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (url, task)
}

#[tokio::test]
async fn a_dead_endpoint_of_one_owner_does_not_delay_other_owners() {
    let scene = WebhookScene::new().await;
    let (dead, task) = silent_endpoint().await;
    // Due before all others, and more than can be in progress.
    for _ in 0..200 {
        scene.end_job_of("mallory", &dead, None, "body").await;
    }
    let mut listener = WebhookServer::start(&["200 OK"]).await;
    let wake = Arc::new(Notify::new());
    let end = CancellationToken::new();
    let deliverer = tokio::spawn(run(scene.jobs.clone(), wake.clone(), true, end.clone()));
    let good = scene.end_job_of("ann", &listener.url, None, "good").await;
    wake.notify_one();
    // None of the others has ended by then: each takes ten seconds.
    assert_eq!(listener.received.recv().await.unwrap().body, "good");
    let state = async |job| scene.jobs.last_delivery(job).await.unwrap().unwrap();
    while state(good).await.outcome != DeliveryOutcome::Delivered {
        tokio::task::yield_now().await;
    }
    let tried = scene.due(Timestamp::MAX).await;
    assert!(
        tried
            .iter()
            .all(|due| due.owner == "mallory" && due.tries == 0)
    );
    end.cancel();
    deliverer.await.unwrap();
    task.abort();
}

#[tokio::test]
async fn a_skipped_delivery_is_a_failed_try_with_a_reason() {
    let scene = WebhookScene::new().await;
    let (dead, task) = silent_endpoint().await;
    let job = scene.end_job(&dead, None, "body").await;
    let due = scene.only_due().await;
    let poster = Arc::new(WebhookClient::new(true));
    let short = Duration::from_millis(10);
    let ended = deliver(scene.jobs.clone(), poster.clone(), due, short).await;
    assert!(ended.failed);
    let state = scene.jobs.last_delivery(job).await.unwrap().unwrap();
    assert_eq!(state.last_error.as_deref(), Some("no answer within 0 s"));

    let endpoint = Endpoint::new("owner", &dead);
    let mut deliverer = Deliverer {
        jobs: scene.jobs.clone(),
        poster,
        limiter: DeliveryLimiter::default(),
        under_way: JoinSet::new(),
        held: HashMap::new(),
    };
    while deliverer.limiter.admit(&endpoint, Instant::now()) != DeliveryDecision::Skip {
        deliverer
            .limiter
            .ended(&endpoint, true, limiter::DELIVERY_TIMEOUT);
    }
    let body = "unused".to_owned();
    let again = scene.jobs.redeliver(job, body, Timestamp::now());
    assert_eq!(again.await.unwrap(), Redelivery::Due);
    deliverer.begin().await.unwrap();
    assert!(deliverer.under_way.is_empty());
    let state = scene.jobs.last_delivery(job).await.unwrap().unwrap();
    assert!(state.last_error.unwrap().starts_with("not tried"));
    assert_eq!(state.tries, 1);
    task.abort();
}
