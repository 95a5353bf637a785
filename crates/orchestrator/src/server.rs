//! A server: wires all components together, from start to shutdown.
//!
//! A data folder is used by one server at a time. Jobs that the last server left running are
//! recovered before requests are accepted. Entry type: [`Server`].

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::AuditLog;
use protocol::job::JobId;
use sandbox::{Backend, MachinePool, doctor};
use store::{JobStore, SessionStore};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::app::App;
use crate::breaker::Breakers;
use crate::config::ServerConfig;
use crate::disk::Disk;
use crate::dispatcher::Dispatcher;
use crate::error::ServeError;
use crate::http::connections::{ConnectionLimits, ConnectionTracker};
use crate::hub::Hub;
use crate::loads::{LoadTracker, QueueLimits};
use crate::parts::{ServerParts, chain};
use crate::ports::ServerModels;
use crate::recovery::recover;
use crate::retention::{self, RetentionTask};
use crate::running_jobs::RunningJobs;
use crate::watch::AwakeClock;
use crate::{http, watch, webhook};

/// Capacity of the channel of ended jobs to the retention task.
const ENDED_JOBS_CAPACITY: usize = 1024;

const MAX_LOCK_TRIES: u32 = 50;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Server {
    parts: Arc<ServerParts>,
    listener: TcpListener,
    connections: Arc<ConnectionTracker>,
    /// Ended jobs, for the retention task.
    ended: mpsc::Receiver<JobId>,
    // Held while the server lives. The kernel releases it when the process dies.
    _lock: File,
}

