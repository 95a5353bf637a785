//! Flags of `hotcell` without a command.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{BudgetFlags, ModelFlags, SandboxFlags, StoreFlags};

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Opens a session by its name or how that begins.
    #[arg(long, value_name = "SESSION", conflicts_with = "last")]
    pub(crate) load: Option<String>,

    /// Opens the last session of this workspace.
    #[arg(long = "continue", short = 'c')]
    pub(crate) last: bool,

    /// Lines instead of a screen, for simple terminals, screen readers and pipes.
    #[arg(long)]
    pub(crate) plain: bool,

    /// Asks nobody: what no rule allows to leave the sandbox is refused.
    #[arg(long)]
    pub(crate) no_ask: bool,

    /// The server whose jobs can be followed [default: `http://127.0.0.1:3001`].
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) server: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) sandbox: ChatSandboxFlags,

    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

/// The same flags as elsewhere, under a heading.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct ChatSandboxFlags {
    #[command(flatten)]
    pub(crate) flags: SandboxFlags,
}
