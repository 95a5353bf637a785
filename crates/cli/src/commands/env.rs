//! `hotcell env`: which `.env` files are used. Shows names of variables, never their values.

use std::path::Path;

use super::print;
use crate::args::EnvCommand;
use crate::cli_error::CliError;
use crate::render::clean;
use crate::settings::{EnvFile, EnvRecord, warn_refused};

pub(crate) fn run(command: &EnvCommand) -> Result<u8, CliError> {
    let record = EnvRecord::outside(&[])?;
    match command {
        EnvCommand::Allow { file } => {
            let file = read(file)?;
            warn_refused(&file);
            if file.values.is_empty() {
                let text = format!("`{}` sets no key and no model", file.path.display());
                return Err(CliError::usage(text));
            }
            record.keep(&file, true)?;
            print_line(&format!(
                "`{}` may set {} as long as it does not change",
                file.location.display(),
                file.names()
            ))
        }
        EnvCommand::Forget { file } => {
            let location = EnvFile::location_of(file).map_err(|error| complain(file, &error))?;
            record.forget(&location)?;
            print_line(&format!("forgot `{}`", location.display()))
        }
    }
}

fn read(path: &Path) -> Result<EnvFile, CliError> {
    EnvFile::read(path)
        .map_err(|why| complain(path, &why))?
        .ok_or_else(|| complain(path, &"there is no such file"))
}

fn complain(path: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!(
        "cannot read the env file `{}`: {why}",
        path.display()
    ))
}

fn print_line(text: &str) -> Result<u8, CliError> {
    print(&format!("{}\n", clean(text)))
}
