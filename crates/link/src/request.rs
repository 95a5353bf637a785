//! All requests that a host can send to a guest. Each request opens its own stream; the first
//! message on it is a [`GuestRequest`], and the variant says what follows in each direction.
//!
//! Contains only types, no logic.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The host's greeting: settings for the lifetime of the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestSettings {
    /// Base of relative paths, and the folder in which commands start.
    pub workdir: ByteString,
    /// The environment of every command; a request can add to it.
    pub env: Vec<(ByteString, ByteString)>,
    /// Time after which the guest kills all commands, including those started later.
    pub deadline: Option<Duration>,
    /// How much the workdir may grow.
    pub disk: Option<DiskGrowthLimit>,
    /// Limit in bytes for the memory of all processes and in-memory files together, if the guest has
    /// to enforce it.
    pub memory: Option<u64>,
    /// Whether the guest's kernel is Linux. Other kernels have less accounting and fewer terminal
    /// features.
    pub is_linux: bool,
    /// Loopback port on which the guest accepts connections for the host's proxy.
    pub proxy_port: Option<u16>,
}

/// How much a folder may grow from its size at the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct DiskGrowthLimit {
    pub bytes: u64,
    pub inodes: u64,
    /// Whether commands can also write to disks outside the folder, where their usage is not counted.
    /// Growth of the folder's file system is then attributed to the commands.
    pub has_other_places: bool,
}

/// The guest's greeting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestGreeting {
    /// Version of the guest program.
    pub release: String,
}

/// An operation inside the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum GuestRequest {
    /// Runs a command. In: data is standard input, the end of the stream is the end of input. Out:
    /// data and errors as they are printed, then `Answer<Exit>`.
    Exec(ExecRequest),
    /// Controls the command that was started on stream `exec`. Has its own stream, so that it never
    /// waits behind standard input. Out: `Answer<()>`.
    Control { exec: u32, control: ExecControl },
    /// Runs a command in a shell session. Out: data and errors during the wait time, then
    /// `Answer<Progress>`. In: the end, once the host has read the answer. If the host drops the
    /// stream before that, the command is interrupted.
    Shell(ShellCommand),
    /// Polls a background command. Out: data and errors since the last poll, then
    /// `Answer<Progress>`.
    Poll(PollRequest),
    /// Waits until a background command has printed more than `seen` bytes in total, or has ended.
    /// Does not consume the output, so a later poll still returns it. Out: `Answer<Tail>`.
    Tail { job: u32, seen: u64 },
    /// Writes to the standard input of a background command. In: data. Out: `Answer<()>`.
    Feed { job: u32 },
    /// Sends a signal to the process group of a background command. Out: `Answer<()>`.
    Kill { job: u32, signal: i32 },
    /// Reads a file. Out: `Answer<Metadata>`, then data.
    Read(ReadFileRequest),
    /// Writes a file. In: data. Out: `Answer<()>`.
    Write(WriteFileRequest),
    /// Renames within one file system. Out: `Answer<()>`.
    Rename { from: ByteString, to: ByteString },
    /// Removes a file or, with `recursive`, a folder and its content. Out: `Answer<()>`.
    Remove { path: ByteString, recursive: bool },
    /// Creates a folder and its parents. Out: `Answer<()>`.
    MakeFolder { path: ByteString },
    /// Creates a symlink and its parents. Atomically replaces anything at the path but a folder. Out:
    /// `Answer<()>`.
    MakeLink {
        path: ByteString,
        target: ByteString,
    },
    /// Sets permission bits. Refused for a symlink. Out: `Answer<()>`.
    SetMode { path: ByteString, mode: u32 },
    /// Describes a path without following a final symlink. Out: `Answer<Metadata>`.
    Stat { path: ByteString },
    /// Lists a folder. Out: [`Batch`]es of [`ListEntry`].
    List(ListRequest),
    /// Describes everything below a folder, including hidden and ignored files, sorted by name. Out:
    /// [`Batch`]es of [`SurveyEntry`].
    Survey { path: ByteString, limit: u64 },
    /// Reports changes below a path until the stream ends. Out: [`Batch`]es of [`PathChange`]. The first
    /// one is empty and says that the watch is active.
    Watch { path: ByteString },
    /// Searches file contents. Out: [`Batch`]es of [`SearchMatch`].
    Search(SearchRequest),
    /// Connects to a loopback port inside the sandbox. Out: `Answer<()>`, then data in both directions.
    Connect { port: u16 },
    /// Resources in use. Out: `Answer<Stats>`.
    Stats,
    /// Reports the isolation as the kernel shows it inside the sandbox. Out: `Answer<Walls>`.
    Inspect,
}

/// The result of a request.
pub type GuestResult<T> = Result<T, Refusal>;

/// Why the guest refused a request or failed at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What was tried and why it failed, readable for users and models.
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

/// A string that need not be UTF-8: arguments, variables, paths.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ByteString(pub Vec<u8>);

impl ByteString {
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

impl<T: AsRef<OsStr>> From<T> for ByteString {
    fn from(text: T) -> Self {
        Self(text.as_ref().as_bytes().to_vec())
    }
}

impl std::fmt::Debug for ByteString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_os_str().fmt(formatter)
    }
}

impl std::fmt::Display for ByteString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_os_str().display().fmt(formatter)
    }
}

