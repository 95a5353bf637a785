//! Flags of the commands that use a model or manage sessions.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::SandboxFlags;
use crate::values::{parse_cost, parse_count, parse_duration, parse_limit};

#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// Task for the agent; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,

    #[command(flatten)]
    pub(crate) agent: AgentFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeFlags {
    /// Name of the session, or a prefix of it [default: the last one in this workspace].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Next prompt; `-` reads it from standard input. Without it, a turn that was cut short is
    /// continued.
    #[arg(long, short, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Continue in a copy and leave the session unchanged.
    #[arg(long)]
    pub(crate) fork: bool,

    #[command(flatten)]
    pub(crate) agent: AgentFlags,
}

/// Flags of the agent; shared by all commands that start one.
#[derive(Debug, Args)]
pub(crate) struct AgentFlags {
    /// Print events as JSON, one per line, on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    // Last, because their help headings apply to all flags that follow.
    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelFlags {
    /// `claude-…`, or `openai/NAME` for a server with a chat completions API.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,

    /// Base URL of the provider, such as `http://127.0.0.1:11434`.
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) base_url: Option<String>,

    /// Maximum tokens per reply.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_tokens: Option<u64>,

    /// Maximum thinking tokens per reply; at least 1024.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) thinking: Option<u64>,

    /// Read API keys and the model from this file instead of `.env`, without asking.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// Maximum cost in US dollars, such as `0.50`.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_cost)]
    pub(crate) max_cost: Option<f64>,

    /// Maximum input and output tokens of all requests together.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_tokens_total: Option<u64>,

    /// Maximum number of requests to the model.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_turns: Option<u64>,

    /// Wall-clock time limit, such as `90s`, `10m`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_time: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// Folder where sessions are stored [default: `hotcell` in the user's data folder].
    #[arg(long, value_name = "FOLDER", env = "HOTCELL_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Settings file [default: `hotcell/config.toml` in the user's config folder].
    #[arg(long, value_name = "FILE", env = "HOTCELL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionName {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Name of the session, or a prefix of it.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsCommand {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsSubcommand>,

    #[command(flatten)]
    pub(crate) list: SessionsList,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionsSubcommand {
    /// List sessions, newest first.
    List(SessionsList),
    /// Print a session as readable text.
    Show(SessionName),
    /// Search sessions for words of the user or the model.
    Search {
        #[command(flatten)]
        store: StoreFlags,
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Export a session to a JSON file named after its start time, `YYYYMMDD-HHMMSS.json`.
    Export {
        #[command(flatten)]
        name: SessionName,
        /// File or folder to write to; `-` for standard output.
        #[arg(long, short, value_name = "PATH", default_value = ".")]
        output: PathBuf,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// Delete sessions and everything stored for them.
    Delete {
        #[command(flatten)]
        store: StoreFlags,
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SessionsList {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Maximum number of sessions; 0 for all.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20, value_parser = parse_limit)]
    pub(crate) limit: u64,

    /// Only sessions of this workspace.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndoFlags {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    /// Name of the session, or a prefix of it [default: the last one in this workspace].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Print events as JSON, one per line, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayFlags {
    #[command(flatten)]
    pub(crate) name: SessionName,

    /// Print JSON, one call per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) model: ModelFlags,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EnvCommand {
    /// Allow the API keys and the model in this file, with its current content.
    Allow {
        /// Env file.
        #[arg(value_name = "FILE", default_value = ".env")]
        file: PathBuf,
    },
    /// Forget the answer about this file.
    Forget {
        /// Env file.
        #[arg(value_name = "FILE", default_value = ".env")]
        file: PathBuf,
    },
}
