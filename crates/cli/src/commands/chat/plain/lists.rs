//! Lists and other results as text for standard output. Mostly pure.

use std::io::{self, Write};

use jiff::Timestamp;
use protocol::{Change, EventKind};
use store::SearchHit;
use tui::{SLASH_COMMANDS, SlashCommandInfo};

use crate::commands::chat::chat_state::ChatState;
use crate::commands::chat::remote::RemoteJob;
use crate::commands::sessions::line;
use crate::render::{TextView, clean, first_line, spent};

/// Commands that require the full screen.
const SCREEN_ONLY_COMMANDS: [&str; 2] = ["search", "copy"];

/// Maximum sessions listed.
const MAX_LISTED_SESSIONS: usize = 20;

pub(super) fn help() -> String {
    let is_ours = |slash: &&SlashCommandInfo| !SCREEN_ONLY_COMMANDS.contains(&slash.name);
    let rows = SLASH_COMMANDS.iter().filter(is_ours).map(|slash| {
        let name = format!("/{} {}", slash.name, slash.argument);
        format!("{name:18} {}\n", slash.about)
    });
    let rows: String = rows.collect();
    format!(
        "{rows}\n\
         A line that ends with \\ continues on the next line; \"\"\" begins and ends a text of many lines.\n\
         Ctrl-C interrupts the agent.\n"
    )
}

pub(super) fn sessions(found: &[SearchHit]) -> String {
    let now = Timestamp::now();
    let rows = found.iter().take(MAX_LISTED_SESSIONS);
    rows.map(|found| line(&found.summary, now) + "\n").collect()
}

pub(super) fn jobs(jobs: &[RemoteJob]) -> String {
    let row = |job: &RemoteJob| {
        let task = first_line(&job.task, 60);
        format!("{}  {:9} {task}\n", job.id, clean(&job.state))
    };
    jobs.iter().map(row).collect()
}

pub(super) fn cost(talk: &ChatState) -> String {
    match &talk.spending {
        Some(spending) => spent(spending) + "\n",
        None => "nothing was spent yet\n".to_owned(),
    }
}

pub(super) fn network(hosts: &[String]) -> String {
    match hosts {
        [] => "no host is open\n".to_owned(),
        hosts => lines(hosts),
    }
}

pub(super) fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| clean(line) + "\n").collect()
}

/// Shows events that the view of a turn does not show.
pub(super) fn show(kind: &EventKind, view: &mut TextView) -> io::Result<()> {
    match kind {
        EventKind::Files { paths, is_cut } => {
            print(&lines(paths))?;
            if *is_cut {
                view.announce("more files exist")
            } else {
                Ok(())
            }
        }
        EventKind::Differs { changes, left_out } => {
            print(&changes.iter().map(difference).collect::<String>())?;
            match (changes.len(), left_out) {
                (0, 0) => view.announce("nothing was changed"),
                (_, 0) => Ok(()),
                (_, more) => view.announce(&format!("{more} more changed")),
            }
        }
        EventKind::NetworkChanged { network } => {
            view.announce(&format!("open hosts: {}", clean(&network.join(", "))))
        }
        EventKind::Decided {
            question,
            decision: None,
        } => view.announce(&format!(
            "question withdrawn: {}",
            first_line(&question.what, 120)
        )),
        EventKind::Background { jobs } => {
            for job in jobs {
                if let Some(ending) = &job.ending {
                    let command = first_line(&job.command, 80);
                    view.announce(&format!("`{command}` has ended: {}", clean(ending)))?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn difference(change: &Change) -> String {
    let path = clean(&change.path);
    match &change.diff {
        Some(diff) => format!("{path}\n{}\n", clean(diff).trim_end()),
        None => format!("{path}\n"),
    }
}

/// Writes to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
