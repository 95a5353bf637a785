//! Flags of `hotcell` without a command.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{BudgetFlags, ModelFlags, SandboxFlags, StoreFlags};

#[derive(Debug, Args)]
pub(crate) struct ChatFlags {
    /// Open a session by its name or a prefix of it.
    #[arg(long, value_name = "SESSION", conflicts_with = "last")]
    pub(crate) load: Option<String>,

    /// Open the last session of this workspace.
    #[arg(long = "continue", short = 'c')]
    pub(crate) last: bool,

    /// Use lines instead of a full screen, for simple terminals, screen readers and pipes.
    #[arg(long)]
    pub(crate) plain: bool,

    /// Never ask: deny connections that no rule allows.
    #[arg(long)]
    pub(crate) no_ask: bool,

    /// Server whose jobs can be followed [default: `http://127.0.0.1:3001`].
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

/// The usual sandbox flags, under their own help heading.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct ChatSandboxFlags {
    #[command(flatten)]
    pub(crate) flags: SandboxFlags,
}
