//! `hotcell` without a command: a person talks to the agent, on the whole screen or in lines.
//!
//! [`screen`] and [`plain`] are two ways to show and to ask; both talk to a [`partner::Partner`], which
//! is an agent of this process or a job of a server, and both get one from the [`desk::Desk`].

mod desk;
mod errand;
mod partner;
mod picture;
mod plain;
mod remote;
mod screen;
mod talk;

use std::io::{self, IsTerminal};

use crate::args::Chat;
use crate::complaint::Complaint;
use crate::settings::{Overrides, confirm_env_file};

pub(crate) fn run(chat: &Chat) -> Result<u8, Complaint> {
    confirm_env_file(&overrides(chat, None))?;
    if is_plain(chat) {
        plain::run(chat)
    } else {
        screen::run(chat)
    }
}

/// Whether lines are shown instead of a screen: because a person wants it, or because there is no
/// screen.
pub(crate) fn is_plain(chat: &Chat) -> bool {
    let is_simple = match std::env::var_os("TERM") {
        None => true,
        Some(term) => term.is_empty() || term == "dumb",
    };
    chat.plain || is_simple || !io::stdin().is_terminal() || !io::stdout().is_terminal()
}

/// The flags that are settings too; `model` was chosen since, if there is one.
fn overrides(chat: &Chat, model: Option<&str>) -> Overrides {
    Overrides::default()
        .sandbox(&chat.sandbox.flags)
        .model(&chat.model)
        .model_named(model)
        .server(chat.server.as_deref())
        .store(&chat.store)
}
