//! One call: its script, when its processes are signalled, and when it is over.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::stacks;

/// Scripts of the calls. None runs long if nothing is killed.
const CALL_SCRIPTS: &[&str] = &[
    "true",
    "exit 7",
    "kill -KILL $$",
    "echo something; echo else >&2",
    "head -c 300000 /dev/zero",
    "sleep 1000 & echo left behind",
    "(sleep 1000 >/dev/null 2>&1 &); exit 3",
    "for i in 1 2 3 4 5; do (sleep 0.01; echo $i) & done; wait",
    "sleep 0.05",
    "sleep 2",
    "trap '' TERM INT; sleep 1",
];

const CALL_FLAGS: &[&[&str]] = &[
    &[],
    &[],
    &["--timeout", "300ms"],
    &["--timeout", "20s", "--memory", "64M", "--pids", "64"],
];

/// Signals; SIGKILL is more frequent.
const SIGNALS: &[(i32, &str)] = &[
    (libc::SIGKILL, "KILL"),
    (libc::SIGKILL, "KILL"),
    (libc::SIGKILL, "KILL"),
    (libc::SIGTERM, "TERM"),
    (libc::SIGINT, "INT"),
    (libc::SIGSTOP, "STOP and CONT"),
];

/// Where calls run: they share a home with its audit log, and some of them a workspace.
pub(crate) struct SoakHome {
    program: PathBuf,
    home: PathBuf,
    workspaces: Vec<PathBuf>,
}

impl SoakHome {
    pub(crate) fn new(folder: &Path) -> Self {
        let make = |name: &str| {
            let path = folder.join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let program = std::env::var_os("HOTCELL_BIN");
        Self {
            program: program.map_or_else(|| env!("CARGO_BIN_EXE_hotcell").into(), PathBuf::from),
            home: make("home"),
            workspaces: ["one", "two", "three"].map(make).into(),
        }
    }
}

pub(crate) struct SoakCall {
    number: u64,
    pub(crate) pid: i32,
    /// Status from `waitpid`.
    pub(crate) ended: Option<i32>,
    pub(crate) begun: Instant,
    script: &'static str,
    flags: &'static [&'static str],
    /// When to signal one of its processes.
    strikes: Vec<Instant>,
    /// Stopped processes, and when to continue them.
    stopped: Vec<(i32, Instant)>,
    struck: Vec<String>,
    /// Its output streams, until all writers have closed them.
    outputs: Vec<File>,
}

impl SoakCall {
    #[allow(
        clippy::zombie_processes,
        reason = "collected with all others, by its number"
    )]
    pub(crate) fn start(number: u64, place: &SoakHome, random: &mut Random) -> Self {
        let script = random.choose(CALL_SCRIPTS).unwrap();
        let flags = random.choose(CALL_FLAGS).unwrap();
        let backend = std::env::var("SOAK_BACKEND").unwrap_or_else(|_| "native".into());
        let mut child = Command::new(&place.program)
            .args(["exec", "--backend", &backend, "--workspace"])
            .arg(random.choose(&place.workspaces).unwrap())
            .args(*flags)
            .args(["--", "sh", "-c", script])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", &place.home)
            .current_dir(&place.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let outputs = vec![
            open(child.stdout.take().unwrap().into()),
            open(child.stderr.take().unwrap().into()),
        ];
        // A third is left alone; some of the others are signalled twice.
        let strikes = (0..[0, 1, 2, 1, 0, 1][random.below(6) as usize]).map(|_| {
            // Most of a start happens in the first milliseconds.
            let most = [10_000, 60_000, 300_000][random.below(3) as usize];
            begun + Duration::from_micros(random.below(most))
        });
        let mut call = Self {
            number,
            pid: child.id() as i32,
            ended: None,
            begun,
            script,
            flags,
            strikes: strikes.collect(),
            stopped: Vec::new(),
            struck: Vec::new(),
            outputs,
        };
        call.strikes.sort();
        call
    }

    /// Signals a process of this call if it is due; returns what was sent to which process.
    pub(crate) fn send_due_signal(&mut self, random: &mut Random) -> Option<String> {
        let now = Instant::now();
        self.stopped.retain(|(pid, until)| {
            if *until <= now {
                send(*pid, libc::SIGCONT);
            }
            *until > now
        });
        if self.strikes.first().is_none_or(|at| *at > now) {
            return None;
        }
        self.strikes.remove(0);
        if self.ended.is_some() {
            return None;
        }
        // Every fourth time the caller's own process, else one of the sandbox.
        let pid = if random.below(4) == 0 {
            self.pid
        } else if let Some(pid) = random.choose(&stacks::descendants(self.pid)) {
            *pid
        } else {
            // There is none yet.
            self.strikes.insert(0, now + Duration::from_millis(3));
            return None;
        };
        let name = stacks::name(pid)?;
        let (signal, word) = *random.choose(SIGNALS)?;
        send(pid, signal);
        if signal == libc::SIGSTOP {
            // The pid cannot be reused while it is stopped, because nothing else ends it.
            self.stopped.push((pid, now + Duration::from_millis(50)));
        }
        let sent = format!("{word} to {name}");
        self.struck
            .push(format!("{sent} after {:?}", self.begun.elapsed()));
        Some(sent)
    }

    /// Reads available output.
    pub(crate) fn drain(&mut self) {
        let mut space = [0; 64 * 1024];
        self.outputs.retain_mut(|output| {
            loop {
                match output.read(&mut space) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        });
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_some() && self.outputs.is_empty()
    }

    /// The exit code or signal, as text.
    pub(crate) fn end(&self) -> String {
        match self.ended {
            None => "runs".into(),
            Some(status) if libc::WIFSIGNALED(status) => {
                format!("signal {}", libc::WTERMSIG(status))
            }
            Some(status) => format!("code {}", libc::WEXITSTATUS(status)),
        }
    }
}

impl Drop for SoakCall {
    /// Continues stopped processes that outlive the call.
    fn drop(&mut self) {
        for (pid, _) in &self.stopped {
            send(*pid, libc::SIGCONT);
        }
    }
}

impl fmt::Display for SoakCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            pid,
            script,
            flags,
            struck,
            ..
        } = self;
        let (end, open) = (self.end(), self.outputs.len());
        write!(
            formatter,
            "call {number}, process {pid}, `{script}` with {flags:?}, struck {struck:?}, \
             {end}, {open} outputs open"
        )
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: only numbers are passed; it is a process below this one, or gone.
    unsafe { libc::kill(pid, signal) };
}

fn open(pipe: OwnedFd) -> File {
    // SAFETY: only numbers are passed.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    pipe.into()
}
