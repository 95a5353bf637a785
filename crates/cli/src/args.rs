//! Flags as people type them. Meaning is made of them elsewhere, once.

mod agent;
mod chat;
mod image;
mod server;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser};
use sandbox::{Backend, Strength};

pub(crate) use self::agent::{
    Agent, BudgetFlags, ConfigCommand, EnvCommand, ModelFlags, Replay, Resume, Run, SessionName,
    SessionsCommand, SessionsList, SessionsSubcommand, StoreFlags, Undo,
};
pub(crate) use self::chat::Chat;
pub(crate) use self::image::{ImageBuild, ImageCommand};
pub(crate) use self::server::{KeysCommand, Serve};
use crate::values::{
    Variable, parse_cpus, parse_duration, parse_open_files, parse_pids, parse_size,
};

/// A coding agent whose every command is sealed in a sandbox. Without a command, you talk to it.
#[derive(Debug, Parser)]
#[command(
    name = "hotcell",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,

    #[command(flatten)]
    pub(crate) chat: Chat,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Gives a task to the agent and waits for its end.
    ///
    /// Progress goes to standard error, the answer to standard output. The exit code is 0 when
    /// the model is done, 1 when the task failed, 2 for wrong input, 3 when a budget is used up,
    /// 4 when the provider failed, 130 when it was interrupted.
    Run(Box<Run>),
    /// Goes on with a session: with a new prompt, or where it was cut short.
    Resume(Box<Resume>),
    /// Shows the whole path with no key: a scripted model, a real sandbox, real tools.
    Demo(Box<Agent>),
    /// Lists, shows, searches, exports and deletes sessions.
    Sessions(SessionsCommand),
    /// Takes back the last turn of a session, files and conversation together.
    Undo(Box<Undo>),
    /// Runs the recorded tool calls of a session again and tells where results differ.
    Replay(Box<Replay>),
    /// Starts a server: jobs over HTTP, with a web UI.
    ///
    /// Bound to this machine alone, it needs no keys. On SIGTERM or Ctrl-C, running jobs are
    /// parked and go on at the next start.
    Serve(Box<Serve>),
    /// Makes, lists and revokes keys of the server's API.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Copy everything that a server keeps, also while it runs.
    ///
    /// Jobs, sessions, checkpoints, keys and audit log. To restore, start a server with the copy as
    /// its data folder.
    Backup {
        #[command(flatten)]
        store: StoreFlags,

        /// Where to: a folder that does not exist yet, or an empty one.
        #[arg(value_name = "FOLDER")]
        target: PathBuf,
    },
    /// Prints the settings in force and where each came from.
    Config(ConfigCommand),
    /// Allows or forgets the API keys and the model in a `.env` file.
    #[command(subcommand)]
    Env(EnvCommand),
    /// Runs one command in a fresh sandbox.
    ///
    /// Standard input, output and errors pass through byte for byte; the exit code is the
    /// command's own, 124 when its time is over, 137 when a limit killed it, 125 when the
    /// sandbox could not be started, 126 and 127 when the command could not.
    Exec(Box<Exec>),
    /// Says what protects a sandbox on this machine, proved by starting one; with `--probe`, one of
    /// every kind.
    Doctor(Doctor),
    /// Makes, lists and removes images: root file systems for sandboxes.
    #[command(subcommand)]
    Image(ImageCommand),
    /// Works on audit logs.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Prints shell completions, for instance `hotcell completions bash`.
    Completions { shell: clap_complete::Shell },
    /// Prints the manual page.
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    /// Wall time, for instance `30s`, `5m`, `1h`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// A variable for the command; may be given many times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<Variable>,

    /// Runs the command on a terminal of its own.
    #[arg(short = 't', long)]
    pub(crate) terminal: bool,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What a sandbox is to be; shared by all commands that start one.
#[derive(Debug, Clone, Args)]
pub(crate) struct SandboxFlags {
    /// The one host folder inside, at `/workspace` [default: SAFEDIR, or `./workspace`].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) walls: WallFlags,

    /// Where to record every command, file write and connection
    /// [default: `audit.jsonl` in the user's state folder].
    #[arg(long, value_name = "FILE", env = "HOTCELL_AUDIT")]
    pub(crate) audit: Option<PathBuf>,

    /// Records nothing.
    #[arg(long, conflicts_with = "audit")]
    pub(crate) no_audit: bool,
}

/// What surrounds a workspace, whichever it is.
#[derive(Debug, Clone, Args)]
pub(crate) struct WallFlags {
    /// A folder with a root file system, instead of the host's own programs.
    #[arg(long, value_name = "FOLDER", conflicts_with = "image")]
    pub(crate) rootfs: Option<PathBuf>,

    /// An image, as `hotcell image list` names it, instead of the host's own programs.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,

    /// The walls: `auto` takes the strongest that `hotcell doctor --probe` proved here; `none` means
    /// no protection.
    #[arg(long, value_name = "WALLS", value_parser = Backend::ALL.map(Backend::name))]
    pub(crate) backend: Option<String>,

    /// How strong the walls must be: `namespaces`, `kernel` (one of their own in user space) or `vm`.
    /// Nothing weaker is ever started.
    #[arg(long, value_name = "STRENGTH", value_parser = Strength::REQUIRABLE.map(Strength::name))]
    pub(crate) require: Option<String>,

    /// Memory, for instance `512M`, `2G`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// Processors, for instance `1`, `0.5`.
    #[arg(long, value_name = "NUMBER", value_parser = parse_cpus)]
    pub(crate) cpus: Option<f64>,

    /// Processes and threads.
    #[arg(long, value_name = "NUMBER", value_parser = parse_pids)]
    pub(crate) pids: Option<u32>,

    /// How much the workspace may grow.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk: Option<u64>,

    /// Open files of one process.
    #[arg(long, value_name = "NUMBER", value_parser = parse_open_files)]
    pub(crate) open_files: Option<u64>,

    /// How much one command may print.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_output: Option<u64>,

    /// Refuses to start when nothing on this machine enforces one of the limits in full.
    #[arg(long)]
    pub(crate) strict_limits: bool,

    /// Opens a host: `example.com`, `*.example.com`, `host:port`. May be given many times.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_net: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Starts a sandbox with every backend, and keeps what comes of it for `--backend auto`.
    #[arg(long)]
    pub(crate) probe: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Finds every changed, removed or reordered line.
    Verify {
        /// The log, such as `audit.jsonl`.
        file: PathBuf,
    },
}
