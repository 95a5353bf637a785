//! `hotcell backup`: copies the data folder of a server, also while it runs.

use std::fmt::Write;
use std::path::Path;

use orchestrator::BackupError;

use super::{print, runtime};
use crate::args::StoreFlags;
use crate::cli_error::{CliError, SANDBOX_FAILED};
use crate::render::clean;
use crate::settings::data_folder;

pub(crate) fn run(flags: &StoreFlags, target: &Path) -> Result<u8, CliError> {
    let data = data_folder(flags, None)?;
    let made = runtime()?.block_on(orchestrator::backup(&data, target));
    let made = made.map_err(|error| match error {
        BackupError::Store(error) => CliError::from(error),
        BackupError::Exists(_) => CliError::from_error(2, &error)
            .hint("choose a folder that does not exist yet".to_owned()),
        BackupError::NoData(_) => CliError::from_error(2, &error)
            .hint("name the folder of the server with `--data FOLDER`".to_owned()),
        _ => CliError::from_error(SANDBOX_FAILED, &error),
    })?;
    let mut text = format!(
        "{} jobs, {} files, {} bytes in `{}`\n",
        made.jobs,
        made.files,
        made.bytes,
        clean(&target.display().to_string())
    );
    for left_out in &made.left_out {
        let _ = writeln!(text, "left out: {}", clean(left_out));
    }
    for job in &made.incomplete {
        let _ = writeln!(text, "changed meanwhile: the zip of job {job}");
    }
    print(&text)
}
