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
use store::SessionStore;
use tokio::signal::unix::{SignalKind, signal};
use tui::{ColourScheme, TuiError, TuiExit, UiNotice};

use self::host::UiHost;
use super::super::run_command::INTERRUPTED;
use super::super::runtime;
use super::overrides;
use super::session_opener::{ReadySession, SessionOpener, SessionPlan};
use crate::args::ChatFlags;
use crate::cli_error::{CliError, HeldNotes};
use crate::render::{dollars, tokens};
use crate::settings::Settings;

const SCREEN_FAILED: u8 = 1;
/// Exit code when the terminal is gone.
const HANGUP_CODE: u8 = 129;

pub(super) fn run(chat: &ChatFlags) -> Result<u8, CliError> {
    let notes = HeldNotes::new();
    let runtime = runtime()?;
    let settings = screen_settings(&Settings::read(&overrides(chat, None))?)?;
    // The settings are read again for the session, with the same result.
    notes.take();
    let beginning = if chat.load.is_some() || chat.last {
        // Only the store knows whether the session exists.
        runtime.block_on(load_session(chat))?
    } else {
        ScreenStart::Planned(Box::new(SessionPlan::new(chat, None, true)?))
    };
    let cannot = |error| CliError::new(SCREEN_FAILED, format!("cannot start the UI: {error}"));
    let (ends, port) = tui::channel().map_err(cannot)?;
    let screen = thread::Builder::new()
        .name("screen".to_owned())
        .spawn(move || tui::run(&settings, port))
        .map_err(cannot)?;
    runtime.block_on(host_ui(chat, beginning, ends, screen, &notes))
}

/// What the chat starts with.
enum ScreenStart<'a> {
    Planned(Box<SessionPlan>),
    Loaded {
        desk: SessionOpener<'a>,
        start: Box<ReadySession>,
    },
}

async fn load_session(chat: &ChatFlags) -> Result<ScreenStart<'_>, CliError> {
    let desk = SessionOpener::open(chat, &SessionOpener::data(chat)?, true).await?;
    let start = Box::new(desk.load(chat.load.as_deref()).await?);
    Ok(ScreenStart::Loaded { desk, start })
}

type UiTask = JoinHandle<Result<TuiExit, TuiError>>;

/// Hosts the UI until it and the session have ended.
async fn host_ui(
    chat: &ChatFlags,
    beginning: ScreenStart<'_>,
    ends: tui::HostPort,
    screen: UiTask,
    notes: &HeldNotes,
) -> Result<u8, CliError> {
    let (desk, start) = match open_session(chat, beginning).await {
        Ok(begun) => begun,
        Err(complaint) => {
            ends.notices.send(UiNotice::Quit).await;
            wait_ui_end(screen)?;
            return Err(complaint);
        }
    };
    let store = desk.store.clone();
    let mut host = UiHost::new(desk, ends, notes);
    host.open(start).await;
    host.serve().await;
    // The terminal is restored before anything takes long.
    let code = wait_ui_end(screen).and_then(|code| hurry().map(|()| code));
    let (ended, session) = host.leave().await;
    ended?;
    let code = code?;
    if let Some(session) = session {
        print_session_summary(&store, &session).await?;
    }
    Ok(code)
}

async fn open_session<'a>(
    chat: &'a ChatFlags,
    beginning: ScreenStart<'a>,
) -> Result<(SessionOpener<'a>, ReadySession), CliError> {
    match beginning {
        ScreenStart::Loaded { desk, start } => Ok((desk, *start)),
        ScreenStart::Planned(plan) => {
            let desk = SessionOpener::open(chat, &plan.data, true).await?;
            let start = desk.begin(Some(*plan)).await?;
            Ok((desk, start))
        }
    }
}

/// Waits for the end of the UI, which is immediate. Returns the exit code.
fn wait_ui_end(screen: UiTask) -> Result<u8, CliError> {
    match screen.join() {
        Ok(Ok(TuiExit::Left)) => Ok(0),
        Ok(Ok(TuiExit::Signal(number))) => Ok(128 + u8::try_from(number).unwrap_or(0)),
        Ok(Ok(TuiExit::Gone)) => Ok(HANGUP_CODE),
        Ok(Err(TuiError::Panicked)) | Err(_) => {
            Err(CliError::new(SCREEN_FAILED, "the UI has failed")
                .hint("the session is kept: `hotcell --continue` opens it".to_owned()))
        }
        Ok(Err(error)) => Err(error.into()),
    }
}

/// Ends this process at the next signal, so that the user need not wait for the agent to end. The sandbox
/// ends with the process. Starts to listen only after the UI, which handled the signals until then, has
/// ended: the signal that ended the UI does not count.
fn hurry() -> Result<(), CliError> {
    // SIGHUP does not count: the kernel and the shell may both send it when a terminal closes.
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).map_err(|error| {
            CliError::new(SCREEN_FAILED, format!("cannot listen to signals: {error}"))
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
async fn print_session_summary(store: &SessionStore, session: &SessionId) -> Result<(), CliError> {
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

impl From<TuiError> for CliError {
    fn from(error: TuiError) -> Self {
        Self::from_error(SCREEN_FAILED, &error)
            .hint("`hotcell --plain` requires no full screen".to_owned())
    }
}

/// Settings of the UI from the environment.
fn screen_settings(settings: &Settings) -> Result<tui::TuiSettings, CliError> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chosen = look(settings)?;
    let guessed = guess_look(named("NO_COLOR").as_deref(), named("COLORFGBG").as_deref());
    Ok(tui::TuiSettings {
        look: chosen.or(guessed).unwrap_or_default(),
        // The terminal is asked unless the user has chosen.
        asks_look: chosen.or(guessed).is_none(),
        editor: named("VISUAL").or_else(|| named("EDITOR")),
        is_in_tmux: named("TMUX").is_some(),
    })
}

/// The user's choice, if there is one.
fn look(settings: &Settings) -> Result<Option<ColourScheme>, CliError> {
    let parse = |text: &str| match text {
        "auto" => Ok(None),
        "dark" => Ok(Some(ColourScheme::Dark)),
        "light" => Ok(Some(ColourScheme::Light)),
        "none" => Ok(Some(ColourScheme::Plain)),
        _ => Err("it must be auto, dark, light or none".to_owned()),
    };
    Ok(settings.parse("colour", parse)?.flatten())
}

/// `COLORFGBG` has the numbers of the text and background colours, as in `15;0`.
fn guess_look(no_color: Option<&str>, color_fg_bg: Option<&str>) -> Option<ColourScheme> {
    if no_color.is_some() {
        return Some(ColourScheme::Plain);
    }
    match color_fg_bg?.rsplit(';').next()?.parse().ok()? {
        7 | 9..=15 => Some(ColourScheme::Light),
        0..=8 => Some(ColourScheme::Dark),
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
            (None, Some("15;0"), Some(ColourScheme::Dark)),
            (None, Some("0;15"), Some(ColourScheme::Light)),
            (None, Some("0;default;15"), Some(ColourScheme::Light)),
            (None, Some("15;default"), None),
            (Some("1"), Some("0;15"), Some(ColourScheme::Plain)),
        ] {
            assert_eq!(guess_look(no_color, color_fg_bg), expect, "{color_fg_bg:?}");
        }
    }
}