/// A command that runs in the foreground until it ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecRequest {
    pub program: ExecProgram,
    /// Start folder; the workdir if absent.
    pub cwd: Option<ByteString>,
    /// Added to [`GuestSettings::env`].
    pub env: Vec<(ByteString, ByteString)>,
    /// Whether standard input is the data of this stream; else it is empty.
    pub stdin: bool,
    /// Runs the command on a terminal of this size. All output is then sent as data.
    pub terminal: Option<TerminalSize>,
    /// Wall time after which the process group is killed.
    pub timeout: Option<Duration>,
    /// Bytes of output after which the process group is killed.
    pub output: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ExecProgram {
    Argv(Vec<ByteString>),
    /// A script for `sh -c`.
    Script(ByteString),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Control message to a running command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ExecControl {
    /// Sends a signal to its process group.
    Signal(i32),
    /// Changes the size of its terminal.
    Resize(TerminalSize),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub status: CommandStatus,
    /// The limit for which it was killed, if any.
    pub limit: Option<GuestLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandStatus {
    Code(i32),
    Signal(i32),
}

/// A limit that the guest enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestLimit {
    Time,
    Output,
    Disk,
    Memory,
}

/// A command for a shell session. Folder, variables, functions and options persist between the
/// commands of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellCommand {
    /// Name of the session; the first command starts it.
    pub session: String,
    pub script: ByteString,
    /// How long to wait for the end before the command continues in the background.
    pub wait: Duration,
}

/// A poll of a background command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PollRequest {
    pub job: u32,
    /// How long to wait for its end.
    pub wait: Duration,
}

/// State of a shell command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellProgress {
    pub job: u32,
    /// `None` while it runs.
    pub exit: Option<Exit>,
    /// Whether leftover processes still hold its output open.
    pub output_open: bool,
    /// Bytes of output that were dropped because they were not polled in time.
    pub dropped: u64,
    /// The session's current folder after the command.
    pub cwd: Option<ByteString>,
}

/// The last output of a background command, stdout and stderr interleaved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTail {
    /// At most [`MAX_TAIL_BYTES`] bytes.
    pub bytes: Vec<u8>,
    /// Bytes printed in total.
    pub printed: u64,
    /// Set when none of its processes runs any more.
    pub ended: Option<Exit>,
}

/// Longest [`JobTail`] in bytes.
pub const MAX_TAIL_BYTES: usize = 4096;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadFileRequest {
    pub path: ByteString,
    pub offset: u64,
    /// Bytes to read at most; to the end of the file if absent.
    pub length: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriteFileRequest {
    pub path: ByteString,
    pub mode: WriteMode,
    /// Permission bits of a new file.
    pub permissions: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Atomic: readers see the old content or the new one. Parents are created.
    Replace,
    /// As `Replace`, but refused if the path exists.
    Create,
    /// Appends to the file. Parents are created.
    Append,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMetadata {
    pub kind: FileKind,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Milliseconds since the epoch.
    pub modified: i64,
    /// Where a symlink points.
    pub target: Option<ByteString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    File,
    Folder,
    Symlink,
    Other,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListRequest {
    pub path: ByteString,
    /// Levels below the folder; 1 lists only its own entries.
    pub depth: u32,
    /// Leaves out hidden files and those that match `.gitignore` and similar files.
    pub ignore: bool,
    /// Includes hidden files, except for `.git`.
    pub hidden: bool,
    /// Globs as in [`SearchRequest`]. If there are any, only files are listed.
    pub globs: Vec<String>,
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Relative to the folder asked for.
    pub path: ByteString,
    pub kind: FileKind,
    pub size: u64,
    /// Where a symlink points.
    pub target: Option<ByteString>,
}

/// An entry with all fields that are needed to detect a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyEntry {
    /// Relative to the folder asked for.
    pub path: ByteString,
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
    pub inode: u64,
    /// Last change of the content, in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Last change of content or metadata. Processes inside the sandbox cannot set it back.
    pub changed_ns: i64,
    /// Where a symlink points.
    pub target: Option<ByteString>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SearchRequest {
    pub path: ByteString,
    /// A regular expression in Rust's syntax.
    pub pattern: String,
    pub case_insensitive: bool,
    /// Globs that a file must match; a leading `!` excludes files.
    pub globs: Vec<String>,
    /// As in [`ListRequest`].
    pub ignore: bool,
    /// As in [`ListRequest`].
    pub hidden: bool,
    /// Lines of context around each match.
    pub context: u32,
    /// Most matching lines.
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchMatch {
    pub path: ByteString,
    pub line: u64,
    /// The line without its line ending, truncated at a length above that of any source line.
    pub text: ByteString,
    /// Whether the line is only context of a matching line.
    pub is_context: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    pub path: ByteString,
    pub kind: PathChangeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathChangeKind {
    Created,
    Modified,
    Removed,
    /// Events were lost: rescan everything.
    Overflow,
}

/// A part of a long answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Batch<T> {
    Items(Vec<T>),
    /// The last part. Says whether the limit truncated the answer.
    Done(GuestResult<Truncated>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated(pub bool);

/// Resources in use by all processes in the sandbox, including the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// CPU time of the processes that are alive.
    pub cpu: Duration,
    /// Resident bytes. Shared pages count once for each process.
    pub memory: u64,
    pub processes: u32,
    pub threads: u32,
}

/// The isolation of the guest and its commands, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedWalls {
    pub uid: u32,
    pub gid: u32,
    /// Union of the effective, permitted, inheritable, bounding and ambient capabilities.
    pub capabilities: u64,
    pub no_new_privileges: bool,
    /// Mode 2 is a filter.
    pub seccomp: u32,
    /// Namespace kind and identity, as in `/proc/self/ns`.
    pub namespaces: Vec<(String, String)>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Whether the root folder refuses writes.
    pub root_read_only: bool,
}
