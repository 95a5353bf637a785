//! The owner's handle to a sandbox: start, send requests, end.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use audit::AuditRecord;
use egress::{Egress, EgressGate};
use link::request::{ByteString, GuestGreeting, GuestRequest, GuestSettings};
use link::{IncomingStreams, Link, LinkEnd, LinkLimits, LinkRole, Stream, StreamError, StreamIo};
use protocol::{Backend, SandboxInfo};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use walls::plan::LandlockStatus;

use crate::backends::{self, RunningWalls, StartedBackend};
use crate::background_jobs::BackgroundJobs;
use crate::connection_recorder::ConnectionRecorder;
use crate::disk_limit::DiskLimiter;
use crate::error::SandboxError;
use crate::limits::{self, LimitEnforcement, LimitEnforcer, LimitKind};
use crate::recorder::AuditRecorder;
use crate::spec::{Network, RootSpec, SandboxSpec};
use crate::start_progress;

/// Port of the proxy inside the sandbox.
const PROXY_PORT: u16 = 3128;

/// A running sandbox. Ends with [`Sandbox::end`]; dropping it ends it without waiting.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) id: String,
    instance: u64,
    pub(crate) link: Link,
    pub(crate) recorder: AuditRecorder,
    pub(crate) background: BackgroundJobs,
    connections: Arc<ConnectionRecorder>,
    pub(crate) workdir: String,
    pub(crate) spec: SandboxSpec,
    info: SandboxInfo,
    limits: Vec<LimitEnforcement>,
    pub(crate) landlock: Option<LandlockStatus>,
    walls: Mutex<Box<dyn RunningWalls>>,
    /// `None` after release.
    disk_limit: Option<DiskLimiter>,
    driver: JoinHandle<()>,
    proxy: JoinHandle<()>,
}

/// How a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxEnd {
    /// Processes that the kernel killed because the memory limit was reached.
    pub memory_kills: u64,
    /// Whether parts of it were still there when the wait timed out.
    pub is_stuck: bool,
}

/// Timeout for ending a sandbox.
const TAKE_DOWN_TIMEOUT: Duration = Duration::from_secs(180);

impl Sandbox {
    /// Starts the walls and the guest behind them, within the time limit of the spec. The rest of
    /// that time is left for the sandbox.
    pub async fn start(spec: SandboxSpec) -> Result<Self, SandboxError> {
        start_progress::within_limit(&spec.clone(), Self::start_without_timeout(spec)).await
    }

    async fn start_without_timeout(spec: SandboxSpec) -> Result<Self, SandboxError> {
        let begun = Instant::now();
        let id = spec.name.clone().unwrap_or_else(new_id);
        let recorder = AuditRecorder::new(&id, spec.audit.clone());
        let (mut raised, mut spec) = backends::start_backend(spec).await?;
        start_progress::step("limit the disk");
        let disk_limit = DiskLimiter::hold(&spec, &mut raised.limits).await;
        raised.info.limits = limits::summaries(&raised.limits);
        raised.info.network = spec.network.open();
        start_progress::step("record the start in the audit log");
        let started = start_record(&spec, &raised.info);
        recorder.record(started).await?;
        let left = |wall: Duration| wall.saturating_sub(begun.elapsed());
        spec.limits.wall = spec.limits.wall.map(left);
        start_progress::step("complete the handshake with the guest");
        Self::greet(id, recorder, raised, spec, disk_limit).await
    }

