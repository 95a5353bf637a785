//! Flags of the commands that talk to a model or look after sessions.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::SandboxFlags;
use crate::values::{parse_cost, parse_count, parse_duration, parse_limit};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The task; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,

    #[command(flatten)]
    pub(crate) agent: Agent,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The session's name or how it begins [default: the last one in this workspace].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// What to say next; `-` reads it from standard input. Without it, a turn that was cut short
    /// goes on.
    #[arg(long, short, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Leaves the session as it is and goes on in a copy.
    #[arg(long)]
    pub(crate) fork: bool,

    #[command(flatten)]
    pub(crate) agent: Agent,
}

/// How an agent works; shared by all commands that start one.
#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Prints one event a line, as JSON, on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    // These have headings of their own, which hold for all that follows: so they come last.
    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelFlags {
    /// `claude-…`, or `openai/NAME` for a server that speaks chat completions.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,

    /// Where the provider is, such as `http://127.0.0.1:11434`.
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) base_url: Option<String>,

    /// Most tokens of one reply.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_tokens: Option<u64>,

    /// Tokens that the model may think before it speaks; at least 1024.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) thinking: Option<u64>,

    /// Reads API keys and the model from this file instead of `.env`, without asking.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// US dollars, such as `0.50`.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_cost)]
    pub(crate) max_cost: Option<f64>,

    /// Input and output tokens of all requests together.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_tokens_total: Option<u64>,

    /// Requests to the model.
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) max_turns: Option<u64>,

    /// Wall time, for instance `90s`, `10m`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_time: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// Where sessions are kept [default: `hotcell` in the user's data folder].
    #[arg(long, value_name = "FOLDER", env = "HOTCELL_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// The settings file [default: `hotcell/config.toml` in the user's config folder].
    #[arg(long, value_name = "FILE", env = "HOTCELL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionName {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// The session's name, or how it begins.
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
    /// Lists sessions, the newest first.
    List(SessionsList),
    /// Prints a session for people to read.
    Show(SessionName),
    /// Finds sessions by words that the person or the model said.
    Search {
        #[command(flatten)]
        store: StoreFlags,
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Writes a session to a JSON file named after its beginning, `YYYYMMDD-HHMMSS.json`.
    Export {
        #[command(flatten)]
        name: SessionName,
        /// The file or folder to write to; `-` is standard output.
        #[arg(long, short, value_name = "PATH", default_value = ".")]
        output: PathBuf,
        /// Replaces a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Removes sessions with all that was kept for them.
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

    /// How many; 0 is all.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20, value_parser = parse_limit)]
    pub(crate) limit: u64,

    /// Only those of this workspace.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,

    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,

    /// The session's name or how it begins [default: the last one in this workspace].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Prints one event a line, as JSON, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) name: SessionName,

    /// For programs: one call a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) model: ModelFlags,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EnvCommand {
    /// Allows the API keys and the model in this file, with its present content.
    Allow {
        /// The file.
        #[arg(value_name = "FILE", default_value = ".env")]
        file: PathBuf,
    },
    /// Forgets what was answered about this file.
    Forget {
        /// The file.
        #[arg(value_name = "FILE", default_value = ".env")]
        file: PathBuf,
    },
}
