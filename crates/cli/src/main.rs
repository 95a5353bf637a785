//! The `hotcell` program: reads flags, environment and files once, into typed values, and passes them to
//! the crates that do the work. The only place that prints errors and chooses exit codes.

mod args;
mod cli_error;
mod commands;
mod render;
mod settings;
mod standard_streams;
mod terminal;
mod values;

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{AuditCommand, CliArguments, Subcommand};
use crate::cli_error::{CliError, print_clap_error};

fn main() -> ExitCode {
    // Prepares what every sandbox needs while flags and settings are read.
    if starts_a_sandbox(std::env::args_os().nth(1).as_deref()) {
        std::thread::spawn(sandbox::prewarm);
    }
    let arguments = match CliArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return print_clap_error(&error),
    };
    start_tracing(&arguments);
    // The only TLS crypto provider. It is installed first, so this cannot fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(complaint) => complaint.tell(),
    }
}

/// Decided by the first argument.
fn starts_a_sandbox(word: Option<&OsStr>) -> bool {
    let Some(word) = word else {
        return true;
    };
    let is_flag = word.as_encoded_bytes().starts_with(b"-");
    if is_flag {
        !["-h", "--help", "-V", "--version"]
            .iter()
            .any(|one| word == *one)
    } else {
        ["exec", "run", "resume", "demo", "serve"]
            .iter()
            .any(|one| word == *one)
    }
}

fn run(arguments: CliArguments) -> Result<u8, CliError> {
    let Some(subcommand) = arguments.subcommand else {
        return commands::chat::run(&arguments.chat).map_err(CliError::with_agent_code);
    };
    match subcommand {
        Subcommand::Run(run) => commands::run::run(&run).map_err(CliError::with_agent_code),
        Subcommand::Resume(resume) => {
            commands::run::resume(&resume).map_err(CliError::with_agent_code)
        }
        Subcommand::Demo(demo) => commands::demo::run(&demo).map_err(CliError::with_agent_code),
        Subcommand::Sessions(sessions) => {
            commands::sessions::run(&sessions).map_err(CliError::with_agent_code)
        }
        Subcommand::Undo(undo) => commands::undo::run(&undo).map_err(CliError::with_agent_code),
        Subcommand::Replay(replay) => {
            commands::replay::run(&replay).map_err(CliError::with_agent_code)
        }
        Subcommand::Serve(serve) => commands::serve::run(&serve).map_err(CliError::with_agent_code),
        Subcommand::Keys(keys) => commands::keys::run(&keys).map_err(CliError::with_agent_code),
        Subcommand::Backup { store, target } => {
            commands::backup::run(&store, &target).map_err(CliError::with_agent_code)
        }
        Subcommand::Config(config) => {
            commands::config::run(&config).map_err(CliError::with_agent_code)
        }
        Subcommand::Env(env) => commands::env::run(&env).map_err(CliError::with_agent_code),
        Subcommand::Exec(exec) => commands::exec::run(&exec),
        Subcommand::Doctor(doctor) => commands::doctor::run(&doctor),
        Subcommand::Image(image) => commands::image::run(&image),
        Subcommand::Audit(AuditCommand::Verify { file }) => commands::audit::verify(&file),
        Subcommand::Completions { shell } => commands::generated_docs::completions(shell),
        Subcommand::Man => commands::generated_docs::man(),
    }
}

/// Logs nothing unless `HOTCELL_LOG` is set, for example `HOTCELL_LOG=info`; a server logs at `info`. The
/// full screen has no room for log lines.
fn start_tracing(arguments: &CliArguments) {
    let default = match arguments.subcommand {
        Some(Subcommand::Serve(_)) => Some("info".to_owned()),
        None if !commands::chat::is_plain(&arguments.chat) && std::io::stderr().is_terminal() => {
            return;
        }
        _ => None,
    };
    if let Some(filter) = std::env::var("HOTCELL_LOG").ok().or(default) {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .try_init();
    }
}
