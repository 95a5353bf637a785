//! An error for the user: one line, a hint if there is a fix, an exit code.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use protocol::error_chain;
use sandbox::SandboxError;
use sandbox::request::RefusalKind;
use store::StoreError;

use crate::render::clean;

/// Exit code for wrong input.
pub(crate) const USAGE_ERROR: u8 = 2;
/// Exit code when the sandbox could not be started or failed.
pub(crate) const SANDBOX_FAILED: u8 = 125;

/// An error to be shown to the user.
#[derive(Debug)]
pub(crate) struct CliError {
    text: String,
    hint: Option<String>,
    code: u8,
}

impl CliError {
    /// Wrong input.
    pub(crate) fn usage(text: impl Display) -> Self {
        Self::new(USAGE_ERROR, text)
    }

    pub(crate) fn new(code: u8, text: impl Display) -> Self {
        Self {
            text: text.to_string(),
            hint: None,
            code,
        }
    }

    /// An error with its causes.
    pub(crate) fn from_error(code: u8, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(code, error_chain(error))
    }

    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Maps codes of `exec` to those of the agent commands, where they mean something else.
    pub(crate) fn with_agent_code(mut self) -> Self {
        if self.code != USAGE_ERROR {
            self.code = 1;
        }
        self
    }

    /// Without its hint, for a reader who is not at this terminal.
    pub(crate) fn into_line(self) -> String {
        self.text
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The text and the hint, for display elsewhere.
    pub(crate) fn into_parts(self) -> (String, Option<String>) {
        (clean(&self.text), self.hint.map(|hint| clean(&hint)))
    }

    pub(crate) fn tell(self) -> ExitCode {
        warn(self.text);
        if let Some(hint) = self.hint {
            print_line(&format!("hint: {hint}"));
        }
        ExitCode::from(self.code)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::Unknown(_) => (USAGE_ERROR, Some("`hotcell sessions` lists sessions")),
            StoreError::Ambiguous { .. } => (USAGE_ERROR, Some("use a longer prefix")),
            StoreError::InUse(_) => (
                USAGE_ERROR,
                Some("end the other one, or continue in a copy with `hotcell resume --fork`"),
            ),
            StoreError::Newer { .. } => (
                USAGE_ERROR,
                Some("update hotcell, or choose another `--data FOLDER`"),
            ),
            StoreError::Open { .. } => (1, Some("choose another folder with `--data FOLDER`")),
            _ => (1, None),
        };
        Self::from_error(code, &error).hint(hint.map(str::to_owned))
    }
}

impl From<SandboxError> for CliError {
    fn from(error: SandboxError) -> Self {
        let code = match &error {
            SandboxError::Workspace { .. }
            | SandboxError::Image { .. }
            | SandboxError::Unenforced { .. } => USAGE_ERROR,
            SandboxError::Refused(refusal) => match refusal.kind {
                RefusalKind::NotFound => 127,
                RefusalKind::Denied | RefusalKind::WrongType | RefusalKind::Invalid => 126,
                _ => SANDBOX_FAILED,
            },
            _ => SANDBOX_FAILED,
        };
        Self::from_error(code, &error).hint(error.hint())
    }
}

/// Prints a note that stops nothing.
pub(crate) fn warn(text: impl Display) {
    let mut held = HELD_NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    match held.as_mut() {
        Some(notes) => notes.push(clean(&text.to_string())),
        None => print_line(&format!("hotcell: {text}")),
    }
}

/// Notes held back while the UI uses the terminal.
static HELD_NOTES: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Holds notes back as long as it lives. On drop, those that were not taken are printed.
#[derive(Debug)]
pub(crate) struct HeldNotes(());

impl HeldNotes {
    pub(crate) fn new() -> Self {
        let mut held = HELD_NOTES.lock().unwrap_or_else(PoisonError::into_inner);
        held.get_or_insert_default();
        Self(())
    }

    /// Takes the notes held so far.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut held = HELD_NOTES.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for HeldNotes {
    fn drop(&mut self) {
        let mut held = HELD_NOTES.lock().unwrap_or_else(PoisonError::into_inner);
        for note in held.take().into_iter().flatten() {
            print_line(&format!("hotcell: {note}"));
        }
    }
}

/// Prints one line, cleaned because a sandbox may have written part of it. Standard error may be closed.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", clean(text));
}

/// Prints help as clap formats it, and errors in this program's own form.
pub(crate) fn print_clap_error(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE_ERROR);
    }
    let rendered = error.render().to_string();
    let mut lines = rendered.lines();
    let first = lines
        .next()
        .unwrap_or("wrong usage")
        .trim_start_matches("error: ");
    // The missing arguments are on the lines below.
    let missing: Vec<&str> = lines
        .take_while(|line| line.starts_with("  "))
        .map(str::trim)
        .filter(|line| !line.starts_with('['))
        .collect();
    let text = if missing.is_empty() || !first.ends_with(':') {
        first.to_owned()
    } else {
        format!("{first} {}", missing.join(", "))
    };
    CliError::usage(text).hint(usage_hint(error)).tell()
}

fn usage_hint(error: &clap::Error) -> String {
    let joined = |value: &ContextValue| match value {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(texts) => texts.join(", "),
        other => other.to_string(),
    };
    if let Some(suggestion) = error
        .get(ContextKind::SuggestedArg)
        .or(error.get(ContextKind::SuggestedSubcommand))
    {
        return format!("did you mean `{}`?", joined(suggestion));
    }
    if let Some(valid) = error.get(ContextKind::ValidValue).map(joined)
        && !valid.is_empty()
    {
        return format!("one of {valid}");
    }
    let about = error.get(ContextKind::InvalidArg).map(joined);
    let usage = error.render().to_string();
    if about.is_some_and(|word| !word.starts_with('-')) {
        // A command without `--`, or none at all; a task of several unquoted words.
        for (command, hint) in [
            (
                "exec",
                "write the command after `--`, such as `hotcell exec -- ls`",
            ),
            (
                "run",
                "quote the task, such as `hotcell run \"Fix the tests\"`",
            ),
            ("resume", "give a prompt with `--prompt`, in quotes"),
        ] {
            if usage.contains(&format!("Usage: hotcell {command} ")) {
                return hint.to_owned();
            }
        }
    }
    "run `hotcell --help` or `hotcell help COMMAND` for usage".to_owned()
}
