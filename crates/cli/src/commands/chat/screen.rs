//! The chat on the full screen: the UI has its own thread; this is the program around it.
//!
//! The first frame is drawn before anything is opened: what is checked before it needs no store and no
//! sandbox. Draws nothing itself.

mod answers;
mod host;
mod requests;

use std::io::Write;
use std::thread::{self, JoinHandle};

use protocol::SessionId;
use store::Store;
use tokio::signal::unix::{SignalKind, signal};
use tui::{Ended, Look, Notice, TuiError};

use self::host::Host;
use super::super::drive::INTERRUPTED;
use super::super::runtime;
use super::desk::{Desk, Plan, Start};
use super::overrides;
use crate::args::Chat;
use crate::complaint::{Complaint, HeldNotes};
use crate::render::{dollars, tokens};
use crate::settings::Settings;

const FAILED: u8 = 1;
/// Exit code when the terminal is gone.
const HANGUP: u8 = 129;

pub(super) fn run(chat: &Chat) -> Result<u8, Complaint> {
    let notes = HeldNotes::new();
    let runtime = runtime()?;
    let settings = screen_settings(&Settings::read(&overrides(chat, None))?)?;
    // The settings are read again for the session, with the same result.
    notes.take();
    let beginning = if chat.load.is_some() || chat.last {
        // Only the store knows whether the session exists.
        runtime.block_on(loaded(chat))?
    } else {
        Beginning::Planned(Box::new(Plan::new(chat, None, true)?))
    };
    let cannot = |error| Complaint::new(FAILED, format!("cannot start the UI: {error}"));
    let (ends, port) = tui::channel().map_err(cannot)?;
    let screen = thread::Builder::new()
        .name("screen".to_owned())
        .spawn(move || tui::run(&settings, port))
        .map_err(cannot)?;
    runtime.block_on(talk(chat, beginning, ends, screen, &notes))
}

/// What the chat starts with.
enum Beginning<'a> {
    Planned(Box<Plan>),
    Loaded { desk: Desk<'a>, start: Box<Start> },
}

async fn loaded(chat: &Chat) -> Result<Beginning<'_>, Complaint> {
    let desk = Desk::open(chat, &Desk::data(chat)?, true).await?;
    let start = Box::new(desk.load(chat.load.as_deref()).await?);
    Ok(Beginning::Loaded { desk, start })
}

type Screen = JoinHandle<Result<Ended, TuiError>>;

/// Hosts the UI until it and the session have ended.
async fn talk(
    chat: &Chat,
    beginning: Beginning<'_>,
    ends: tui::Host,
    screen: Screen,
    notes: &HeldNotes,
) -> Result<u8, Complaint> {
    let (desk, start) = match begin(chat, beginning).await {
        Ok(begun) => begun,
        Err(complaint) => {
            ends.notices.send(Notice::Quit).await;
            end(screen)?;
            return Err(complaint);
        }
    };
    let store = desk.store.clone();
    let mut host = Host::new(desk, ends, notes);
    host.open(start).await;
    host.serve().await;
    // The terminal is restored before anything takes long.
    let code = end(screen).and_then(|code| hurry().map(|()| code));
    let (ended, session) = host.leave().await;
    ended?;
    let code = code?;
    if let Some(session) = session {
        say_farewell(&store, &session).await?;
    }
    Ok(code)
}

async fn begin<'a>(
    chat: &'a Chat,
    beginning: Beginning<'a>,
) -> Result<(Desk<'a>, Start), Complaint> {
    match beginning {
        Beginning::Loaded { desk, start } => Ok((desk, *start)),
        Beginning::Planned(plan) => {
            let desk = Desk::open(chat, &plan.data, true).await?;
            let start = desk.begin(Some(*plan)).await?;
            Ok((desk, start))
        }
    }
}

