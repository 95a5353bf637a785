//! Everything that a host can ask of a guest. Each request opens a stream of its own; the
//! first message on it is a [`Request`], and the variant says what follows in each direction.
//!
//! Only types: nothing here reads, writes or decides.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The host's greeting: what holds for the guest's whole life.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// Folder against which relative paths are taken, and where commands start.
    pub workdir: Raw,
    /// The environment of every command, before what a request adds.
    pub env: Vec<(Raw, Raw)>,
    /// Time after which the guest ends everything by itself.
    pub deadline: Option<Duration>,
    /// How much the workdir may grow.
    pub disk: Option<DiskLimit>,
    /// Bytes that all processes and files in memory may take together, where the guest is to see
    /// to it.
    pub memory: Option<u64>,
    /// Whether the kernel below the guest is Linux. Another one counts less and does less for
    /// terminals.
    pub is_linux: bool,
    /// Loopback port on which the guest takes connections for the host's proxy.
    pub proxy_port: Option<u16>,
}

/// How much a folder may grow from what it is at the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct DiskLimit {
    pub bytes: u64,
    pub inodes: u64,
    /// Whether commands can write to disks outside the folder too, where nobody counts what they
    /// have written: growth of its file system then counts as theirs.
    pub has_other_places: bool,
}

/// The guest's greeting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// Release of the guest program.
    pub release: String,
}

/// One thing to do inside the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Runs a command. In: data is standard input, its end the end of input. Out: data and
    /// errors as they are printed, then `Answer<Exit>`.
    Exec(Exec),
    /// Says something to the command that was started on stream `exec`; on a stream of its
    /// own, so that it never waits behind standard input. Out: `Answer<()>`.
    Control { exec: u32, control: Control },
    /// Runs a command in a shell session. Out: data and errors while it is waited for, then
    /// `Answer<Progress>`. In: the end, once the host has read it. A host that leaves before that
    /// takes the command with it.
    Shell(ShellCommand),
    /// Asks after a background command. Out: data and errors since the last look, then
    /// `Answer<Progress>`.
    Poll(Poll),
    /// Waits until a background command has printed more than `seen` bytes in all, or has ended;
    /// takes nothing away from [`Request::Poll`]. Out: `Answer<Tail>`.
    Tail { job: u32, seen: u64 },
    /// Writes to the standard input of a background command. In: data. Out: `Answer<()>`.
    Feed { job: u32 },
    /// Sends a signal to the process group of a background command. Out: `Answer<()>`.
    Kill { job: u32, signal: i32 },
    /// Reads a file. Out: `Answer<Metadata>`, then data.
    Read(ReadFile),
    /// Writes a file. In: data. Out: `Answer<()>`.
    Write(WriteFile),
    /// Renames within one file system. Out: `Answer<()>`.
    Rename { from: Raw, to: Raw },
    /// Removes a file or, if so asked, a folder with all it holds. Out: `Answer<()>`.
    Remove { path: Raw, recursive: bool },
    /// Makes a folder and its parents. Out: `Answer<()>`.
    MakeFolder { path: Raw },
    /// Makes a symlink and its parents, in place of whatever is there and is no folder: the old
    /// or the new, never nothing. Out: `Answer<()>`.
    MakeLink { path: Raw, target: Raw },
    /// Sets the permission bits of what is no symlink. Out: `Answer<()>`.
    SetMode { path: Raw, mode: u32 },
    /// Describes a path without following a symlink at its end. Out: `Answer<Metadata>`.
    Stat { path: Raw },
    /// Lists a folder. Out: [`Batch`]es of [`Entry`].
    List(List),
    /// Describes everything below a folder, also what is hidden or ignored, in the order of
    /// names. Out: [`Batch`]es of [`Surveyed`].
    Survey { path: Raw, limit: u64 },
    /// Reports changes below a path until the stream ends. Out: [`Batch`]es of [`Change`], the
    /// first one empty, when the watch stands.
    Watch { path: Raw },
    /// Searches file contents. Out: [`Batch`]es of [`Match`].
    Search(Search),
    /// Connects to a loopback port inside. Out: `Answer<()>`; then data both ways.
    Connect { port: u16 },
    /// Resources in use. Out: `Answer<Stats>`.
    Stats,
    /// What the kernel says of the walls, seen from inside. Out: `Answer<Walls>`.
    Inspect,
}

/// The result of a request.
pub type Answer<T> = Result<T, Refusal>;

/// Why the guest did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What was tried and why it failed, for a person or a model to read.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    NotFound,
    Denied,
    Exists,
    WrongType,
    NoSpace,
    Limit,
    Invalid,
    Other,
}

/// Bytes that are nearly always text: arguments, variables, paths.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    pub fn into_os_string(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl<T: AsRef<OsStr>> From<T> for Raw {
    fn from(text: T) -> Self {
        Self(text.as_ref().as_bytes().to_vec())
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_os_str().fmt(formatter)
    }
}

impl std::fmt::Display for Raw {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_os_str().display().fmt(formatter)
    }
}

