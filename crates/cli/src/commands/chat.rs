//! `hotcell` without a subcommand: a chat with the agent, on the full screen or in lines.
//!
//! [`screen`] and [`plain`] are the two user interfaces. Both talk to a [`chat_peer::ChatPeer`], which is an
//! agent of this process or a job of a server, and get it from the [`session_opener::SessionOpener`].

mod chat_peer;
mod chat_state;
mod lookups;
mod picture;
mod plain;
mod remote;
mod screen;
mod session_opener;

use std::io::{self, IsTerminal};

use crate::args::ChatFlags;
use crate::cli_error::CliError;
use crate::settings::{SettingOverrides, confirm_env_file};

pub(crate) fn run(chat: &ChatFlags) -> Result<u8, CliError> {
    confirm_env_file(&overrides(chat, None))?;
    if is_plain(chat) {
        plain::run(chat)
    } else {
        screen::run(chat)
    }
}

/// Whether to use lines instead of a full screen: because a flag asks for it, or because the terminal
/// has no full screen.
pub(crate) fn is_plain(chat: &ChatFlags) -> bool {
    let is_simple = match std::env::var_os("TERM") {
        None => true,
        Some(term) => term.is_empty() || term == "dumb",
    };
    chat.plain || is_simple || !io::stdin().is_terminal() || !io::stdout().is_terminal()
}

/// The flags that are also settings; `model` is the model chosen since the start, if any.
fn overrides(chat: &ChatFlags, model: Option<&str>) -> SettingOverrides {
    SettingOverrides::default()
        .sandbox(&chat.sandbox.flags)
        .model(&chat.model)
        .model_named(model)
        .server(chat.server.as_deref())
        .store(&chat.store)
}
