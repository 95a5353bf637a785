//! Slash commands: the table of all of them, and the parser. Pure; shared with the line mode.

use std::path::PathBuf;

use strsim::osa_distance;
use thiserror::Error;

/// A row of the table of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlashCommandInfo {
    pub name: &'static str,
    /// Placeholder for the argument, as shown to the user.
    pub argument: &'static str,
    pub about: &'static str,
}

/// A parsed slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlashCommand {
    Help,
    Quit,
    Clear,
    Load(String),
    Sessions,
    Fork,
    Undo,
    Redo,
    Diff,
    Files,
    Cost,
    Model(Option<String>),
    Allow(Option<String>),
    Compact,
    Export(Option<PathBuf>),
    Jobs,
    Attach(String),
    Image(PathBuf),
    Copy,
    Search(String),
    Continue,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlashError {
    #[error("there is no command `/{0}`")]
    Unknown(String),
    #[error("`/{name}` requires {argument}")]
    Missing {
        name: &'static str,
        argument: &'static str,
    },
    #[error("`/{0}` takes no argument")]
    TooMuch(&'static str),
}

const fn command_info(
    name: &'static str,
    argument: &'static str,
    about: &'static str,
) -> SlashCommandInfo {
    SlashCommandInfo {
        name,
        argument,
        about,
    }
}

/// In the order of the help.
pub const SLASH_COMMANDS: &[SlashCommandInfo] = &[
    command_info("help", "", "keys and commands"),
    command_info("clear", "", "begin a new session"),
    command_info("sessions", "", "look for a session and open it"),
    command_info("load", "SESSION", "open a session by its name"),
    command_info("fork", "", "go on in a copy of this session"),
    command_info("continue", "", "take up a turn that was cut short"),
    command_info("undo", "", "take back the last turn, files too"),
    command_info("redo", "", "take back the last undo"),
    command_info("diff", "", "what this session has changed"),
    command_info("files", "", "files of the workspace"),
    command_info("cost", "", "tokens, money and budgets"),
    command_info("model", "[NAME]", "choose another model"),
    command_info("allow", "[HOST]", "open a host to the sandbox"),
    command_info("compact", "", "put a summary in the place of the past"),
    command_info("image", "FILE", "show a picture to the model"),
    command_info("search", "[WORDS]", "look for words on this page"),
    command_info("copy", "", "copy the last reply"),
    command_info("export", "[FILE]", "write the session to a file"),
    command_info("jobs", "", "jobs of the server"),
    command_info("attach", "JOB", "follow a job of the server"),
    command_info("quit", "", "leave"),
];

impl SlashCommand {
    /// Parses a line. Returns `None` if it is a message rather than a command: a line that starts
    /// with a space or with two slashes is a message.
    pub fn parse(line: &str) -> Option<Result<Self, SlashError>> {
        let rest = line.trim_end().strip_prefix('/')?;
        let (name, argument) = match rest.split_once(char::is_whitespace) {
            Some((name, argument)) => (name, argument.trim()),
            None => (rest, ""),
        };
        // A path, not a command.
        if name.contains('/') || rest.contains('\n') {
            return None;
        }
        Some(Self::of(name, argument))
    }

    fn of(name: &str, argument: &str) -> Result<Self, SlashError> {
        let Some(known) = SLASH_COMMANDS.iter().find(|known| known.name == name) else {
            return Err(SlashError::Unknown(name.to_owned()));
        };
        let optional = (!argument.is_empty()).then(|| argument.to_owned());
        let needed = || match optional.clone() {
            Some(argument) => Ok(argument),
            None => Err(SlashError::Missing {
                name: known.name,
                argument: known.argument,
            }),
        };
        if known.argument.is_empty() && optional.is_some() {
            return Err(SlashError::TooMuch(known.name));
        }
        Ok(match known.name {
            "help" => Self::Help,
            "quit" => Self::Quit,
            "clear" => Self::Clear,
            "load" => Self::Load(needed()?),
            "sessions" => Self::Sessions,
            "fork" => Self::Fork,
            "continue" => Self::Continue,
            "undo" => Self::Undo,
            "redo" => Self::Redo,
            "diff" => Self::Diff,
            "files" => Self::Files,
            "cost" => Self::Cost,
            "model" => Self::Model(optional),
            "allow" => Self::Allow(optional),
            "compact" => Self::Compact,
            "export" => Self::Export(optional.map(PathBuf::from)),
            "jobs" => Self::Jobs,
            "attach" => Self::Attach(needed()?),
            "image" => Self::Image(PathBuf::from(needed()?)),
            "copy" => Self::Copy,
            "search" => Self::Search(argument.to_owned()),
            _ => return Err(SlashError::Unknown(name.to_owned())),
        })
    }
}

/// The command whose name is closest to a word, if any is close.
pub fn nearest(word: &str) -> Option<&'static str> {
    let distances = SLASH_COMMANDS
        .iter()
        .map(|known| (osa_distance(word, known.name), known.name));
    let (distance, name) = distances.min()?;
    let begins = !word.is_empty() && (name.starts_with(word) || word.starts_with(name));
    (distance <= 2 && distance < name.len() - 1 || begins).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_row_parses_as_a_command() {
        for known in SLASH_COMMANDS {
            let line = format!("/{} {}", known.name, known.argument);
            assert!(matches!(SlashCommand::parse(&line), Some(Ok(_))), "{line}");
        }
    }

    #[test]
    fn lines_are_parsed_as_commands() {
        fn check(line: &str, expect: Option<Result<SlashCommand, SlashError>>) {
            assert_eq!(SlashCommand::parse(line), expect, "{line}");
        }
        check("hello", None);
        check("/usr/bin is a folder", None);
        check("/help\nme", None);
        check("/quit ", Some(Ok(SlashCommand::Quit)));
        check(" /quit", None);
        check("//quit", None);
        check("/", Some(Err(SlashError::Unknown(String::new()))));
        check("/load 2026", Some(Ok(SlashCommand::Load("2026".into()))));
        check("/model", Some(Ok(SlashCommand::Model(None))));
        check(
            "/load",
            Some(Err(SlashError::Missing {
                name: "load",
                argument: "SESSION",
            })),
        );
        check("/undo it", Some(Err(SlashError::TooMuch("undo"))));
        check("/nothing", Some(Err(SlashError::Unknown("nothing".into()))));
    }

    #[test]
    fn the_nearest_command_is_found() {
        fn check(word: &str, expect: Option<&str>) {
            assert_eq!(nearest(word), expect, "{word}");
        }
        check("hlep", Some("help"));
        check("udno", Some("undo"));
        check("session", Some("sessions"));
        check("exprot", Some("export"));
        check("xyzzy", None);
        check("", None);
    }
}
