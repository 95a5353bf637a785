//! `hotcell sessions`: lists, shows, searches, exports and deletes stored sessions.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Event, SessionId};
use serde_json::{Value, json};
use store::{SessionQuery, SessionStore, SessionSummary};

use super::{print, runtime, written};
use crate::args::{SessionName, SessionsCommand, SessionsList, SessionsSubcommand, StoreFlags};
use crate::cli_error::CliError;
use crate::render::{clean, dollars, first_line, tokens, transcript, write_line};
use crate::settings::data_folder;

pub(crate) fn run(sessions: &SessionsCommand) -> Result<u8, CliError> {
    runtime()?.block_on(async {
        match &sessions.command {
            None => list(&sessions.list).await,
            Some(SessionsSubcommand::List(flags)) => list(flags).await,
            Some(SessionsSubcommand::Show(name)) => show(name).await,
            Some(SessionsSubcommand::Search { store, words, json }) => {
                search(store, &words.join(" "), *json).await
            }
            Some(SessionsSubcommand::Export {
                name,
                output,
                force,
            }) => export(name, output, *force).await,
            Some(SessionsSubcommand::Delete { store, sessions }) => delete(store, sessions).await,
        }
    })
}

pub(crate) async fn open(flags: &StoreFlags) -> Result<SessionStore, CliError> {
    Ok(SessionStore::open(&data_folder(flags, None)?).await?)
}

async fn list(flags: &SessionsList) -> Result<u8, CliError> {
    let store = open(&flags.store).await?;
    let real = |folder: &PathBuf| fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
    let page = SessionQuery {
        workspace: flags
            .workspace
            .as_ref()
            .map(|folder| real(folder).display().to_string()),
        before: None,
        limit: flags.limit,
    };
    let found = store.sessions(&page).await?;
    if flags.json {
        let mut lines = found.iter().map(described);
        return written(lines.try_for_each(|line| write_line(&line)));
    }
    if found.is_empty() {
        return print("no sessions yet: `hotcell run \"…\"` starts one\n");
    }
    let now = Timestamp::now();
    let lines: Vec<String> = found.iter().map(|summary| line(summary, now)).collect();
    print(&(lines.join("\n") + "\n"))
}

pub(crate) fn line(summary: &SessionSummary, now: Timestamp) -> String {
    format!(
        "{}  {:>8}  {:11}  {:>3} turns  {:>7} tokens  {:>12}  {}",
        summary.session,
        age(summary.changed, now),
        summary.outcome.as_deref().unwrap_or("unfinished"),
        summary.turns,
        tokens(summary.usage.total()),
        dollars(summary.cost),
        first_line(&summary.title, 60)
    )
}

/// `12 s`, `5 min`, `3 h`, `9 d`.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn described(summary: &SessionSummary) -> Value {
    json!({
        "session": summary.session,
        "begun": summary.begun,
        "changed": summary.changed,
        "title": summary.title,
        "workspace": summary.workspace,
        "model": summary.model,
        "turns": summary.turns,
        "usage": summary.usage,
        "cost": summary.cost,
        "outcome": summary.outcome,
        "events": summary.events,
    })
}

async fn show(name: &SessionName) -> Result<u8, CliError> {
    let store = open(&name.store).await?;
    let session = store.find(&name.session).await?;
    let summary = store.summary(&session).await?;
    let events = store.events(&session).await?;
    print(&format!("{}\n\n{}", heading(&summary), transcript(&events)))
}

fn heading(summary: &SessionSummary) -> String {
    format!(
        "{} · {} · {}\n{} · {} turns · {} tokens · {}",
        summary.session,
        summary.begun.strftime("%Y-%m-%d %H:%M:%S UTC"),
        clean(&summary.workspace),
        clean(&summary.model),
        summary.turns,
        tokens(summary.usage.total()),
        dollars(summary.cost)
    )
}

async fn search(flags: &StoreFlags, words: &str, json: bool) -> Result<u8, CliError> {
    let store = open(flags).await?;
    let found = store.search(words, 50).await?;
    if json {
        let mut lines = found.iter().map(|found| {
            let mut described = described(&found.summary);
            described["excerpt"] = json!(found.excerpt);
            described
        });
        return written(lines.try_for_each(|line| write_line(&line)));
    }
    if found.is_empty() {
        return print("no session matches\n");
    }
    let now = Timestamp::now();
    let lines: Vec<String> = found
        .iter()
        .map(|found| {
            let excerpt = clean(&found.excerpt).replace('\n', " ");
            format!("{}\n    {excerpt}", line(&found.summary, now))
        })
        .collect();
    print(&(lines.join("\n") + "\n"))
}

async fn export(name: &SessionName, output: &Path, force: bool) -> Result<u8, CliError> {
    let store = open(&name.store).await?;
    let session = store.find(&name.session).await?;
    if output == Path::new("-") {
        return print(&export_text(&store, &session).await?);
    }
    let path = export_to(&store, &session, output, force).await?;
    print(&format!("{}\n", path.display()))
}

/// Writes a session to a file, or into a folder under its default name. Returns the path.
pub(crate) async fn export_to(
    store: &SessionStore,
    session: &SessionId,
    output: &Path,
    force: bool,
) -> Result<PathBuf, CliError> {
    let text = export_text(store, session).await?;
    let path = if output.is_dir() {
        output.join(file_name(session))
    } else {
        output.to_owned()
    };
    write_new(&path, &text, force)?;
    Ok(path)
}

/// One field per line and events in order, so that versions can be diffed.
async fn export_text(store: &SessionStore, session: &SessionId) -> Result<String, CliError> {
    let summary = store.summary(session).await?;
    let events = store.events(session).await?;
    document(&summary, &events)
        .map_err(|error| CliError::new(1, format!("cannot export {session}: {error}")))
}

fn document(summary: &SessionSummary, events: &[Event]) -> serde_json::Result<String> {
    let mut document = described(summary);
    document["version"] = json!(protocol::EVENT_VERSION);
    document["events"] = serde_json::to_value(events)?;
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Named after the start of the session: `YYYYMMDD-HHMMSS.json`.
fn file_name(session: &SessionId) -> String {
    format!("{}.json", &session.as_str()[..15])
}

/// Writes a temporary file next to the target, then renames it.
fn write_new(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let complain = |error: &dyn std::fmt::Display| {
        CliError::new(1, format!("cannot write `{}`: {error}", path.display()))
    };
    if !force && path.exists() {
        return Err(
            CliError::usage(format!("`{}` already exists", path.display()))
                .hint("choose another with `--output`, or replace it with `--force`".to_owned()),
        );
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(|error| complain(&error))?;
    draft
        .write_all(text.as_bytes())
        .map_err(|error| complain(&error))?;
    draft
        .persist(path)
        .map_err(|error| complain(&error.error))?;
    Ok(())
}

async fn delete(flags: &StoreFlags, names: &[String]) -> Result<u8, CliError> {
    let store = open(flags).await?;
    // All names are checked before anything is removed.
    let mut sessions = Vec::new();
    for name in names {
        sessions.push(store.find(name).await?);
    }
    for session in &sessions {
        store.delete(session).await?;
        print(&format!("deleted {session}\n"))?;
    }
    Ok(0)
}
