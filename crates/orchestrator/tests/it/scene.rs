//! A test server in its own folder, and a client for it.

#[allow(dead_code, reason = "the tests inside the crate use the rest of it")]
mod models;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orchestrator::{
    JobPolicy, OutagePolicy, Retention, ServeError, Server, ServerConfig, create_key,
};
use protocol::Budget;
use protocol::job::UserRole;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use sandbox::SandboxSpec;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::JobStore;
use tempfile::TempDir;
use testkit::EventStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use self::models::{Scripts, bash, text};

/// Timeout of a test; far above what any test needs.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct ServerScene {
    folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) models: Arc<Scripts>,
    pub(crate) users: UserKeys,
    client: Client,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Result<(), ServeError>>>,
}

/// Keys that work from the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserKeys {
    pub(crate) admin: String,
    pub(crate) ann: String,
    pub(crate) ben: String,
}

/// Runs a test with its own server, then shuts the server down.
pub(crate) fn run_test(test: impl AsyncFnOnce(&mut ServerScene)) {
    run_test_with(|_| (), test);
}

/// The same, with a changed configuration.
pub(crate) fn run_test_with(
    change: impl FnOnce(&mut ServerConfig),
    test: impl AsyncFnOnce(&mut ServerScene),
) {
    testkit::run_with_timeout(TEST_TIMEOUT, async {
        let mut scene = ServerScene::begin(change).await;
        test(&mut scene).await;
        scene.end().await;
    });
}

/// A configuration for tests, with short timeouts and generous limits.
fn config(data: PathBuf) -> ServerConfig {
    ServerConfig {
        data,
        concurrency: 4,
        queue: 1_000,
        queue_per_user: 1_000,
        running_per_user: 4,
        rate: 0,
        require_keys: false,
        hosts: Vec::new(),
        origins: Vec::new(),
        trusted_proxies: Vec::new(),
        machines_waiting: 0,
        policy: JobPolicy {
            sandbox: SandboxSpec::new("/nonexistent"),
            budget: Budget::default(),
            timeout: Duration::from_secs(60),
            max_tokens: 4_096,
            private_webhooks: true,
        },
        retention: Retention {
            age: Duration::from_secs(24 * 60 * 60),
            size: 1 << 40,
        },
        drain: Duration::ZERO,
        stuck_after: Duration::from_secs(60),
        linger: Duration::from_secs(60),
        open_files: 1024,
        disk_floor: Some(0),
        outages: OutagePolicy::default(),
        largest_body: 1 << 20,
        largest_zip: 4 << 20,
    }
}

impl ServerScene {
    async fn begin(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path().join("data"));
        change(&mut config);
        let users = make_users(&config).await;
        let models = Arc::new(Scripts::default());
        let server = Server::start(config, models.clone(), ([127, 0, 0, 1], 0).into())
            .await
            .unwrap();
        let address = server.address();
        let (end, ended) = oneshot::channel();
        let running = tokio::spawn(server.run(async {
            let _ = ended.await;
        }));
        Self {
            folder,
            address,
            models,
            users,
            client: client(),
            end: Some(end),
            running: Some(running),
        }
    }

    /// Shuts the server down as a signal would, and waits for it.
    pub(crate) async fn end(&mut self) {
        let Some(end) = self.end.take() else { return };
        end.send(()).unwrap();
        let running = self.running.take().unwrap();
        running.await.unwrap().unwrap();
    }

    /// A path in the server's data folder.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, self.url(path))
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.request("POST", path)
    }

    /// The JSON at a path, which must exist.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.json().await.unwrap()
    }

    /// Schedules a job; returns its id.
    pub(crate) async fn schedule(&self, request: Value) -> String {
        let answer = self.post("/v1/jobs").json(&request).send().await.unwrap();
        let status = answer.status();
        let job: Value = answer.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{job}");
        job["id"].as_str().unwrap().to_owned()
    }

    /// Schedules a job with the default model; returns its id.
    pub(crate) async fn schedule_plain(&self) -> String {
        self.schedule(json!({"task": "Do it."})).await
    }

    pub(crate) async fn follow(&self, id: &str) -> EventStream {
        let answer = self.get(&format!("/v1/jobs/{id}/events"));
        EventStream::new(answer.send().await.unwrap())
    }

    /// The job when it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        self.follow(id).await.all().await;
        self.json(&format!("/v1/jobs/{id}")).await
    }
}

async fn make_users(config: &ServerConfig) -> UserKeys {
    if !config.require_keys {
        return UserKeys::default();
    }
    let jobs = JobStore::open(&config.data).await.unwrap();
    let make = async |user: &str, role: UserRole| {
        let now = jiff::Timestamp::now();
        let made = create_key(&jobs, user.to_owned(), role, "test".to_owned(), now);
        let (_, token) = made.await.unwrap();
        token.expose_secret().to_owned()
    };
    UserKeys {
        admin: make("root", UserRole::Admin).await,
        ann: make("ann", UserRole::User).await,
        ben: make("ben", UserRole::User).await,
    }
}

/// Follows no redirects and keeps no cookies: tests see what is sent.
fn client() -> Client {
    // Another thread may have installed it meanwhile.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tls_certs_only([])
        .build()
        .unwrap()
}
