//! Shows the progress of an image command on standard error.

use std::io::Write;

use images::{Digest, ImageProgress};

use super::size;
use crate::render::clean;

/// One line per step; a download is reported once, when it starts.
#[derive(Debug, Default)]
pub(super) struct ImageProgressReporter {
    fetching: Option<Digest>,
}

impl ImageProgressReporter {
    pub(super) fn tell(&mut self, step: ImageProgress<'_>) {
        let line = match step {
            ImageProgress::Waiting => "waiting: another process builds the same image".to_owned(),
            ImageProgress::Building { program } => format!("building with {program}"),
            ImageProgress::Said(line) => format!("  {line}"),
            ImageProgress::Unpacking { number, total } => {
                format!("unpacking layer {number} of {total}")
            }
            ImageProgress::Cached => "nothing to do: already built".to_owned(),
            ImageProgress::Fetching {
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
