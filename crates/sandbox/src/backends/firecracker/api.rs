//! Firecracker's API: HTTP over a unix socket, with one typed request for each operation.
//!
//! This file has every request that is sent to a machine: there is no network interface, no
//! metadata service, no logger. Refusals are reported with Firecracker's own message on one line.
//! Entry type: [`FirecrackerApi`].

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};

use super::shared_dir::SharedDir;

/// Name of the socket in the shared folder.
pub(super) const API_SOCKET: &str = "api.sock";

/// Timeout of a request. Taking a snapshot writes the machine's memory to disk; everything else
/// takes milliseconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Limit of an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("cannot reach Firecracker's API")]
    Reach(#[source] io::Error),
    #[error("cannot talk to Firecracker's API")]
    Talk(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("Firecracker refuses `{request}`: {fault}")]
    Refused { request: String, fault: String },
    #[error("cannot understand Firecracker's answer to `{request}`")]
    Answer {
        request: String,
        source: serde_json::Error,
    },
    #[error("Firecracker did not answer `{0}` in time")]
    Silent(String),
}

impl ApiError {
    /// Whether Firecracker itself refused, as it does for a snapshot of another release.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct MachineConfig {
    pub(super) vcpu_count: usize,
    pub(super) mem_size_mib: u64,
    pub(super) smt: bool,
    pub(super) track_dirty_pages: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct BootSource {
    pub(super) kernel_image_path: String,
    pub(super) initrd_path: String,
    pub(super) boot_args: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Drive {
    pub(super) drive_id: String,
    pub(super) path_on_host: String,
    pub(super) is_root_device: bool,
    pub(super) is_read_only: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Vsock {
    pub(super) guest_cid: u32,
    pub(super) uds_path: String,
}

/// Enables the entropy device.
#[derive(Debug, Serialize)]
struct EntropyBody {}

#[derive(Debug, Serialize)]
struct ActionBody {
    action_type: &'static str,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) enum VmState {
    Paused,
    Resumed,
}

#[derive(Debug, Serialize)]
struct VmStateBody {
    state: VmState,
}

/// The two files of a snapshot, with paths as Firecracker sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnapshotFiles<'a> {
    pub(super) state: &'a str,
    pub(super) memory: &'a str,
}

#[derive(Debug, Serialize)]
struct SnapshotCreate<'a> {
    snapshot_type: &'static str,
    snapshot_path: &'a str,
    mem_file_path: &'a str,
}

#[derive(Debug, Serialize)]
struct SnapshotLoad<'a> {
    snapshot_path: &'a str,
    mem_backend: MemoryBackend<'a>,
    resume_vm: bool,
}

#[derive(Debug, Serialize)]
struct MemoryBackend<'a> {
    backend_type: &'static str,
    backend_path: &'a str,
}

/// Firecracker's description of itself.
#[derive(Debug, Deserialize)]
pub(super) struct InstanceInfo {
    pub(super) state: String,
    pub(super) vmm_version: String,
}

#[derive(Debug, Deserialize)]
struct FaultBody {
    fault_message: String,
}

/// The API of one Firecracker process, over the socket in the shared folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirecrackerApi<'a> {
    room: &'a SharedDir,
}

impl<'a> FirecrackerApi<'a> {
    pub(super) fn new(room: &'a SharedDir) -> Self {
        Self { room }
    }

    pub(super) async fn instance(&self) -> Result<InstanceInfo, ApiError> {
        let request = "GET /".to_owned();
        let answer = self.send(Method::GET, "/", None).await?;
        serde_json::from_slice(&answer).map_err(|source| ApiError::Answer { request, source })
    }

    pub(super) async fn machine_config(&self, config: &MachineConfig) -> Result<(), ApiError> {
        self.put("/machine-config", config).await
    }

    pub(super) async fn boot_source(&self, source: &BootSource) -> Result<(), ApiError> {
        self.put("/boot-source", source).await
    }

    pub(super) async fn drive(&self, drive: &Drive) -> Result<(), ApiError> {
        self.put(&format!("/drives/{}", drive.drive_id), drive)
            .await
    }

    pub(super) async fn vsock(&self, vsock: &Vsock) -> Result<(), ApiError> {
        self.put("/vsock", vsock).await
    }

    pub(super) async fn entropy(&self) -> Result<(), ApiError> {
        self.put("/entropy", &EntropyBody {}).await
    }

    pub(super) async fn start(&self) -> Result<(), ApiError> {
        let action_type = "InstanceStart";
        self.put("/actions", &ActionBody { action_type }).await
    }

    pub(super) async fn set(&self, state: VmState) -> Result<(), ApiError> {
        let body = encode(&VmStateBody { state });
        self.send(Method::PATCH, "/vm", Some(body)).await.map(drop)
    }

    pub(super) async fn create_snapshot(&self, files: SnapshotFiles<'_>) -> Result<(), ApiError> {
        let create = SnapshotCreate {
            snapshot_type: "Full",
            snapshot_path: files.state,
            mem_file_path: files.memory,
        };
        self.put("/snapshot/create", &create).await
    }

    /// Loads a snapshot and resumes the machine at once. The memory is mapped copy-on-write.
    pub(super) async fn load_snapshot(&self, files: SnapshotFiles<'_>) -> Result<(), ApiError> {
        let load = SnapshotLoad {
            snapshot_path: files.state,
            mem_backend: MemoryBackend {
                backend_type: "File",
                backend_path: files.memory,
            },
            resume_vm: true,
        };
        self.put("/snapshot/load", &load).await
    }

    async fn put(&self, path: &str, body: &impl Serialize) -> Result<(), ApiError> {
        let body = encode(body);
        self.send(Method::PUT, path, Some(body)).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Bytes, ApiError> {
        let request = format!("{method} {path}");
        let exchange = self.exchange(method, path, body.unwrap_or_default());
        let answered = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await;
        let (status, answer) = answered.map_err(|_| ApiError::Silent(request.clone()))??;
        if status.is_success() {
            Ok(answer)
        } else {
            Err(ApiError::Refused {
                fault: fault(status, &answer),
                request,
            })
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ApiError> {
        let talk = |error: hyper::Error| ApiError::Talk(error.into());
        let socket = self
            .room
            .connect(API_SOCKET)
            .await
            .map_err(ApiError::Reach)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(talk)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Host", "localhost")
            .header("Accept", "application/json")
            .header("Content-Type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("a constant path is a valid URI");
        // The connection is driven here, so it always ends with the exchange.
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(talk)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
            let body = body.collect().await.map_err(ApiError::Talk)?;
            Ok((status, body.to_bytes()))
        };
        tokio::pin!(connection, exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            ended = &mut connection => {
                ended.map_err(talk)?;
                exchange.await
            }
        }
    }
}

fn encode(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain structs serialize to JSON")
}

/// Firecracker's message, or else the status code.
fn fault(status: StatusCode, answer: &[u8]) -> String {
    let words = match serde_json::from_slice::<FaultBody>(answer) {
        Ok(fault) => fault.fault_message,
        Err(_) => status.to_string(),
    };
    let words: Vec<&str> = words.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}
