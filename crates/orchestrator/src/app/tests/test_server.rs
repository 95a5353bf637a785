//! A test server without HTTP, in its own folder.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::job::{Cause, Failure, Job, JobId, JobRequest, JobState, UserRole};
use protocol::{Block, Budget, Event, EventKind};
use sandbox::SandboxSpec;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::script::Scripts;
use crate::app::{App, Caller};
use crate::config::{JobPolicy, OutagePolicy, Retention, ServerConfig};
use crate::dispatcher::Dispatcher;
use crate::folder::JobFolder;
use crate::hub::JobUpdate;
use crate::parts::ServerParts;
use crate::server::Server;
use crate::watch;

/// Timeout of a test; far above what any test needs.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(100);

/// Runs a test with a timeout.
pub(crate) fn within(test: impl Future<Output = ()>) {
    testkit::run_with_timeout(TEST_TIMEOUT, test);
}

/// The data folder of consecutive servers.
pub(crate) struct TestSite {
    pub(crate) folder: Arc<TempDir>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) config: ServerConfig,
}

impl TestSite {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            data: folder.path().join("data"),
            concurrency: 4,
            queue: 100,
            queue_per_user: 50,
            running_per_user: 4,
            open_files: 1024,
            disk_floor: Some(0),
            rate: 1000,
            require_keys: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            machines_waiting: 0,
            policy: JobPolicy {
                sandbox: SandboxSpec::new(PathBuf::new()),
                budget: Budget::default(),
                timeout: Duration::from_secs(1000),
                max_tokens: 4096,
                private_webhooks: false,
            },
            retention: Retention {
                age: Duration::from_secs(1 << 20),
                size: 1 << 40,
            },
            drain: Duration::ZERO,
            stuck_after: TEST_TIMEOUT * 2,
            linger: TEST_TIMEOUT * 2,
            outages: OutagePolicy::default(),
            largest_body: 1 << 20,
            largest_zip: 1 << 30,
        };
        Self {
            folder: Arc::new(folder),
            scripts: Arc::default(),
            config,
        }
    }

    pub(crate) async fn server(&self) -> Server {
        let address = "127.0.0.1:0".parse().unwrap();
        let models = self.scripts.clone();
        let started = Server::start(self.config.clone(), models, address);
        started.await.unwrap()
    }

    pub(crate) async fn open(&self) -> RunningTestServer {
        let server = self.server().await;
        let parts = server.parts().clone();
        RunningTestServer {
            app: App::new(parts.clone()),
            dispatcher: tokio::spawn(Dispatcher::new(parts.clone()).run()),
            clock_tasks: [
                tokio::spawn(watch::store_run_times(parts.clone(), parts.closing.clone())),
                tokio::spawn(watch::store_parked_time(
                    parts.clone(),
                    parts.closing.clone(),
                )),
            ],
            scripts: self.scripts.clone(),
            parts,
            server,
            _folder: self.folder.clone(),
        }
    }
}

/// A running server.
pub(crate) struct RunningTestServer {
    pub(crate) app: App,
    pub(crate) parts: Arc<ServerParts>,
    pub(crate) scripts: Arc<Scripts>,
    dispatcher: JoinHandle<()>,
    clock_tasks: [JoinHandle<()>; 2],
    server: Server,
    _folder: Arc<TempDir>,
}

pub(crate) fn user(name: &str) -> Caller {
    Caller {
        user: name.to_owned(),
        role: UserRole::User,
        key: None,
    }
}

pub(crate) fn task(task: &str) -> JobRequest {
    JobRequest {
        task: task.to_owned(),
        ..JobRequest::default()
    }
}

/// A task for the script of that name.
pub(crate) fn scripted(model: &str) -> JobRequest {
    JobRequest {
        model: Some(model.to_owned()),
        ..task(&format!("do as {model} says"))
    }
}

pub(crate) fn failure(job: &Job) -> &Failure {
    match &job.state {
        JobState::Failed { failure } => failure,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn check_cause(job: &Job, cause: Cause) {
    assert_eq!(failure(job).cause, cause, "{:?}", job.state);
}

impl RunningTestServer {
    pub(crate) async fn schedule(&self, request: JobRequest) -> JobId {
        self.schedule_for(&Caller::local(), request).await
    }

    pub(crate) async fn schedule_for(&self, caller: &Caller, request: JobRequest) -> JobId {
        let accepted = self.app.schedule(caller, request, None, None).await;
        accepted.unwrap().id
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.app.job(&Caller::local(), id).await.unwrap()
    }

    /// Waits until a job's record satisfies the condition.
    pub(crate) async fn until(&self, id: JobId, is_so: impl Fn(&Job) -> bool) -> Job {
        // Follow again after an end, which ends the stream.
        loop {
            let mut follower = self.app.follow(&Caller::local(), id, 0).await.unwrap();
            while let Some(update) = follower.next().await {
                if let JobUpdate::Job(snapshot) = update
                    && is_so(&snapshot.job)
                {
                    return snapshot.job.clone();
                }
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn end_of(&self, id: JobId) -> Job {
        self.until(id, |job| job.state.has_ended()).await
    }

    pub(crate) async fn send_message(&self, id: JobId, text: &str) -> Job {
        let caller = Caller::local();
        self.app
            .send_message(&caller, id, text.to_owned())
            .await
            .unwrap()
    }

    pub(crate) async fn events(&self, id: JobId) -> Vec<Event> {
        let session = self.job(id).await.session.unwrap();
        self.parts.store.events(&session).await.unwrap()
    }

    /// The prompts that the agent received, turn by turn.
    pub(crate) async fn delivered_messages(&self, id: JobId) -> Vec<String> {
        let events = self.events(id).await;
        let prompts = events.iter().filter_map(|event| match &event.kind {
            EventKind::TurnStarted { prompt, .. } => prompt.first().and_then(Block::as_text),
            _ => None,
        });
        prompts.map(str::to_owned).collect()
    }

    pub(crate) fn folder(&self, id: JobId) -> JobFolder {
        JobFolder::new(&self.parts.config.data, id)
    }

    /// Shuts down gracefully.
    pub(crate) async fn close(self) {
        self.parts.ending.cancel();
        self.dispatcher.await.unwrap();
        self.parts.closing.cancel();
        for clock_tasks in self.clock_tasks {
            clock_tasks.await.unwrap();
        }
        drop(self.server);
    }
}

/// The names in a job's zip.
pub(crate) fn zip_names(folder: &JobFolder) -> Vec<String> {
    let file = std::fs::File::open(folder.output()).unwrap();
    let archive = zip::ZipArchive::new(file).unwrap();
    let names = archive.file_names().map(|name| name.unwrap().into_owned());
    names.collect()
}
