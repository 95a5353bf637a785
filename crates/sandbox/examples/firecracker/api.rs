//! The API as published: which requests are valid, and in which state.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::rc::Rc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::UnixListener;

use crate::Behaviour;
use crate::vsock;

/// The state of a machine, in the API's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MachineState {
    NotStarted,
    Running,
    Paused,
}

impl MachineState {
    fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "Not started",
            Self::Running => "Running",
            Self::Paused => "Paused",
        }
    }
}

struct Machine {
    manner: Behaviour,
    root: PathBuf,
    state: MachineState,
    /// Every part that was configured.
    parts: Map<String, Value>,
}

type ApiResult = Result<Option<Value>, String>;

pub(crate) async fn serve(manner: Behaviour, root: &Path, socket: &Path) -> Result<(), String> {
    let listener = UnixListener::bind(socket).map_err(|error| error.to_string())?;
    let machine = Rc::new(RefCell::new(Machine {
        manner,
        root: root.to_owned(),
        state: MachineState::NotStarted,
        parts: Map::new(),
    }));
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let machine = machine.clone();
                tokio::task::spawn_local(async move {
                    let service = service_fn(|request| answer(machine.clone(), request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                });
            }
        })
        .await;
    Ok(())
}

async fn answer(
    machine: Rc<RefCell<Machine>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path().to_owned();
    let outcome = machine.borrow_mut().handle(&head.method, &path, &body);
    let is_fatal = outcome.is_err() && path == "/snapshot/load";
    let (status, body) = match outcome {
        Ok(Some(value)) => (StatusCode::OK, value.to_string()),
        Ok(None) => (StatusCode::NO_CONTENT, String::new()),
        Err(fault) => (
            StatusCode::BAD_REQUEST,
            json!({ "fault_message": fault }).to_string(),
        ),
    };
    if is_fatal {
        // As documented, its state may be invalid then. The answer is sent first.
        tokio::task::spawn_local(async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            exit(148);
        });
    }
    let response = Response::builder().status(status);
    let response = response.header("Content-Type", "application/json");
    Ok(response
        .body(Full::new(body.into()))
        .expect("a constant response is valid"))
}

impl Machine {
    fn handle(&mut self, method: &Method, path: &str, body: &[u8]) -> ApiResult {
        let is_get = method == Method::GET;
        let body = match (is_get, serde_json::from_slice(body)) {
            (true, _) if body.is_empty() => Map::new(),
            (true, _) => return Err("GET requests have no body".into()),
            (false, Ok(Value::Object(body))) => body,
            (false, Ok(_)) => return Err("the body is no object".into()),
            (false, Err(error)) => return Err(format!("invalid JSON: {error}")),
        };
        match (method.as_str(), path) {
            ("GET", "/") => Ok(Some(json!({
                "app_name": "Firecracker",
                "id": "stand-in",
                "state": self.state.name(),
                "vmm_version": "1.13.1",
            }))),
            ("GET", "/version") => Ok(Some(json!({ "firecracker_version": "1.13.1" }))),
            ("PUT", "/machine-config") => self.machine_config(body),
            ("PUT", "/boot-source") => self.boot_source(body),
            ("PUT", "/vsock") => self.vsock(body),
            ("PUT", "/entropy") => self.entropy(body),
            ("PUT", "/actions") => self.action(&body),
            ("PATCH", "/vm") => self.change(&body),
            ("PUT", "/snapshot/create") => self.create_snapshot(&body),
            ("PUT", "/snapshot/load") => self.load_snapshot(&body),
            ("PUT", path) if path.starts_with("/drives/") => self.drive(path, body),
            _ => Err(format!(
                "Invalid request method and/or path: {method} {path}."
            )),
        }
    }

    fn only_before_boot(&self) -> Result<(), String> {
        if self.manner == Behaviour::Full {
            return Err(
                "The memory size (MiB) is invalid,\n  or smaller than that of the balloon.".into(),
            );
        }
        match self.state {
            MachineState::NotStarted => Ok(()),
            _ => Err("The requested operation is not supported after starting the microVM.".into()),
        }
    }

    fn only_after_boot(&self) -> Result<(), String> {
        match self.state {
            MachineState::NotStarted => {
                Err("The requested operation is not supported before starting the microVM.".into())
            }
            _ => Ok(()),
        }
    }

