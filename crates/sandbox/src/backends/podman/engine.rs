//! The `podman` program of this machine: its path, its required options, and its calls.
//! Decides nothing about containers. Entry point: [`PodmanEngine::find`].

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{Uid, User};
use tokio::sync::oneshot;
use walls::plan;
use walls::staging::StagingPlan;

use super::super::child::wait_or_kill;
use super::super::container::cgroup_limits::pids;
use super::super::native::is_initial_user_namespace;
use super::{BACKEND, PodmanRun};
use crate::backend_config::{BackendConfig, PROGRAM_SEARCH_PATH, find_program};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::SandboxLimits;

/// Timeout of one Podman call while a container is taken down.
pub(super) const PODMAN_TIMEOUT: Duration = Duration::from_secs(60);

/// Podman with the options that it needs here.
#[derive(Debug, Clone)]
pub(super) struct PodmanEngine {
    program: PathBuf,
    /// Options before the subcommand.
    pub(super) globals: Vec<String>,
    runtime: Option<String>,
    /// Whether this is the machine's root, whose containers can have their own users.
    pub(super) is_rootful: bool,
}

/// The facts that Podman's options depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PodmanFacts {
    has_systemd: bool,
    /// Controllers on version 1 with version 2 mounted too, which `crun` refuses.
    is_hybrid: bool,
    has_runc: bool,
}

impl PodmanFacts {
    fn look() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let has = |kind: &str| mounts.contains(&format!(" - {kind} "));
        Self {
            has_systemd: Path::new("/run/systemd/system").is_dir(),
            is_hybrid: has("cgroup") && has("cgroup2"),
            has_runc: find_program(Path::new("runc")).is_some(),
        }
    }

    /// The runtime to pass: the configured one, or `runc` if Podman's default cannot work.
    fn runtime(self, set: Option<&str>) -> Option<String> {
        match set {
            Some(set) => Some(set.into()),
            None => (self.is_hybrid && self.has_runc).then(|| "runc".into()),
        }
    }

    fn globals(self, runtime: Option<&str>) -> Vec<String> {
        let mut all = vec!["--events-backend=none".to_owned()];
        if !self.has_systemd {
            all.push("--cgroup-manager=cgroupfs".into());
        }
        all.extend(runtime.map(|name| format!("--runtime={name}")));
        all
    }
}

impl PodmanEngine {
    pub(super) fn find(provisions: &BackendConfig) -> Result<Self, SandboxError> {
        let containers = &provisions.containers;
        let program =
            find_program(&containers.podman).ok_or_else(|| SandboxError::Unavailable {
                backend: BACKEND,
                reason: format!("`{}` is not installed", containers.podman.display()),
                advice: Some("`apt install podman`".into()),
            })?;
        let facts = PodmanFacts::look();
        let runtime = facts.runtime(containers.podman_runtime.as_deref());
        Ok(Self {
            program,
            globals: facts.globals(runtime.as_deref()),
            runtime,
            is_rootful: Uid::effective().is_root() && is_initial_user_namespace(),
        })
    }

    pub(super) fn runtime_name(&self) -> &str {
        self.runtime.as_deref().unwrap_or("its own runtime")
    }

