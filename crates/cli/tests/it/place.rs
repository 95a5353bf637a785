//! A place to run `hotcell` in: a home, a current folder, and a clean environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A program that takes longer is considered hung. Far longer than any takes.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("here")).unwrap();
        Self { folder }
    }

    /// A place with a workspace.
    pub(crate) fn with_workspace() -> Self {
        let place = Self::new();
        fs::create_dir(place.here("workspace")).unwrap();
        place
    }

    /// A path in the current folder.
    pub(crate) fn here(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join("here").join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// `hotcell` with these arguments.
    pub(crate) fn hotcell<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.program(hotcell());
        command.args(arguments);
        command
    }

    /// Another program in the same place.
    pub(crate) fn program(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.home())
            .current_dir(self.here(""))
            .stdin(Stdio::null());
        command
    }

    /// Runs `hotcell exec`, with these flags and this script for `sh`.
    pub(crate) fn exec(&self, flags: &[&str], script: &str) -> Output {
        let arguments = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
        run(&mut self.hotcell(arguments))
    }

    /// All files here, with their content.
    pub(crate) fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        fn walk(folder: &Path, all: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    walk(&path, all);
                    all.insert(path, None);
                } else {
                    drop(all.insert(path.clone(), fs::read(path).ok()))
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(self.folder.path(), &mut all);
        all
    }
}

/// The program to test.
pub(crate) fn hotcell() -> PathBuf {
    match std::env::var_os("HOTCELL_BIN") {
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_hotcell").into(),
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a command to its end without input.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    feed(command, b"")
}

/// Runs a command to its end with this input.
#[track_caller]
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = start(command.stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It need not read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        finish(child)
    })
}

pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for the end of a program, and kills it if it hangs.
#[track_caller]
pub(crate) fn finish(child: Child) -> Output {
    let pid = Pid::from_raw(child.id() as i32);
    let (done, is_done) = mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let hangs = is_done.recv_timeout(PROGRAM_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout);
        if hangs {
            let _ = kill(pid, Signal::SIGKILL);
        }
        hangs
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!guard.join().unwrap(), "hotcell hangs: {output:?}");
    output
}

/// Waits for a condition that has no event.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PROGRAM_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < give_up, "never came about: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// Host processes with this text in their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(marker)
        })
        .collect()
}

/// The folders where this process may have control groups for memory, processors and processes, whether or
/// not it may create any.
pub(crate) fn group_homes() -> Vec<PathBuf> {
    const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut homes = Vec::new();
    for line in memberships.lines() {
        let fields: Vec<&str> = line.splitn(3, ':').collect();
        let [_, names, path] = fields[..] else {
            continue;
        };
        let mut names = names.split(',').filter(|name| !name.is_empty()).peekable();
        let is_unified = names.peek().is_none();
        let Some(name) = names
            .find(|name| CONTROLLERS.contains(name))
            .or(is_unified.then_some(""))
        else {
            continue;
        };
        for mount in mounts.lines() {
            let Some((before, kind)) = mount.split_once(" - ") else {
                continue;
            };
            let is_it = if is_unified {
                kind.starts_with("cgroup2 ")
            } else {
                kind.starts_with("cgroup ")
                    && kind.ends_with(name) | kind.contains(&format!("{name},"))
            };
            let before: Vec<&str> = before.split(' ').collect();
            let (true, Ok(below)) = (is_it, Path::new(path).strip_prefix(before[3])) else {
                continue;
            };
            let own = Path::new(before[4]).join(below);
            if is_unified {
                // A group with processes cannot delegate controllers; its parent may.
                homes.extend(
                    own.ancestors()
                        .find(|folder| hands_down(folder))
                        .map(Into::into),
                )
            } else {
                homes.push(own)
            }
        }
    }
    homes
}

fn hands_down(folder: &Path) -> bool {
    let controllers = fs::read_to_string(folder.join("cgroup.subtree_control"));
    controllers.is_ok_and(|names| names.contains("memory"))
}

/// The groups there whose name meets a condition.
pub(crate) fn groups(is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let homes = group_homes().into_iter();
    let entries = homes.flat_map(|home| fs::read_dir(home).into_iter().flatten().flatten());
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.starts_with("hotcell-") && is_meant(name))
        })
        .map(|entry| entry.path())
        .collect()
}
