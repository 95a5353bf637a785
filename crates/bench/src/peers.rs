//! The programs that sandboxes are compared with, configured as similarly as possible.
//!
//! Each of them runs `/bin/true` in its own namespaces, with the host's `/usr` read-only, a fresh
//! `/proc`, `/dev` and `/tmp`, and a writable workspace.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use sandbox::{Backend, BackendConfig, SandboxSpec};
use serde_json::json;
use tempfile::TempDir;

use crate::samples::Samples;

/// The program that every command runs.
pub(crate) const TEST_PROGRAM: &str = "/bin/true";

/// Folders and programs that all parts use.
#[derive(Debug)]
pub(crate) struct Bench {
    scratch: TempDir,
    hotcell: PathBuf,
    /// A root file system for virtual machines.
    image: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn prepare(
        hotcell: Option<PathBuf>,
        image: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let beside = std::env::current_exe()?.with_file_name("hotcell");
        let hotcell = hotcell.unwrap_or(beside);
        ensure!(
            hotcell.is_file(),
            "cannot find `{}`\nhint: `make bench` builds it",
            hotcell.display()
        );
        let scratch = TempDir::with_prefix("hotcell-bench-").context("cannot create a folder")?;
        fs::create_dir(scratch.path().join("workspace"))?;
        let root = scratch.path().join("rootfs");
        for folder in [
            "usr",
            "proc",
            "dev",
            "sys",
            "tmp",
            "run",
            "etc",
            "workspace",
        ] {
            fs::create_dir_all(root.join(folder))?;
        }
        for (name, points_to) in host_links() {
            symlink(points_to, root.join(name))?;
        }
        Ok(Self {
            scratch,
            hotcell,
            image,
        })
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.scratch.path().join("workspace")
    }

    fn rootfs(&self) -> PathBuf {
        self.scratch.path().join("rootfs")
    }

    /// The default sandbox on the native backend, without an audit log.
    pub(crate) fn spec(&self) -> SandboxSpec {
        let mut provisions = BackendConfig {
            default_image: self.image.clone(),
            ..BackendConfig::default()
        };
        // Snapshots and disks of images take seconds to make, so they are kept for the next run.
        provisions.cache.set_extension("bench");
        SandboxSpec {
            backend: Backend::Native,
            provisions: Arc::new(provisions),
            ..SandboxSpec::new(self.workspace())
        }
    }

    /// The program that is measured.
    pub(crate) fn program(&self) -> &Path {
        &self.hotcell
    }

    /// `hotcell exec` of a command in the default sandbox.
    pub(crate) fn hotcell(&self, command: &[&str]) -> Command {
        let mut hotcell = Command::new(&self.hotcell);
        hotcell
            .args(["exec", "--backend", "native", "--no-audit", "--workspace"])
            .arg(self.workspace())
            .arg("--")
            .args(command)
            .current_dir(self.scratch.path());
        hotcell
    }
}

/// A program that can run a command in isolation.
#[derive(Debug)]
pub(crate) struct PeerProgram {
    pub(crate) name: &'static str,
    pub(crate) times: Samples,
    /// Why it is not measured.
    pub(crate) missing: Option<String>,
    command: Command,
}

impl PeerProgram {
    fn new(name: &'static str, command: Command) -> Self {
        Self {
            name,
            times: Samples::default(),
            missing: None,
            command,
        }
    }

    /// Runs it and waits for its end.
    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        let output = self.command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = output.stderr(Stdio::null()).status()?;
        ensure!(status.success(), "`{}` ended with {status}", self.name);
        Ok(())
    }

    /// Runs it once and records the reason if it cannot be measured.
    fn probe(mut self) -> Self {
        let needs_root = ["runc", "podman", "podman run", "runsc run"].contains(&self.name);
        if needs_root && !nix::unistd::geteuid().is_root() {
            self.missing = Some("measured as root only".to_owned());
            return self;
        }
        self.missing = match self.command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                Some(text.lines().last().unwrap_or("it failed").to_owned())
            }
            Err(error) => Some(error.to_string()),
        };
        self
    }
}

/// All programs to measure, each tried once.
pub(crate) fn peers(bench: &Bench) -> anyhow::Result<Vec<PeerProgram>> {
    let all = [
        PeerProgram::new("unshare", unshare()),
        PeerProgram::new("bwrap", bwrap(bench)),
        PeerProgram::new("runc", runc(bench)?),
        PeerProgram::new("podman", podman(bench)),
        PeerProgram::new("hotcell exec", bench.hotcell(&[TEST_PROGRAM])),
    ];
    Ok(all.into_iter().map(PeerProgram::probe).collect())
}

fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--user", "--map-root-user", "--mount", "--pid", "--net"])
        .args(["--ipc", "--uts", "--cgroup", "--fork", "--mount-proc"])
        .args(["--kill-child", TEST_PROGRAM]);
    unshare
}

fn bwrap(bench: &Bench) -> Command {
    let mut bwrap = Command::new("bwrap");
    bwrap
        .args(["--unshare-all", "--die-with-parent", "--new-session"])
        .args(["--ro-bind", "/usr", "/usr"]);
    for (name, points_to) in host_links() {
        bwrap
            .arg("--symlink")
            .arg(points_to)
            .arg(Path::new("/").join(name));
    }
    bwrap
        .args([
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind",
        ])
        .arg(bench.workspace())
        .args(["/workspace", "--chdir", "/workspace", TEST_PROGRAM]);
    bwrap
}