    fn machine_config(&mut self, body: Map<String, Value>) -> ApiResult {
        self.only_before_boot()?;
        check(
            &body,
            &[
                ("vcpu_count", FieldKind::Number),
                ("mem_size_mib", FieldKind::Number),
            ],
            &[
                ("smt", FieldKind::Boolean),
                ("track_dirty_pages", FieldKind::Boolean),
            ],
        )?;
        let processors = number(&body, "vcpu_count");
        if !(1..=32).contains(&processors) {
            return Err("The vCPU number is invalid!".into());
        }
        if number(&body, "mem_size_mib") == 0 {
            return Err("The memory size (MiB) is invalid.".into());
        }
        self.keep("machine-config", body)
    }

    fn boot_source(&mut self, body: Map<String, Value>) -> ApiResult {
        self.only_before_boot()?;
        check(
            &body,
            &[("kernel_image_path", FieldKind::Text)],
            &[
                ("initrd_path", FieldKind::Text),
                ("boot_args", FieldKind::Text),
            ],
        )?;
        let mut magic = [0; 4];
        let mut kernel = self.open(&body, "kernel_image_path")?;
        kernel
            .read_exact(&mut magic)
            .map_err(|_| "the kernel is too short")?;
        if magic != *b"\x7fELF" {
            return Err("Kernel Loader: failed to load ELF kernel image".into());
        }
        self.open(&body, "initrd_path")?;
        self.keep("boot-source", body)
    }

    fn drive(&mut self, path: &str, body: Map<String, Value>) -> ApiResult {
        self.only_before_boot()?;
        check(
            &body,
            &[
                ("drive_id", FieldKind::Text),
                ("is_root_device", FieldKind::Boolean),
                ("path_on_host", FieldKind::Text),
                ("is_read_only", FieldKind::Boolean),
            ],
            &[
                ("cache_type", FieldKind::Text),
                ("io_engine", FieldKind::Text),
            ],
        )?;
        if path.strip_prefix("/drives/") != Some(text(&body, "drive_id")) {
            return Err("The id from the path does not match the id from the body!".into());
        }
        self.open(&body, "path_on_host")?;
        self.keep("drive", body)
    }

    fn vsock(&mut self, body: Map<String, Value>) -> ApiResult {
        self.only_before_boot()?;
        check(
            &body,
            &[
                ("guest_cid", FieldKind::Number),
                ("uds_path", FieldKind::Text),
            ],
            &[("vsock_id", FieldKind::Text)],
        )?;
        if number(&body, "guest_cid") < 3 {
            return Err("the CID is reserved".into());
        }
        self.keep("vsock", body)
    }

    fn entropy(&mut self, body: Map<String, Value>) -> ApiResult {
        self.only_before_boot()?;
        check(&body, &[], &[])?;
        self.keep("entropy", body)
    }

    fn action(&mut self, body: &Map<String, Value>) -> ApiResult {
        check(body, &[("action_type", FieldKind::Text)], &[])?;
        if text(body, "action_type") != "InstanceStart" {
            return Err("unknown action".into());
        }
        self.only_before_boot()?;
        if !self.parts.contains_key("boot-source") {
            return Err("Cannot start microvm without kernel configuration.".into());
        }
        self.state = MachineState::Running;
        self.listen()?;
        vsock::announce(self.device());
        Ok(None)
    }

    fn change(&mut self, body: &Map<String, Value>) -> ApiResult {
        check(body, &[("state", FieldKind::Text)], &[])?;
        self.only_after_boot()?;
        self.state = match text(body, "state") {
            "Paused" => MachineState::Paused,
            "Resumed" => MachineState::Running,
            other => return Err(format!("unknown state `{other}`")),
        };
        Ok(None)
    }

    /// The state file has the configuration; the memory file has the right length and is empty.
    fn create_snapshot(&mut self, body: &Map<String, Value>) -> ApiResult {
        check(
            body,
            &[
                ("snapshot_path", FieldKind::Text),
                ("mem_file_path", FieldKind::Text),
            ],
            &[("snapshot_type", FieldKind::Text)],
        )?;
        self.only_after_boot()?;
        if self.state != MachineState::Paused {
            return Err(
                "Cannot save the microVM state: save/restore unavailable while running".into(),
            );
        }
        let words = |error: std::io::Error| error.to_string();
        let config = &self.parts["machine-config"];
        let bytes = config["mem_size_mib"].as_u64().unwrap_or(0) << 20;
        let mut writing = OpenOptions::new();
        writing.create(true).truncate(true).write(true);
        let memory = writing
            .open(self.path(body, "mem_file_path"))
            .map_err(words)?;
        memory.set_len(bytes).map_err(words)?;
        let mut state = writing
            .open(self.path(body, "snapshot_path"))
            .map_err(words)?;
        let parts = Value::Object(self.parts.clone()).to_string();
        state.write_all(parts.as_bytes()).map_err(words)?;
        Ok(None)
    }

