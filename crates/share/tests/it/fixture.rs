//! Test fixture: a folder, the server for it, and the mount.

use std::any::type_name;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::geteuid;
use tempfile::TempDir;

/// Set if the test already runs in its own namespace.
const ISOLATED_ENV: &str = "SHARE_TEST_IS_ALONE";

/// Runs a test in its own process and mount namespace, where it may mount.
pub(crate) fn run_isolated<F: FnOnce()>(test: F) {
    if env::var_os(ISOLATED_ENV).is_some() {
        return test();
    }
    let name = type_name::<F>();
    let name = name.strip_suffix("::{{closure}}").unwrap();
    let (_, name) = name.split_once("::").unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let run = command
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(ISOLATED_ENV, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    let is_passed = run.status.success() && said.contains("1 passed");
    assert!(is_passed, "{name}: {}\n{said}\n{errors}", run.status);
}

/// How the server runs.
#[derive(Default)]
pub(crate) struct ServerSetup {
    /// Limit of open descriptors.
    pub(crate) descriptors: Option<u32>,
    /// Puts the folder on tmpfs, for tests with many files.
    pub(crate) is_in_memory: bool,
}

pub(crate) struct ShareFixture {
    home: TempDir,
    server: Child,
    mounting: Child,
    is_in_memory: bool,
}

impl ShareFixture {
    pub(crate) fn new() -> Self {
        Self::with(ServerSetup::default())
    }

    pub(crate) fn with(setup: ServerSetup) -> Self {
        let home = tempfile::tempdir().unwrap();
        if setup.is_in_memory {
            let flags = MountFlags::empty();
            mount("memory", home.path(), "tmpfs", flags, None).unwrap();
        }
        for name in ["folder", "mount"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        let (inside, outside) = UnixStream::pair().unwrap();
        let server = start_server(&home.path().join("folder"), outside.into(), &setup);
        let mounting = start_mount(&home.path().join("mount"), inside.into());
        Self {
            home,
            server,
            mounting,
            is_in_memory: setup.is_in_memory,
        }
    }

    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Path as seen by programs in the machine.
    pub(crate) fn inside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.home.path().join("mount").join(name)
    }

    /// Path as seen by the host.
    pub(crate) fn outside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.home.path().join("folder").join(name)
    }

    /// Path outside of the folder and the mount.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Kills the server.
    pub(crate) fn kill_server(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

impl Drop for ShareFixture {
    fn drop(&mut self) {
        // Lazily: a failed test may still have files open.
        let _ = unmount(self.inside(""), UnmountFlags::DETACH);
        if std::thread::panicking() {
            let _ = self.mounting.kill();
        }
        let ended = (self.mounting.wait().unwrap(), self.server.wait().unwrap());
        if self.is_in_memory {
            let _ = unmount(self.home.path(), UnmountFlags::DETACH);
        }
        if !std::thread::panicking() {
            assert!(ended.0.success(), "inside: {}", ended.0);
            // The test may have killed the server.
            let is_killed = ended.1.signal() == Some(9);
            assert!(ended.1.success() || is_killed, "outside: {}", ended.1);
        }
    }
}

/// A command that is killed when this process ends.
fn child_killed_with_parent() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    command
}

/// The server has the rights of its user and no capabilities, as in production.
pub(crate) fn start_server(folder: &Path, channel: OwnedFd, setup: &ServerSetup) -> Child {
    let mut command = child_killed_with_parent();
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    if let Some(descriptors) = setup.descriptors {
        command.args(["prlimit", &format!("--nofile={descriptors}")]);
    }
    command
        .arg(program())
        .arg("serve")
        .arg(folder)
        .stdin(channel)
        .spawn()
        .unwrap()
}

/// In another process than the one that uses the mount: a process that waits for its own mount cannot
/// be killed.
fn start_mount(target: &Path, channel: OwnedFd) -> Child {
    let mut mount = child_killed_with_parent()
        .arg(program())
        .arg("mount")
        .arg(target)
        .stdin(channel)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(mount.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "mounted\n");
    mount
}

fn program() -> PathBuf {
    let test = env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let program = profile.join("examples/end");
    assert!(program.exists(), "build the examples of `share`");
    program
}

/// All visible properties of a file, except inode numbers and most timestamps.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct FileSnapshot {
    kind: &'static str,
    mode: u32,
    links: u64,
    owner: (u32, u32),
    /// Content, or the target of a symlink.
    content: Vec<u8>,
    modified: Option<(i64, i64)>,
}

/// Everything below a folder, by its path.
pub(crate) fn snapshot_tree(root: &Path) -> BTreeMap<PathBuf, FileSnapshot> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![PathBuf::new()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            let metadata = fs::symlink_metadata(root.join(&path)).unwrap();
            if metadata.is_dir() {
                ahead.push(path.clone());
            }
            found.insert(path.clone(), snapshot_file(&root.join(&path), &metadata));
        }
    }
    found
}

fn snapshot_file(path: &Path, metadata: &fs::Metadata) -> FileSnapshot {
    let kind = metadata.file_type();
    let (kind, content) = if kind.is_dir() {
        ("folder", Vec::new())
    } else if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        ("symlink", target.into_os_string().into_encoded_bytes())
    } else if kind.is_fifo() {
        ("fifo", Vec::new())
    } else if kind.is_socket() {
        ("socket", Vec::new())
    } else {
        // The file may be unreadable: the server has no capabilities either.
        ("file", fs::read(path).unwrap_or_default())
    };
    // Compare only timestamps that a test has set, which are old.
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    FileSnapshot {
        kind,
        mode: metadata.mode() & 0o7777,
        links: metadata.nlink(),
        owner: (metadata.uid(), metadata.gid()),
        content,
        modified: (modified.0 < 1_500_000_000).then_some(modified),
    }
}
