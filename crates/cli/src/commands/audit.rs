//! `hotcell audit verify`: checks that a log is intact, or reports where it is not.

use std::path::Path;

use crate::cli_error::{CliError, USAGE_ERROR};

#[allow(clippy::print_stdout)]
pub(crate) fn verify(file: &Path) -> Result<u8, CliError> {
    let report = audit::verify(file).map_err(|error| {
        CliError::from_error(USAGE_ERROR, &error)
            .hint("name an audit log, such as `audit.jsonl`".to_owned())
    })?;
    for finding in &report.findings {
        println!("{finding}");
    }
    if report.files_aside > 0 {
        println!(
            "{} older files of the log were checked too",
            report.files_aside
        );
    }
    if report.rotated_away > 0 {
        println!(
            "the first {} lines are gone: the oldest files were removed",
            report.rotated_away
        );
    }
    match report.findings.len() as u64 + report.unlisted {
        0 => println!("{} lines, all intact and in order", report.lines),
        1 => println!("{} lines, 1 finding", report.lines),
        count => println!("{} lines, {count} findings", report.lines),
    }
    Ok(u8::from(!report.is_clean()))
}
