//! One file per command.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod exec;
pub(crate) mod generated_docs;
pub(crate) mod image;
pub(crate) mod keys;
pub(crate) mod replay;
pub(crate) mod run;
mod run_command;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod undo;

use std::io::{self, Write};

use crate::cli_error::{CliError, SANDBOX_FAILED};

/// The runtime of a command: single-threaded, plus threads for blocking work.
fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CliError::new(SANDBOX_FAILED, format!("cannot start the runtime: {error}"))
        })
}

/// Writes to standard output.
fn print(text: &str) -> Result<u8, CliError> {
    let mut output = io::stdout().lock();
    written(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    )
}

/// The exit code after writing. A closed pipe is no error of this program.
fn written(outcome: io::Result<()>) -> Result<u8, CliError> {
    match outcome {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(141),
        Err(error) => Err(CliError::new(1, format!("cannot write: {error}"))),
    }
}
