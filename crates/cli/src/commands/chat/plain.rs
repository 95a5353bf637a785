//! The chat in lines, for simple terminals, screen readers and pipes. The cursor never moves back.
//!
//! The user and the agent take turns, so this is blocking code on the main thread. The agent and the
//! signal handling have their own thread.

mod awaited;
mod dialogue;
mod input;
mod lists;
mod question;
mod signals;
mod slash;

use std::io::{self, IsTerminal};
use std::sync::Arc;

use tokio::runtime::Runtime;

use self::dialogue::Dialogue;
use self::input::LineInput;
use self::signals::SignalInbox;
use super::session_opener::{SessionOpener, SessionPlan};
use crate::args::ChatFlags;
use crate::cli_error::CliError;

const CHAT_FAILED: u8 = 1;

pub(super) fn run(chat: &ChatFlags) -> Result<u8, CliError> {
    let is_person = io::stdin().is_terminal();
    let runtime = runtime()?;
    let (desk, start) = runtime.block_on(async {
        if chat.load.is_some() || chat.last {
            let desk = SessionOpener::open(chat, &SessionOpener::data(chat)?, is_person).await?;
            let start = desk.load(chat.load.as_deref()).await?;
            return Ok::<_, CliError>((desk, start));
        }
        let plan = SessionPlan::new(chat, None, is_person)?;
        let desk = SessionOpener::open(chat, &plan.data, is_person).await?;
        let start = desk.begin(Some(plan)).await?;
        Ok((desk, start))
    })?;
    let cannot = |error| CliError::new(CHAT_FAILED, format!("cannot read the input: {error}"));
    let (attention, call) = SignalInbox::new().map_err(cannot)?;
    let attention = Arc::new(attention);
    let _guard = runtime.enter();
    signals::listen(&attention).map_err(|error| {
        CliError::new(CHAT_FAILED, format!("cannot listen to signals: {error}"))
    })?;
    let input = LineInput::new(is_person, attention.clone(), call);
    let mut dialogue = Dialogue::new(&runtime, desk, input, attention);
    dialogue.open(start);
    let ended = dialogue.serve();
    dialogue.end(ended)
}

/// One thread for the agent, beside this one.
fn runtime() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CliError::new(CHAT_FAILED, format!("cannot start the runtime: {error}")))
}
