//! Shell completions and the manual page, made from the flags.

use std::io;

use clap::CommandFactory;

use crate::args::Arguments;
use crate::complaint::Complaint;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<u8, Complaint> {
    clap_complete::generate(
        shell,
        &mut Arguments::command(),
        "hotcell",
        &mut io::stdout(),
    );
    Ok(0)
}

pub(crate) fn man() -> Result<u8, Complaint> {
    let page = clap_mangen::Man::new(Arguments::command());
    page.render(&mut io::stdout())
        .map_err(|error| Complaint::new(1, format!("cannot print the manual page: {error}")))?;
    Ok(0)
}