/// A command to run to its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exec {
    pub program: Program,
    /// Start folder; the workdir if absent.
    pub cwd: Option<Raw>,
    /// Added to the environment of the settings.
    pub env: Vec<(Raw, Raw)>,
    /// Whether standard input is this stream's data or empty.
    pub stdin: bool,
    /// Runs the command on a terminal of this size; all output is then data.
    pub terminal: Option<TerminalSize>,
    /// Wall time after which the process group is killed.
    pub timeout: Option<Duration>,
    /// Bytes of output after which the process group is killed.
    pub output: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Program {
    Argv(Vec<Raw>),
    /// A script for `sh -c`.
    Script(Raw),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Said to a running command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Control {
    /// Sends a signal to its process group.
    Signal(i32),
    /// Changes the size of its terminal.
    Resize(TerminalSize),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub status: Status,
    /// The limit that ended it, if one did.
    pub limit: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Code(i32),
    Signal(i32),
}

/// A limit that the guest enforces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    Time,
    Output,
    Disk,
    Memory,
}

/// A command for a shell session. Folder, variables, functions and options live on from one
/// command of a session to the next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellCommand {
    /// Name of the session; it begins with its first command.
    pub session: String,
    pub script: Raw,
    /// How long to wait for the end before the command goes on in the background.
    pub wait: Duration,
}

/// A look at a background command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Poll {
    pub job: u32,
    /// How long to wait for its end.
    pub wait: Duration,
}

/// Where a shell command stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub job: u32,
    /// `None` while it runs.
    pub exit: Option<Exit>,
    /// Whether processes it left behind still hold its output open.
    pub output_open: bool,
    /// Bytes of output that were dropped because nobody asked for them in time.
    pub dropped: u64,
    /// The session's folder after the command.
    pub cwd: Option<Raw>,
}

/// The end of what a background command printed, output and errors as they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// At most [`LONGEST_TAIL`].
    pub bytes: Vec<u8>,
    /// Bytes in all.
    pub printed: u64,
    /// How it ended, when nothing of it runs any more.
    pub ended: Option<Exit>,
}

/// In bytes.
pub const LONGEST_TAIL: usize = 4096;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadFile {
    pub path: Raw,
    pub offset: u64,
    /// Bytes to read at most; all of the rest if absent.
    pub length: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriteFile {
    pub path: Raw,
    pub mode: WriteMode,
    /// Permission bits of a new file.
    pub permissions: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// The old content or the new one, never a mixture; parents are made.
    Replace,
    /// As `Replace`, but refused if something is there.
    Create,
    /// At the end of what is there; parents are made.
    Append,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub kind: FileKind,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Milliseconds since the epoch.
    pub modified: i64,
    /// Where a symlink points.
    pub target: Option<Raw>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    File,
    Folder,
    Symlink,
    Other,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List {
    pub path: Raw,
    /// Levels below the folder; 1 is its own entries.
    pub depth: u32,
    /// Leaves out what `.gitignore` and its kin name, and hidden files.
    pub ignore: bool,
    /// Hidden files are not left out, except for `.git`.
    pub hidden: bool,
    /// Globs as in [`Search`]. If there are any, only files are listed.
    pub globs: Vec<String>,
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative to the folder asked for.
    pub path: Raw,
    pub kind: FileKind,
    pub size: u64,
    /// Where a symlink points.
    pub target: Option<Raw>,
}

/// An entry with all that tells whether it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surveyed {
    /// Relative to the folder asked for.
    pub path: Raw,
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
    pub inode: u64,
    /// Nanoseconds since the epoch: the last change of the content.
    pub modified_ns: i64,
    /// The same, of anything; nothing inside can set it back.
    pub changed_ns: i64,
    /// Where a symlink points.
    pub target: Option<Raw>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    pub path: Raw,
    /// A regular expression in Rust's syntax.
    pub pattern: String,
    pub case_insensitive: bool,
    /// Globs that a file must match; `!` before one leaves files out.
    pub globs: Vec<String>,
    /// As in [`List`].
    pub ignore: bool,
    /// As in [`List`].
    pub hidden: bool,
    /// Lines around each match.
    pub context: u32,
    /// Matching lines at most.
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub path: Raw,
    pub line: u64,
    /// The line without its end, cut at a length that no source line has.
    pub text: Raw,
    /// Whether the line matched or stands near one that did.
    pub is_context: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: Raw,
    pub kind: ChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    Created,
    Modified,
    Removed,
    /// Too much happened at once: look again at everything.
    Overflow,
}

/// A part of a long answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Batch<T> {
    Items(Vec<T>),
    /// The last part: whether the limit cut the answer short.
    Done(Answer<Truncated>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated(pub bool);

/// Resources in use by everything in the sandbox, the guest included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Processor time of the processes that are alive.
    pub cpu: Duration,
    /// Resident bytes; pages that processes share count once for each.
    pub memory: u64,
    pub processes: u32,
    pub threads: u32,
}

/// What the kernel says of the walls around the guest and so around its commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walls {
    pub uid: u32,
    pub gid: u32,
    /// Effective, permitted, inheritable, bounding and ambient capabilities, united.
    pub capabilities: u64,
    pub no_new_privileges: bool,
    /// Mode 2 is a filter.
    pub seccomp: u32,
    /// Namespace kind and identity, as `/proc/self/ns` has them.
    pub namespaces: Vec<(String, String)>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Whether the root folder refuses writes.
    pub root_read_only: bool,
}