    /// Starts `podman` with these arguments; its output arrives when it ends. The guest program
    /// makes the mounts that are needed before: for root directly, for other users inside their
    /// Podman user namespace.
    pub(super) fn start(
        &self,
        arguments: &[String],
        staging: Option<&StagingPlan>,
        guest: &Path,
    ) -> io::Result<PodmanRun> {
        let mut command = match (staging, self.is_rootful) {
            (Some(_), true) => {
                let mut command = guest_program::command("stage")?;
                command.arg(&self.program);
                command
            }
            (Some(_), false) => {
                let mut command = Command::new(&self.program);
                command.args(&self.globals).arg("unshare");
                command.arg(guest).arg("stage").arg(&self.program);
                command
            }
            (None, _) => Command::new(&self.program),
        };
        command.stdin(match staging {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        self.set_environment(&mut command);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let (Some(staging), Some(input)) = (staging, child.stdin.take()) {
            plan::send(input, staging)?;
        }
        let pid = child.id() as i32;
        let (sender, ended) = oneshot::channel();
        std::thread::spawn(move || {
            if let Ok(output) = child.wait_with_output() {
                let _ = sender.send(output);
            }
        });
        Ok(PodmanRun { pid, ended })
    }

    /// Removes containers, running or not. Ignores those that are gone already.
    pub(super) fn remove(&self, names: &[String]) {
        let remove = ["rm", "--force", "--ignore", "--time=0"];
        self.call(remove.into_iter().chain(names.iter().map(String::as_str)));
    }

    /// Waits until a container has ended, at most as long as a start may take.
    pub(super) fn wait(&self, name: &str) {
        self.call_with_timeout(Duration::from_secs(900), ["wait", name]);
    }

    fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) {
        self.call_with_timeout(PODMAN_TIMEOUT, arguments);
    }

    fn call_with_timeout<'a>(&self, limit: Duration, arguments: impl IntoIterator<Item = &'a str>) {
        let mut command = Command::new(&self.program);
        self.set_environment(&mut command);
        let quiet = command
            .args(&self.globals)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match quiet.spawn() {
            Ok(mut podman) => {
                if !wait_or_kill(&mut podman, limit) {
                    tracing::warn!("podman cannot be killed");
                }
            }
            Err(error) => tracing::debug!(%error, "podman cannot be started"),
        }
    }

    /// Sets the environment that the program needs, without the caller's own. Its own process group
    /// keeps terminal signals away from it.
    fn set_environment(&self, command: &mut Command) {
        let user = Uid::effective();
        let home = User::from_uid(user).ok().flatten().map(|user| user.dir);
        command
            .env_clear()
            .env("PATH", PROGRAM_SEARCH_PATH)
            .env("HOME", home.unwrap_or_else(|| "/".into()))
            .current_dir("/")
            .process_group(0);
        let runtime = PathBuf::from(format!("/run/user/{user}"));
        if !self.is_rootful && runtime.is_dir() {
            command.env("XDG_RUNTIME_DIR", runtime);
        }
    }

    /// The fix for an error message of Podman, if known.
    pub(super) fn advise(&self, said: &str) -> Option<String> {
        let runtime = self.runtime.as_deref().unwrap_or("crun");
        let known = [
            ("newuidmap", "`apt install uidmap`".to_owned()),
            (
                "subuid",
                "`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`".into(),
            ),
            (
                "hybrid mode",
                "`apt install runc`, or name it as the Podman runtime".into(),
            ),
            (
                "executable file not found",
                format!("`apt install {runtime}`"),
            ),
            (
                "/dev/kvm",
                "run where there is KVM, or name another Podman runtime".into(),
            ),
        ];
        let found = known.into_iter().find(|(part, _)| said.contains(part));
        found.map(|(_, advice)| advice)
    }
}

/// Limit of processes for a container's user, in addition to its cgroup: generous, but no more than
/// this user may set.
pub(super) fn max_processes(limits: &SandboxLimits) -> u64 {
    const DEFAULT_MAX_PROCESSES: u64 = 4096;
    let own = getrlimit(Resource::RLIMIT_NPROC).map_or(DEFAULT_MAX_PROCESSES, |(_, hard)| hard);
    DEFAULT_MAX_PROCESSES.max(u64::from(pids(limits))).min(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_is_called_as_the_machine_needs_it() {
        let check = |facts: (bool, bool, bool), set: Option<&str>, expect: &[&str]| {
            let facts = PodmanFacts {
                has_systemd: facts.0,
                is_hybrid: facts.1,
                has_runc: facts.2,
            };
            let globals = facts.globals(facts.runtime(set).as_deref());
            assert_eq!(globals[0], "--events-backend=none");
            assert_eq!(globals[1..], *expect, "{facts:?}");
        };
        check((true, false, true), None, &[]);
        check((false, false, true), None, &["--cgroup-manager=cgroupfs"]);
        check((true, true, true), None, &["--runtime=runc"]);
        check((true, true, false), None, &[]);
        check((true, true, true), Some("krun"), &["--runtime=krun"]);
        check(
            (false, true, true),
            None,
            &["--cgroup-manager=cgroupfs", "--runtime=runc"],
        );
    }
}
