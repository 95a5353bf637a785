//! One JSON value per line, on standard output.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a whole line at once: a reader never sees half of one.
pub(crate) fn write_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}