fn runc(bench: &Bench) -> anyhow::Result<Command> {
    let bundle = bench.scratch.path();
    let bind = |source: &Path, target: &str, access: &str| {
        json!({
            "destination": target, "type": "bind", "source": source, "options": ["rbind", access]
        })
    };
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let config = json!({
        "ociVersion": "1.0.2",
        "hostname": "bench",
        "root": { "path": bench.rootfs(), "readonly": true },
        "process": {
            "args": [TEST_PROGRAM], "cwd": "/workspace", "env": ["PATH=/usr/bin:/bin"],
            "user": { "uid": 0, "gid": 0 }, "noNewPrivileges": true,
            "capabilities": { "bounding": [], "effective": [], "permitted": [] },
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
              "options": ["nosuid", "mode=755", "size=64k"] },
            { "destination": "/dev/pts", "type": "devpts", "source": "devpts",
              "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"] },
            { "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
              "options": ["nosuid", "nodev"] },
            bind(Path::new("/usr"), "/usr", "ro"),
            bind(&bench.workspace(), "/workspace", "rw"),
        ],
        "linux": {
            "namespaces": namespaces.map(|kind| json!({ "type": kind })),
            "resources": { "memory": { "limit": 2u64 << 30 }, "pids": { "limit": 512 } },
        },
    });
    fs::write(bundle.join("config.json"), config.to_string())?;
    let mut runc = Command::new("runc");
    runc.arg("--root")
        .arg(bundle.join("runc"))
        .args(["run", "--bundle"])
        .arg(bundle)
        .arg(format!("hotcell-bench-{}", std::process::id()));
    Ok(runc)
}

fn podman(bench: &Bench) -> Command {
    let mut podman = podman_run(bench, &["--rm"]);
    podman.arg(TEST_PROGRAM);
    podman
}

/// Podman alone, as in [`peers`].
pub(crate) fn bare_podman(bench: &Bench) -> PeerProgram {
    PeerProgram::new("podman run", podman(bench)).probe()
}

/// Runsc alone, on the bundle of runc.
pub(crate) fn bare_runsc(bench: &Bench) -> anyhow::Result<PeerProgram> {
    runc(bench)?;
    let bundle = bench.scratch.path();
    let mut runsc = Command::new("runsc");
    runsc
        .arg("--root")
        .arg(bundle.join("runsc"))
        .args(["--network=none", "--ignore-cgroups", "run", "--bundle"])
        .arg(bundle)
        .arg(format!("hotcell-bench-{}", std::process::id()));
    Ok(PeerProgram::new("runsc run", runsc).probe())
}

/// An idle podman container to run commands in.
pub(crate) struct BenchContainer {
    name: String,
    folder: PathBuf,
}

impl BenchContainer {
    pub(crate) fn start(bench: &Bench) -> anyhow::Result<Self> {
        let name = format!("hotcell-bench-{}", std::process::id());
        let mut run = podman_run(bench, &["--detach", "--name", &name]);
        let output = run.args(["sleep", "infinity"]).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}",
            text.lines().last().unwrap_or("it failed")
        );
        Ok(Self {
            name,
            folder: bench.scratch.path().to_owned(),
        })
    }

    /// A command that runs in the container.
    pub(crate) fn exec(&self) -> Command {
        let mut podman = podman_program(&self.folder);
        podman
            .args(["exec", &self.name, TEST_PROGRAM])
            .stdin(Stdio::null());
        podman
    }
}

impl Drop for BenchContainer {
    fn drop(&mut self) {
        let mut podman = podman_program(&self.folder);
        let _ = podman
            .args(["rm", "--force", "-t", "0", &self.name])
            .output();
    }
}

fn podman_program(scratch: &Path) -> Command {
    let folder = scratch.join("podman");
    let mut podman = Command::new("podman");
    podman
        .arg("--root")
        .arg(folder.join("root"))
        .arg("--runroot")
        .arg(folder.join("run"))
        .args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"])
        .args(["--events-backend", "file", "--runtime", "runc"]);
    podman
}

fn podman_run(bench: &Bench, how: &[&str]) -> Command {
    let volume = |source: &Path, target: &str| {
        let mut text = OsString::from(source);
        text.push(":");
        text.push(target);
        text
    };
    let mut podman = podman_program(bench.scratch.path());
    podman
        .arg("run")
        .args(how)
        .args(["--read-only", "--network", "none"])
        // Podman's defaults fail on hosts that do not permit raising limits.
        .args([
            "--ulimit",
            "nofile=1024:20000",
            "--ulimit",
            "nproc=4096:4096",
        ])
        .arg("--volume")
        .arg(volume(Path::new("/usr"), "/usr:ro"))
        .arg("--volume")
        .arg(volume(&bench.workspace(), "/workspace"))
        .arg("--rootfs")
        .arg(bench.rootfs());
    podman
}

/// Symlinks such as `bin -> usr/bin`, as on this host.
fn host_links() -> Vec<(&'static str, PathBuf)> {
    ["bin", "sbin", "lib", "lib32", "lib64", "libx32"]
        .into_iter()
        .filter_map(|name| {
            let points_to = fs::read_link(Path::new("/").join(name)).ok()?;
            Some((name, points_to))
        })
        .collect()
}
