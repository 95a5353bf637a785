//! A separate process for tests, which is killed, locked out or runs out of disk space.
//!
//! `appender append|hold|fill FOLDER SESSION`: prints acknowledged events to standard output.

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use protocol::{Block, EventKind, SessionId};
use store::{Journal, SessionStore, StoreError};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["append", folder, session] => append(folder, session).await,
        ["hold", folder, session] => hold(folder, session).await,
        ["fill", folder, session] => fill(folder, session).await,
        _ => Err("appender append|hold|fill FOLDER SESSION".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = print_line(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Appends until it is killed.
async fn append(folder: &str, session: &str) -> Result<(), Failure> {
    let store = SessionStore::open(Path::new(folder)).await?;
    let mut journal = open_journal(&store, session).await?;
    loop {
        let kind = text_event(&journal, 1000);
        let event = journal.append(Timestamp::now(), kind).await?;
        print_line(&event.seq.unwrap_or_default().to_string())?;
    }
}

/// Locks the session until standard input ends.
async fn hold(folder: &str, session: &str) -> Result<(), Failure> {
    let store = SessionStore::open(Path::new(folder)).await?;
    let _journal = open_journal(&store, session).await?;
    print_line("held")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Appends until files cannot grow. Then allows them to grow again and appends once more.
async fn fill(folder: &str, session: &str) -> Result<(), Failure> {
    let store = SessionStore::open(Path::new(folder)).await?;
    let mut journal = open_journal(&store, session).await?;
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE)?;
    setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, hard)?;
    loop {
        let kind = text_event(&journal, 5000);
        match journal.append(Timestamp::now(), kind).await {
            Ok(event) => print_line(&event.seq.unwrap_or_default().to_string())?,
            Err(error) => {
                print_line(&format!("full: {error}"))?;
                break;
            }
        }
    }
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard)?;
    let kind = text_event(&journal, 1);
    let event = journal.append(Timestamp::now(), kind).await?;
    print_line(&event.seq.unwrap_or_default().to_string())?;
    Ok(())
}

async fn open_journal(store: &SessionStore, session: &str) -> Result<Journal, Failure> {
    let session: SessionId = session.parse()?;
    match store.claim(&session).await {
        Ok((journal, _)) => Ok(journal),
        Err(StoreError::Unknown(_)) => {
            let mut journal = store.begin(session).await?;
            let start = EventKind::SessionStarted {
                release: "test".into(),
                workspace: "/w".into(),
                model: "m".into(),
                forked_from: None,
            };
            journal.append(Timestamp::now(), start).await?;
            Ok(journal)
        }
        Err(error) => Err(error.into()),
    }
}

/// An event whose text is also added to the search index.
fn text_event(journal: &Journal, length: usize) -> EventKind {
    EventKind::TurnStarted {
        turn: 1,
        prompt: vec![Block::text(format!(
            "words of {} {}",
            journal.session(),
            "x".repeat(length)
        ))],
    }
}

fn print_line(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
