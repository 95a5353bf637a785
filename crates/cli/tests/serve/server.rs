//! A data folder, and the servers that use it one after the other.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::ModelServer;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::client::Client;
use crate::place::{Place, hotcell};

/// Bytes of the servers' output shown when a test fails.
const MAX_SHOWN_STDERR_BYTES: usize = 16 << 10;

/// A place with a data folder. Prints the output of its servers when the test fails.
pub(crate) struct Site {
    place: Place,
    flags: Vec<String>,
    variables: Vec<(String, OsString)>,
    /// Size of the data folder's own file system in megabytes, if it has one.
    disk: Option<u32>,
    /// A process whose namespaces contain a data file system that outlives servers.
    mounted: Option<std::process::Child>,
    /// The server's limit of open files, if it is set.
    open_files: Option<u32>,
}

/// A running server. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    client: Client,
    data: PathBuf,
}

impl Site {
    /// For servers that use this model.
    pub(crate) fn new(model: &ModelServer) -> Self {
        Self::bare()
            .variable("ANTHROPIC_API_KEY", "sk-ant-test")
            .variable("ANTHROPIC_BASE_URL", model.base_url())
    }

    /// Without a model.
    pub(crate) fn bare() -> Self {
        let place = Place::new();
        std::fs::create_dir(place.here("data")).unwrap();
        Self {
            place,
            flags: Vec::new(),
            variables: Vec::new(),
            disk: None,
            mounted: None,
            open_files: None,
        }
    }

    /// Additional flags of every server.
    pub(crate) fn flags<'a>(mut self, flags: impl IntoIterator<Item = &'a str>) -> Self {
        self.flags.extend(flags.into_iter().map(str::to_owned));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Puts the data folder on a file system of this size, which exists as long as the server.
    pub(crate) fn disk(mut self, megabytes: u32) -> Self {
        self.disk = Some(megabytes);
        self
    }

    /// The same, on a file system that exists as long as the site.
    pub(crate) fn lasting_disk(mut self, megabytes: u32) -> Self {
        let mut command = self.place.program("unshare");
        let mount = format!(
            "mount -t tmpfs -o size={megabytes}m,mode=700 none \"$HOTCELL_DATA\" && echo && exec cat"
        );
        command.args(["-rm", "sh", "-c", &mount]);
        self.set_up(&mut command);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = [0];
        let stdout = holder.stdout.as_mut().unwrap();
        std::io::Read::read_exact(stdout, &mut line).unwrap();
        self.mounted = Some(holder);
        self
    }

    /// Limits the server's open files.
    pub(crate) fn open_files(mut self, count: u32) -> Self {
        self.open_files = Some(count);
        self
    }

    pub(crate) fn here(&self, name: &str) -> PathBuf {
        self.place.here(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.here("data")
    }

    /// `hotcell` with these arguments, here.
    pub(crate) fn hotcell<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.place.hotcell(arguments);
        self.set_up(&mut command);
        Command::from(command)
    }

    fn set_up(&self, command: &mut std::process::Command) {
        command
            .env("HOTCELL_DATA", self.data())
            .env("HOTCELL_LISTEN", "127.0.0.1:0")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    fn command(&self, flags: &[&str]) -> Command {
        let own = self.flags.iter().map(String::as_str);
        let own = ["serve"].into_iter().chain(own);
        let arguments: Vec<&str> = own.chain(flags.iter().copied()).collect();
        if let Some(holder) = &self.mounted {
            let mut command = self.place.program("nsenter");
            let target = format!("--target={}", holder.id());
            command.args([&target, "--user", "--mount", "--preserve-credentials", "--"]);
            command.arg(hotcell()).args(arguments);
            self.set_up(&mut command);
            return Command::from(command);
        }
        if let Some(count) = self.open_files {
            let mut command = self.place.program("sh");
            command.args(["-c", &format!("ulimit -n {count} && exec \"$@\""), "sh"]);
            command.arg(hotcell()).args(arguments);
            self.set_up(&mut command);
            return Command::from(command);
        }
        let Some(megabytes) = self.disk else {
            return self.hotcell(arguments);
        };
        // In its own mount namespace, where an ordinary user may mount too.
        let mut command = self.place.program("unshare");
        let mount = format!(
            "mount -t tmpfs -o size={megabytes}m,mode=700 none \"$HOTCELL_DATA\" && exec \"$@\""
        );
        command.args(["-rm", "sh", "-c", &mount, "sh"]);
        command.arg(hotcell()).args(arguments);
        self.set_up(&mut command);
        Command::from(command)
    }

    fn said(&self) -> PathBuf {
        self.here("stderr.log")
    }

    /// Everything that servers wrote to standard error.
    pub(crate) fn stderr(&self) -> String {
        let said = std::fs::read(self.said()).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn spawn(&self, flags: &[&str]) -> Child {
        let said: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.said())
            .unwrap();
        self.command(flags)
            .stdout(Stdio::piped())
            .stderr(said)
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Starts a server and waits until it listens.
    pub(crate) async fn start(&self) -> Server {
        self.start_with(&[]).await
    }

    pub(crate) async fn start_with(&self, flags: &[&str]) -> Server {
        let mut child = self.spawn(flags);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        let Some((_, address)) = line.trim_end().rsplit_once("http://") else {
            let ended = child.wait().await.unwrap();
            panic!("no server started: {ended}: {line}");
        };
        Server {
            child,
            _stdout: stdout,
            client: Client::new(address),
            data: self.data(),
        }
    }

    /// Starts a server without waiting.
    pub(crate) fn begin(&self) -> Child {
        self.spawn(&[])
    }

    /// Starts a server that is expected to end by itself.
    pub(crate) async fn refused(&self, flags: &[&str]) -> Output {
        self.command(flags).output().await.unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.mounted {
            let _ = holder.kill();
            let _ = holder.wait();
        }
        if std::thread::panicking() {
            let said = self.stderr();
            let from = said.ceil_char_boundary(said.len().saturating_sub(MAX_SHOWN_STDERR_BYTES));
            eprintln!("--- what the servers said\n{}---", &said[from..]);
        }
    }
}

impl Server {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    /// The data folder as the server sees it, possibly on another file system.
    pub(crate) fn data(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid()));
        root.join(self.data.strip_prefix("/").unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Kills it.
    pub(crate) async fn die(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Ends it cleanly and returns its status.
    pub(crate) async fn end(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().await.unwrap()
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap() << 10
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
}

/// The files in a folder, by name.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
