//! Formats names, sizes and errors for the model.

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

use protocol::is_invisible;
use sandbox::SandboxError;
use sandbox::request::{ByteString, RefusalKind};

use crate::tool::ToolError;

/// A file name unchanged, or quoted for the shell if it is not plain text.
pub(crate) fn name(raw: &ByteString) -> Cow<'_, str> {
    match std::str::from_utf8(&raw.0) {
        Ok(text)
            if !text
                .chars()
                .any(|one| one.is_control() || is_invisible(one)) =>
        {
            text.into()
        }
        _ => {
            let mut quoted = String::from("$'");
            for chunk in raw.0.utf8_chunks() {
                for character in chunk.valid().chars() {
                    match character {
                        '\n' => quoted.push_str("\\n"),
                        '\t' => quoted.push_str("\\t"),
                        '\'' | '\\' => quoted.extend(['\\', character]),
                        one if one.is_control() => {
                            one.to_string()
                                .bytes()
                                .for_each(|byte| hex(&mut quoted, byte));
                        }
                        one if is_invisible(one) => {
                            quoted.push_str(&format!("\\u{:04x}", one as u32))
                        }
                        one => quoted.push(one),
                    }
                }
                chunk
                    .invalid()
                    .iter()
                    .for_each(|byte| hex(&mut quoted, *byte));
            }
            quoted.push('\'');
            quoted.into()
        }
    }
}

fn hex(text: &mut String, byte: u8) {
    text.push_str(&format!("\\x{byte:02x}"));
}

/// A path given by the model, for use in a sentence.
pub(crate) fn path(path: &str) -> String {
    name(&ByteString::from(Path::new(path))).into_owned()
}

/// A size in human-readable form.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..10_000 => format!("{bytes} bytes"),
        _ => {
            let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
            let mut amount = bytes as f64 / 1000.0;
            let mut unit = 0;
            while amount >= 999.5 && unit + 1 < units.len() {
                amount /= 1000.0;
                unit += 1;
            }
            if amount < 10.0 {
                format!("{amount:.1} {}", units[unit])
            } else {
                format!("{amount:.0} {}", units[unit])
            }
        }
    }
}

/// A number with its noun, such as "1 line" or "2 lines".
pub(crate) fn count(number: u64, one: &str, more: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {more}"),
    }
}

/// A refusal is reported to the model; a broken sandbox is reported to its owner.
pub(crate) fn to_tool_error(error: SandboxError) -> ToolError {
    match error {
        SandboxError::Refused(refusal) => ToolError::Refused(refusal.message),
        error if error.is_final() => ToolError::Broken(error),
        error => {
            let why = error.source().map(ToString::to_string);
            ToolError::Refused(why.unwrap_or_else(|| error.to_string()))
        }
    }
}

/// Like [`to_tool_error`], for writes: adds which rule refused them.
pub(crate) fn to_write_error(error: SandboxError) -> ToolError {
    match error {
        SandboxError::Refused(refusal) => ToolError::Refused(match refusal.kind {
            RefusalKind::Denied => format!(
                "{}\nhint: only `/workspace` and `/tmp` are writable; the rest is read-only",
                refusal.message
            ),
            RefusalKind::NoSpace => {
                format!(
                    "{}\nhint: the sandbox's disk limit is reached",
                    refusal.message
                )
            }
            _ => refusal.message,
        }),
        other => to_tool_error(other),
    }
}