/// Waits for the end of the UI, which is immediate. Returns the exit code.
fn end(screen: Screen) -> Result<u8, Complaint> {
    match screen.join() {
        Ok(Ok(Ended::Left)) => Ok(0),
        Ok(Ok(Ended::Signal(number))) => Ok(128 + u8::try_from(number).unwrap_or(0)),
        Ok(Ok(Ended::Gone)) => Ok(HANGUP),
        Ok(Err(TuiError::Panicked)) | Err(_) => Err(Complaint::new(FAILED, "the UI has failed")
            .hint("the session is kept: `hotcell --continue` opens it".to_owned())),
        Ok(Err(error)) => Err(error.into()),
    }
}

/// Ends this process at the next signal, so that the user need not wait for the agent to end. The sandbox
/// ends with the process. Starts to listen only after the UI, which handled the signals until then, has
/// ended: the signal that ended the UI does not count.
fn hurry() -> Result<(), Complaint> {
    // SIGHUP does not count: the kernel and the shell may both send it when a terminal closes.
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).map_err(|error| {
            Complaint::new(FAILED, format!("cannot listen to signals: {error}"))
        })?;
        // Not joined: listens for the lifetime of the process.
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                std::process::exit(INTERRUPTED.into());
            }
        });
    }
    Ok(())
}

/// Prints a summary of the session and how to resume it.
async fn say_farewell(store: &Store, session: &SessionId) -> Result<(), Complaint> {
    let summary = store.summary(session).await?;
    let turns = match summary.turns {
        1 => "1 turn".to_owned(),
        many => format!("{many} turns"),
    };
    let line = format!(
        "session {session} · {turns} · {} tokens · {}\n`hotcell --load {session}` resumes it\n",
        tokens(summary.usage.total()),
        dollars(summary.cost)
    );
    // Standard error may be closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
    Ok(())
}

impl From<TuiError> for Complaint {
    fn from(error: TuiError) -> Self {
        Self::from_error(FAILED, &error).hint("`hotcell --plain` requires no full screen".to_owned())
    }
}

/// Settings of the UI from the environment.
fn screen_settings(settings: &Settings) -> Result<tui::Settings, Complaint> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chosen = look(settings)?;
    let guessed = guess(named("NO_COLOR").as_deref(), named("COLORFGBG").as_deref());
    Ok(tui::Settings {
        look: chosen.or(guessed).unwrap_or_default(),
        // The terminal is asked unless the user has chosen.
        asks_look: chosen.or(guessed).is_none(),
        editor: named("VISUAL").or_else(|| named("EDITOR")),
        is_in_tmux: named("TMUX").is_some(),
    })
}

/// The user's choice, if there is one.
fn look(settings: &Settings) -> Result<Option<Look>, Complaint> {
    let parse = |text: &str| match text {
        "auto" => Ok(None),
        "dark" => Ok(Some(Look::Dark)),
        "light" => Ok(Some(Look::Light)),
        "none" => Ok(Some(Look::Plain)),
        _ => Err("it must be auto, dark, light or none".to_owned()),
    };
    Ok(settings.parse("colour", parse)?.flatten())
}

/// `COLORFGBG` has the numbers of the text and background colours, as in `15;0`.
fn guess(no_color: Option<&str>, color_fg_bg: Option<&str>) -> Option<Look> {
    if no_color.is_some() {
        return Some(Look::Plain);
    }
    match color_fg_bg?.rsplit(';').next()?.parse().ok()? {
        7 | 9..=15 => Some(Look::Light),
        0..=8 => Some(Look::Dark),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks() {
        for (no_color, color_fg_bg, expect) in [
            (None, None, None),
            (None, Some("15;0"), Some(Look::Dark)),
            (None, Some("0;15"), Some(Look::Light)),
            (None, Some("0;default;15"), Some(Look::Light)),
            (None, Some("15;default"), None),
            (Some("1"), Some("0;15"), Some(Look::Plain)),
        ] {
            assert_eq!(guess(no_color, color_fg_bg), expect, "{color_fg_bg:?}");
        }
    }
}
