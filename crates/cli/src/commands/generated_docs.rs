//! Shell completions and the manual page, generated from the flags.

use std::io::{self, Write};

use clap::CommandFactory;

use super::written;
use crate::args::CliArguments;
use crate::cli_error::CliError;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArguments::command(), "hotcell", &mut script);
    written(io::stdout().write_all(&script))
}

/// One page for the program, followed by a section for each command.
pub(crate) fn man() -> Result<u8, CliError> {
    let mut program = CliArguments::command().disable_help_subcommand(true);
    program.build();
    let mut page = Vec::new();
    written(render(program, &mut page).and_then(|()| io::stdout().write_all(&page)))
}

fn render(program: clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let main = clap_mangen::Man::new(program.clone());
    main.render_title(page)?;
    main.render_name_section(page)?;
    main.render_synopsis_section(page)?;
    main.render_description_section(page)?;
    main.render_options_section(page)?;
    for command in program.get_subcommands() {
        let name = command.get_display_name().unwrap_or(command.get_name());
        writeln!(page, ".SH {}", name.replace('-', " ").to_uppercase())?;
        let section = clap_mangen::Man::new(command.clone());
        let mut text = Vec::new();
        section.render_synopsis_section(&mut text)?;
        section.render_description_section(&mut text)?;
        if command.get_arguments().next().is_some() {
            section.render_options_section(&mut text)?;
        }
        for sub in command.get_subcommands() {
            let sub = clap_mangen::Man::new(sub.clone());
            sub.render_synopsis_section(&mut text)?;
            sub.render_description_section(&mut text)?;
        }
        // Their headings become one level lower.
        page.extend(
            String::from_utf8_lossy(&text)
                .replace(".SH ", ".SS ")
                .into_bytes(),
        );
    }
    main.render_version_section(page)
}
