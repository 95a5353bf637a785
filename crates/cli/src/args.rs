//! Command-line flags as typed. They are interpreted elsewhere, once.

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
    AgentFlags, BudgetFlags, ConfigCommand, EnvCommand, ModelFlags, ReplayFlags, ResumeFlags,
    RunFlags, SessionName, SessionsCommand, SessionsList, SessionsSubcommand, StoreFlags,
    UndoFlags,
};
pub(crate) use self::chat::ChatFlags;
pub(crate) use self::image::{ImageBuildFlags, ImageCommand};
pub(crate) use self::server::{KeysCommand, ServeFlags};
use crate::values::{
    EnvVariable, parse_cpus, parse_duration, parse_open_files, parse_pids, parse_size,
};

/// A coding agent that runs every command in a sandbox. Without a subcommand, start a chat.
#[derive(Debug, Parser)]
#[command(
    name = "hotcell",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct CliArguments {
    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,

    #[command(flatten)]
    pub(crate) chat: ChatFlags,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Run a task with the agent and wait until it ends.
    ///
    /// Progress goes to standard error, the answer to standard output. The exit code is 0 when
    /// the model is done, 1 when the task failed, 2 for wrong input, 3 when a budget is used up,
    /// 4 when the provider failed, 130 when it was interrupted.
    Run(Box<RunFlags>),
    /// Resume a session, with a new prompt or where it was cut short.
    Resume(Box<ResumeFlags>),
    /// Run a demo without an API key: a scripted model, a real sandbox, real tools.
    Demo(Box<AgentFlags>),
    /// List, show, search, export and delete sessions.
    Sessions(SessionsCommand),
    /// Undo the last turn of a session: its files and its part of the conversation.
    Undo(Box<UndoFlags>),
    /// Run the recorded tool calls of a session again and report where results differ.
    Replay(Box<ReplayFlags>),
    /// Start a server that runs jobs over HTTP, with a web UI.
    ///
    /// Requires no keys while it listens on this machine only. On SIGTERM or Ctrl-C, running jobs
    /// are parked and resumed at the next start.
    Serve(Box<ServeFlags>),
    /// Create, list and revoke API keys of the server.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Copy all data of a server, also while it runs.
    ///
    /// Copies jobs, sessions, checkpoints, keys and the audit log. To restore, start a server with
    /// the copy as its data folder.
    Backup {
        #[command(flatten)]
        store: StoreFlags,

        /// Target folder; must be empty or must not exist yet.
        #[arg(value_name = "FOLDER")]
        target: PathBuf,
    },
    /// Print the settings in effect and where each comes from.
    Config(ConfigCommand),
    /// Allow or forget the API keys and the model in a `.env` file.
    #[command(subcommand)]
    Env(EnvCommand),
    /// Run a command in a new sandbox.
    ///
    /// Standard input, output and error pass through unchanged. The exit code is the command's own,
    /// 124 if it timed out, 137 if a limit killed it, 125 if the sandbox could not be started, 126
    /// or 127 if the command could not be started.
    Exec(Box<ExecFlags>),
    /// Check what protects a sandbox on this machine by starting one; with `--probe`, one per
    /// backend.
    Doctor(DoctorFlags),
    /// Build, list and remove images (root file systems for sandboxes).
    #[command(subcommand)]
    Image(ImageCommand),
    /// Verify audit logs.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Print shell completions, such as `hotcell completions bash`.
    Completions { shell: clap_complete::Shell },
    /// Print the manual page.
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct ExecFlags {
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    /// Wall-clock time limit, such as `30s`, `5m`, `1h`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// Environment variable for the command; can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<EnvVariable>,

    /// Allocate a terminal for the command.
    #[arg(short = 't', long)]
    pub(crate) terminal: bool,

    /// Command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Flags of the sandbox; shared by all commands that start one.
#[derive(Debug, Clone, Args)]
pub(crate) struct SandboxFlags {
    /// Host folder to mount at `/workspace` [default: SAFEDIR, or `./workspace`].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) walls: WallFlags,

    /// Audit log of every command, file write and connection [default: `audit.jsonl` in the user's
    /// state folder].
    #[arg(long, value_name = "FILE", env = "HOTCELL_AUDIT")]
    pub(crate) audit: Option<PathBuf>,

    /// Do not write an audit log.
    #[arg(long, conflicts_with = "audit")]
    pub(crate) no_audit: bool,
}

/// Flags of the sandbox that do not depend on its workspace.
#[derive(Debug, Clone, Args)]
pub(crate) struct WallFlags {
    /// Folder with a root file system to use instead of the host's programs.
    #[arg(long, value_name = "FOLDER", conflicts_with = "image")]
    pub(crate) rootfs: Option<PathBuf>,

    /// Image to use instead of the host's programs; see `hotcell image list`.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: Option<String>,

    /// Sandbox backend: `auto` selects the strongest that `hotcell doctor --probe` proved here;
    /// `none` gives no protection.
    #[arg(long, value_name = "WALLS", value_parser = Backend::ALL.map(Backend::name))]
    pub(crate) backend: Option<String>,

    /// Minimum strength of the backend: `namespaces`, `kernel` (a separate kernel in user space) or
    /// `vm`. Starting fails if the backend is weaker.
    #[arg(long, value_name = "STRENGTH", value_parser = Strength::REQUIRABLE.map(Strength::name))]
    pub(crate) require: Option<String>,

    /// Memory limit, such as `512M`, `2G`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// CPU limit, such as `1`, `0.5`.
    #[arg(long, value_name = "NUMBER", value_parser = parse_cpus)]
    pub(crate) cpus: Option<f64>,

    /// Maximum number of processes and threads.
    #[arg(long, value_name = "NUMBER", value_parser = parse_pids)]
    pub(crate) pids: Option<u32>,

    /// Maximum growth of the workspace.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk: Option<u64>,

    /// Maximum open files per process.
    #[arg(long, value_name = "NUMBER", value_parser = parse_open_files)]
    pub(crate) open_files: Option<u64>,

    /// Maximum output of a command.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_output: Option<u64>,

    /// Fail if a limit cannot be fully enforced on this machine.
    #[arg(long)]
    pub(crate) strict_limits: bool,

    /// Allow connections to a host: `example.com`, `*.example.com`, `host:port`; can be repeated.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_net: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Start a sandbox with every backend and store the results for `--backend auto`.
    #[arg(long)]
    pub(crate) probe: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Find changed, removed and reordered lines.
    Verify {
        /// Log file, such as `audit.jsonl`.
        file: PathBuf,
    },
}