impl Server {
    /// Locks the data folder, opens the store, recovers the jobs of the last server, and listens.
    /// Port 0 selects any free port.
    pub async fn start(
        mut config: ServerConfig,
        models: Arc<dyn ServerModels>,
        address: SocketAddr,
    ) -> Result<Self, ServeError> {
        let data = config.data.clone();
        for folder in [&data, &data.join("jobs"), &data.join("uploads")] {
            create_folder(folder)?;
        }
        let lock = lock_data_folder(&data).await?;
        // Before the store is opened, which fails on a full disk.
        let disk = Disk::new(&data, config.disk_floor);
        let store = SessionStore::open(&data).await?;
        store.open_all().await?;
        let jobs = JobStore::open(&data).await?;
        if !address.ip().to_canonical().is_loopback() {
            let keys = jobs.keys().await?;
            if keys.iter().all(|key| key.revoked.is_some()) {
                let address = address.to_string();
                return Err(ServeError::NoKeys { address });
            }
            config.require_keys = true;
        }
        let audit = AuditLog::open(data.join("server-audit.jsonl")).map_err(ServeError::Audit)?;
        let listen = |source| ServeError::Listen {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        config.policy.sandbox.pool = start_machine_pool(&config)?;
        let breakers = Breakers::new(config.outages);
        let limits = ConnectionLimits::of(config.open_files, config.concurrency);
        let connections = ConnectionTracker::new(limits, config.trusted_proxies.clone());
        let (ended, ends) = mpsc::channel(ENDED_JOBS_CAPACITY);
        let parts = Arc::new(ServerParts {
            ended,
            address: listener.local_addr().map_err(listen)?,
            clock: Arc::new(AwakeClock::start()),
            loads: Arc::new(LoadTracker::new(QueueLimits {
                queue: config.queue,
                queue_per_user: config.queue_per_user,
                running_per_user: config.running_per_user,
            })),
            config,
            jobs,
            store,
            models,
            audit: Arc::new(audit),
            hub: Hub::default(),
            running_jobs: RunningJobs::default(),
            breakers,
            disk,
            unrecovered: Mutex::default(),
            deliveries: Arc::new(Notify::new()),
            ending: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        let recovered = recover(&parts).await?;
        parts.loads.restore(parts.jobs.loads().await?);
        info!(address = %parts.address, recovered, "server ready");
        Ok(Self {
            parts,
            listener,
            connections,
            ended: ends,
            _lock: lock,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.parts.address
    }

    /// Serves until `end` completes; then finishes or parks running jobs.
    pub async fn run(self, end: impl Future<Output = ()>) -> Result<(), ServeError> {
        let parts = self.parts;
        let config = &parts.config;
        let closing = &parts.closing;
        // In the background, so that the first job is not delayed.
        tokio::task::spawn_blocking(sandbox::prewarm);

        let mut helpers = JoinSet::new();
        helpers.spawn(watch::store_run_times(parts.clone(), closing.clone()));
        helpers.spawn(watch::maintain_disk_reserve(parts.clone(), closing.clone()));
        helpers.spawn(watch::store_parked_time(parts.clone(), closing.clone()));
        helpers.spawn(webhook::run(
            parts.jobs.clone(),
            parts.deliveries.clone(),
            config.policy.private_webhooks,
            closing.clone(),
        ));
        let retention_task = RetentionTask {
            jobs: parts.jobs.clone(),
            store: parts.store.clone(),
            data: config.data.clone(),
            retention: config.retention,
        };
        helpers.spawn(retention::run(retention_task, self.ended, closing.clone()));
        let mut dispatcher = tokio::spawn(Dispatcher::new(parts.clone()).run());
        let router = http::router(App::new(parts.clone()), self.connections.clone());
        let mut serving = tokio::spawn(http::serve(
            self.listener,
            router,
            self.connections,
            closing.clone(),
        ));

        // Whichever part ends first, all parts are shut down in the same order.
        let mut served = None;
        let mut dispatched = None;
        tokio::select! {
            () = end => info!("server is ending"),
            outcome = &mut serving => served = Some(outcome),
            outcome = &mut dispatcher => dispatched = Some(outcome),
        }
        parts.ending.cancel();
        let dispatched = match dispatched {
            Some(outcome) => outcome,
            None => dispatcher.await,
        };
        closing.cancel();
        let served = match served {
            Some(outcome) => outcome,
            None => serving.await,
        };
        while let Some(ended) = helpers.join_next().await {
            if let Err(error) = ended {
                error!(%error, "background task panicked");
            }
        }
        if let Some(start_machine_pool) = &config.policy.sandbox.pool {
            start_machine_pool.end().await;
        }
        merge_database_logs(&parts).await;
        let outcome = dispatched.and(served.map(drop));
        outcome.map_err(|error| ServeError::Broke(io::Error::other(error)))
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> &Arc<ServerParts> {
        &self.parts
    }
}

/// Merges the write-ahead logs into the databases, so that a backup of the folder, or a release
/// that reads them differently, finds everything in one place.
async fn merge_database_logs(parts: &ServerParts) {
    for settled in [parts.store.settle().await, parts.jobs.settle().await] {
        if let Err(error) = settled {
            warn!(error = %chain(&error), "cannot merge the log of a database");
        }
    }
}

fn create_folder(path: &Path) -> Result<(), ServeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| ServeError::Folder {
        path: path.to_owned(),
        source,
    })
}

/// Starts the pool of virtual machines, if jobs run in them: a job then need not wait for one to
/// boot.
fn start_machine_pool(config: &ServerConfig) -> Result<Option<Arc<MachinePool>>, ServeError> {
    let spec = &config.policy.sandbox;
    let is_machine = match spec.backend {
        Backend::Auto => {
            doctor::auto_choice(spec).is_ok_and(|choice| choice.backend == Backend::Microvm)
        }
        backend => backend == Backend::Microvm,
    };
    if !is_machine || config.machines_waiting == 0 {
        return Ok(None);
    }
    // Must be on the file system of the jobs' workspaces.
    let folder = config.data.join("machines");
    create_folder(&folder)?;
    let pool = MachinePool::start(spec.clone(), config.machines_waiting, &folder);
    let pool = pool.map_err(|source| ServeError::Folder {
        path: folder,
        source,
    })?;
    Ok(Some(Arc::new(pool)))
}

/// Locks a data folder with a file lock.
///
/// A child process of the last server may hold the lock for a moment after the server's death.
async fn lock_data_folder(data: &Path) -> Result<File, ServeError> {
    let failed = |source| ServeError::Folder {
        path: data.to_owned(),
        source,
    };
    let locks = data.join("locks");
    create_folder(&locks)?;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(locks.join("server"))
        .map_err(failed)?;
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if tries < MAX_LOCK_TRIES => {
                tries += 1;
                tokio::time::sleep(LOCK_RETRY_DELAY).await;
            }
            Err(TryLockError::WouldBlock) => {
                let path = data.to_owned();
                return Err(ServeError::InUse { path });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}