    fn load_snapshot(&mut self, body: &Map<String, Value>) -> ApiResult {
        check(
            body,
            &[("snapshot_path", FieldKind::Text)],
            &[
                ("mem_backend", FieldKind::Object),
                ("resume_vm", FieldKind::Boolean),
                ("track_dirty_pages", FieldKind::Boolean),
            ],
        )?;
        if self.state != MachineState::NotStarted || !self.parts.is_empty() {
            return Err(
                "Loading a microVM snapshot not allowed after configuring boot-specific resources."
                    .into(),
            );
        }
        let Some(backend) = body.get("mem_backend").and_then(Value::as_object) else {
            return Err("either `mem_file_path` or `mem_backend` is needed".into());
        };
        check(
            backend,
            &[
                ("backend_type", FieldKind::Text),
                ("backend_path", FieldKind::Text),
            ],
            &[],
        )?;
        if text(backend, "backend_type") != "File" {
            return Err("unknown memory backend".into());
        }
        if self.manner == Behaviour::Stale {
            return Err("Load snapshot error: Failed to restore from snapshot: Snapshot file version mismatch".into());
        }
        let mut state = String::new();
        let mut file = self.open(body, "snapshot_path")?;
        file.read_to_string(&mut state)
            .map_err(|error| error.to_string())?;
        let state: Value = serde_json::from_str(&state).map_err(|error| error.to_string())?;
        let memory = self.open(backend, "backend_path")?;
        let length = memory.metadata().map_err(|error| error.to_string())?.len();
        let expect = state["machine-config"]["mem_size_mib"]
            .as_u64()
            .unwrap_or(0)
            << 20;
        if length != expect {
            return Err("the memory has another size".into());
        }
        // Files that the snapshot names by path must exist again.
        let disk = state["drive"].as_object().cloned().unwrap_or_default();
        self.open(&disk, "path_on_host")?;
        self.parts = state.as_object().cloned().unwrap_or_default();
        self.state = match body.get("resume_vm") {
            Some(Value::Bool(true)) => MachineState::Running,
            _ => MachineState::Paused,
        };
        self.listen()?;
        Ok(None)
    }

    fn keep(&mut self, name: &str, body: Map<String, Value>) -> ApiResult {
        self.parts.insert(name.to_owned(), Value::Object(body));
        Ok(None)
    }

    /// The device's socket, made when the machine starts.
    fn listen(&self) -> Result<(), String> {
        vsock::listen(self.device(), self.manner == Behaviour::Deaf)
            .map_err(|error| error.to_string())
    }

    fn device(&self) -> PathBuf {
        let path = self.parts["vsock"]["uds_path"].as_str().unwrap_or_default();
        self.root.join(path.trim_start_matches('/'))
    }

    fn path(&self, body: &Map<String, Value>, name: &str) -> PathBuf {
        self.root.join(text(body, name).trim_start_matches('/'))
    }

    /// With the rights of the user that it runs as.
    fn open(&self, body: &Map<String, Value>, name: &str) -> Result<File, String> {
        let path = self.path(body, name);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Err(format!("{}: a symlink", path.display()));
        }
        File::open(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Text,
    Number,
    Boolean,
    Object,
}

/// Required fields, optional fields, and no others.
fn check(
    body: &Map<String, Value>,
    required: &[(&str, FieldKind)],
    optional: &[(&str, FieldKind)],
) -> Result<(), String> {
    for (name, _) in required {
        if !body.contains_key(*name) {
            return Err(format!("missing field `{name}`"));
        }
    }
    for (name, value) in body {
        let known = required.iter().chain(optional).find(|(one, _)| one == name);
        let Some((_, kind)) = known else {
            return Err(format!("unknown field `{name}`"));
        };
        let is_right = match kind {
            FieldKind::Text => value.is_string(),
            FieldKind::Number => value.is_u64(),
            FieldKind::Boolean => value.is_boolean(),
            FieldKind::Object => value.is_object(),
        };
        if !is_right {
            return Err(format!("invalid type of `{name}`"));
        }
    }
    Ok(())
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(body: &Map<String, Value>, name: &str) -> u64 {
    body.get(name).and_then(Value::as_u64).unwrap_or_default()
}