    /// Takes over running walls and performs the handshake with the guest behind them.
    pub(crate) async fn greet(
        id: String,
        recorder: AuditRecorder,
        raised: StartedBackend,
        spec: SandboxSpec,
        disk_limit: DiskLimiter,
    ) -> Result<Self, SandboxError> {
        let settings = settings(&spec, &raised, &disk_limit);
        let workdir = raised.workdir.to_string_lossy().into_owned();
        let (reader, writer) = raised.link.into_split();
        let limits = LinkLimits::default();
        let (ready, link, incoming, driver): (GuestGreeting, _, _, _) =
            link::connect(reader, writer, LinkRole::Host, limits, &settings)
                .await
                .map_err(SandboxError::Greeting)?;
        info!(sandbox = %id, backend = %raised.info.backend, guest = %guest_release(&ready), "sandbox started");
        let driver = {
            let id = id.clone();
            tokio::spawn(async move {
                let ended = driver.run().await;
                match &*ended {
                    LinkEnd::Closed | LinkEnd::Cut | LinkEnd::Io(_) => {
                        debug!(sandbox = %id, reason = %ended, "link ended");
                    }
                    fault => {
                        let cause = fault.source().map(ToString::to_string);
                        warn!(sandbox = %id, reason = %fault, cause, "link ended by the guest's fault");
                    }
                }
            })
        };
        let connections = Arc::new(ConnectionRecorder::new(recorder.clone()));
        let proxy = tokio::spawn(serve_proxy(incoming, egress(&spec.network, &connections)));
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            id,
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            link,
            recorder,
            background: BackgroundJobs::default(),
            connections,
            workdir,
            spec,
            info: raised.info,
            limits: raised.limits,
            landlock: raised.landlock,
            walls: Mutex::new(raised.walls),
            disk_limit: Some(disk_limit),
            driver,
            proxy,
        })
    }

    /// The name in the audit log: the owner's, or else a unique one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Number of this sandbox in this process. A sandbox that replaces another with the same id has
    /// a higher number.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// What protects it. The network is that of the start.
    pub fn info(&self) -> &SandboxInfo {
        &self.info
    }

    /// Its limits, each with what enforces it.
    pub fn limits(&self) -> &[LimitEnforcement] {
        &self.limits
    }

    /// The root file system. A spec with the host's programs may have been changed to one with an
    /// image.
    pub fn root(&self) -> &RootSpec {
        &self.spec.root
    }

    /// The network that is reachable from inside.
    pub fn network(&self) -> &Network {
        &self.spec.network
    }

    /// Ends every process inside and waits until all parts of the sandbox are gone.
    pub async fn end(mut self) -> SandboxEnd {
        self.link.close();
        let disk_limit = self.disk_limit.take();
        let taken = async {
            let memory_kills = self.walls.lock().await.take_down().await;
            if let Some(disk_limit) = disk_limit {
                disk_limit.release().await;
            }
            memory_kills
        };
        let taken = link::suspend_tolerant_timeout(TAKE_DOWN_TIMEOUT, taken).await;
        let is_stuck = taken.is_err();
        let memory_kills = taken.unwrap_or(0);
        self.proxy.abort();
        if is_stuck {
            let (backend, seconds) = (self.info.backend, TAKE_DOWN_TIMEOUT.as_secs());
            warn!(sandbox = %self.id, %backend, seconds, "cannot take down the walls in time");
        }
        let cause = if is_stuck {
            "ended, but not gone in time"
        } else if memory_kills > 0 {
            "ended, after memory kills"
        } else {
            "ended"
        };
        self.background.end_all().await;
        self.connections.finish();
        let record = AuditRecord::End {
            cause: cause.into(),
        };
        self.recorder.record_past(record).await;
        info!(sandbox = %self.id, memory_kills, "sandbox ended");
        SandboxEnd {
            memory_kills,
            is_stuck,
        }
    }

    /// Processes that the kernel killed for lack of memory so far; 0 if they are not counted.
    pub async fn memory_kills(&self) -> u64 {
        self.walls.lock().await.memory_kills().await
    }

    /// Opens a stream and sends a request.
    pub(crate) async fn request(&self, request: &GuestRequest) -> Result<Stream, SandboxError> {
        let mut stream = self.link.open().ok_or_else(|| match self.link.fault() {
            Some(fault) => SandboxError::Stream(StreamError::Fault(fault)),
            None => SandboxError::Ended,
        })?;
        stream.send(request).await?;
        Ok(stream)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.link.close();
        self.driver.abort();
        self.proxy.abort();
    }
}

fn settings(
    spec: &SandboxSpec,
    raised: &StartedBackend,
    disk_limit: &DiskLimiter,
) -> GuestSettings {
    let mut env = raised.env.clone();
    let proxy_port = match &spec.network {
        Network::Off => None,
        Network::Allow(_) | Network::Gated(_) => {
            let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
                env.push((name.to_owned(), proxy.clone()));
                env.push((name.to_lowercase(), proxy.clone()));
            }
            for name in ["NO_PROXY", "no_proxy"] {
                env.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
            }
            Some(PROXY_PORT)
        }
    };
    env.extend(spec.env.iter().cloned());
    GuestSettings {
        workdir: ByteString::from(&raised.workdir),
        env: env
            .iter()
            .map(|(key, value)| (ByteString::from(key), ByteString::from(value)))
            .collect(),
        deadline: spec.deadline(),
        disk: disk_limit.scanned,
        memory: is_enforced_by_guest(&raised.limits, LimitKind::Memory)
            .then_some(spec.limits.memory),
        is_linux: raised.info.backend != Backend::Gvisor,
        proxy_port,
    }
}

/// The guest's release, limited to printable ASCII. The guest is not trusted.
fn guest_release(ready: &GuestGreeting) -> String {
    let plain = |character: &char| character.is_ascii_graphic();
    ready.release.chars().take_while(plain).take(32).collect()
}

/// Whether the guest enforces a limit.
fn is_enforced_by_guest(limits: &[LimitEnforcement], limit: LimitKind) -> bool {
    let mut limits = limits.iter();
    limits.any(|one| one.limit == limit && one.enforcer == LimitEnforcer::Guest)
}

fn egress(network: &Network, connections: &Arc<ConnectionRecorder>) -> Option<Arc<Egress>> {
    let gate = match network {
        Network::Off => return None,
        Network::Allow(allow) => EgressGate::from(allow.clone()),
        Network::Gated(gate) => gate.clone(),
    };
    let connections = Arc::clone(connections);
    let log = move |connection| connections.add(&connection, Instant::now());
    Some(Arc::new(Egress::new(gate, log)))
}

/// Serves the connections that the guest forwards. With the network off the guest forwards none: a
/// stream that it opens anyway is dropped, which ends it.
async fn serve_proxy(mut incoming: IncomingStreams, egress: Option<Arc<Egress>>) {
    let mut serving = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            stream = incoming.accept() => match (stream, &egress) {
                (Some(stream), Some(egress)) => {
                    serving.spawn(egress::serve(StreamIo::from(stream), egress.clone()));
                }
                (Some(_), None) => {}
                (None, _) => return,
            },
            Some(_) = serving.join_next() => {}
        }
    }
}

fn start_record(spec: &SandboxSpec, info: &SandboxInfo) -> AuditRecord {
    AuditRecord::Start {
        backend: info.backend.name().to_owned(),
        strength: info.backend.strength().name().to_owned(),
        reason: info.reason.clone(),
        walls: info.walls.clone(),
        limits: info.limits.clone(),
        workspace: spec.workspace.display().to_string(),
    }
}

/// Time, process id and a counter make it unique on a machine, and sortable.
fn new_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_millis());
    format!("{now:011x}-{:x}-{number:x}", std::process::id())
}
