//! Shows the progress of an image command on standard error.

use std::io::Write;

use images::{Digest, Progress};

use super::size;
use crate::render::clean;

/// One line per step; a download is reported once, when it starts.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    fetching: Option<Digest>,
}

impl Reporter {
    pub(super) fn tell(&mut self, step: Progress<'_>) {
        let line = match step {
            Progress::Waiting => "waiting: another process builds the same image".to_owned(),
            Progress::Building { program } => format!("building with {program}"),
            Progress::Said(line) => format!("  {line}"),
            Progress::Unpacking { number, total } => format!("unpacking layer {number} of {total}"),
            Progress::Cached => "nothing to do: already built".to_owned(),
            Progress::Fetching {
                digest,
                size: whole,
                ..
            } => {
                if self.fetching.as_ref() == Some(digest) {
                    return;
                }
                self.fetching = Some(digest.clone());
                format!("fetching {}, {}", digest.short(), size(whole))
            }
            _ => return,
        };
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{}", clean(&line));
    }
}
