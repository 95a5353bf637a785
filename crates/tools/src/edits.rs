//! Exact replacements in a text, all or none. Pure: no I/O.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::nearest::explain_not_found;

/// One replacement.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// Text to replace, exactly as in the file. Must be unique in it unless `all`.
    pub(crate) old: String,
    pub(crate) new: String,
    /// Replaces every occurrence.
    pub(crate) all: Option<bool>,
}

/// Maximum number of lines listed when a text occurs more than once.
const MAX_LISTED_LINES: usize = 10;

/// The text with all edits applied in order, or why they cannot be.
pub(crate) fn apply_edits(text: &str, edits: &[Edit]) -> Result<String, String> {
    if edits.is_empty() {
        return Err("there are no edits".to_owned());
    }
    let ends = LineEndStyle::of(text);
    let mut result = text.to_owned();
    for (at, edit) in edits.iter().enumerate() {
        result = apply_edit(&result, edit, ends).map_err(|why| match edits.len() {
            1 => why,
            _ => format!("edits[{at}]: {why}"),
        })?;
    }
    if result == text {
        Err("the edits undo each other: nothing would change".to_owned())
    } else {
        Ok(result)
    }
}

fn apply_edit(text: &str, edit: &Edit, ends: LineEndStyle) -> Result<String, String> {
    if edit.old.is_empty() {
        return Err("`old` is empty: say which text to replace, or use `write_file`".to_owned());
    }
    if edit.old == edit.new {
        return Err("`old` and `new` are the same".to_owned());
    }
    // As given, or with CRLF line ends; never with a part of them converted.
    let mut candidates = [Cow::Borrowed(edit.old.as_str()), with_crlf(&edit.old)];
    if ends == LineEndStyle::Crlf {
        candidates.reverse();
    }
    let Some(old) = candidates.into_iter().find(|old| text.contains(&**old)) else {
        return Err(explain_not_found(text, &edit.old));
    };
    let new = match ends {
        LineEndStyle::Crlf => with_crlf(&edit.new),
        LineEndStyle::Lf | LineEndStyle::Mixed => {
            if old.contains("\r\n") && !edit.old.contains('\r') {
                with_crlf(&edit.new)
            } else {
                Cow::Borrowed(edit.new.as_str())
            }
        }
    };
    if edit.all == Some(true) {
        return Ok(text.replace(&*old, &new));
    }
    let positions: Vec<usize> = text.match_indices(&*old).map(|(at, _)| at).collect();
    match positions.as_slice() {
        [at] => Ok([&text[..*at], &new, &text[at + old.len()..]].concat()),
        _ => Err(not_unique_error(text, &positions)),
    }
}

fn not_unique_error(text: &str, positions: &[usize]) -> String {
    let mut line = 1;
    let mut from = 0;
    let mut lines = Vec::new();
    for at in positions.iter().take(MAX_LISTED_LINES) {
        line += text[from..*at].matches('\n').count();
        from = *at;
        lines.push(line.to_string());
    }
    if positions.len() > MAX_LISTED_LINES {
        lines.push("…".to_owned());
    }
    format!(
        "`old` occurs {} times, on lines {}: make it longer until it is unique, or set `all`",
        positions.len(),
        lines.join(", ")
    )
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEndStyle {
    Lf,
    Crlf,
    Mixed,
}

impl LineEndStyle {
    fn of(text: &str) -> Self {
        let all = text.matches('\n').count();
        match text.matches("\r\n").count() {
            0 => Self::Lf,
            returns if returns == all => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

fn with_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}
