//! The title of a call whose input is still being streamed. Pure.

use protocol::{CallSummary, TELLING_ARGUMENTS};
use serde_json::{Map, Value};

use crate::text::clean;

/// In characters.
const MAX_LINE_CHARS: usize = 400;

/// Summarises an input of which only the first part, as JSON text, has arrived.
pub(super) fn of_part(name: &str, start: &str) -> CallSummary {
    let known: Map<String, Value> = TELLING_ARGUMENTS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), text_after(start, key)?.into())))
        .collect();
    CallSummary::generic(name, &Value::Object(known))
}

/// Text as one line.
pub(super) fn one_line(text: &str) -> String {
    protocol::one_line(&clean(text), MAX_LINE_CHARS)
}

/// The string value of a key, as far as it has arrived.
fn text_after(json: &str, key: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{key}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?;
    let rest = rest.trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n' | 't' | 'r' | 'u' | 'b' | 'f') => text.push(' '),
                Some(other) => text.push(other),
                None => break,
            },
            character => text.push(character),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_inputs_are_summarised() {
        for (start, expect) in [
            ("", "write_file"),
            (r#"{"pa"#, "write_file"),
            (r#"{"path": "hel"#, "write_file hel"),
            (r#"{"path":"a\"b","content":"\"path\": "#, "write_file a\"b"),
            (r#"{"command":"ls\n"#, "write_file ls"),
            (r#"{"command":"ls\"#, "write_file ls"),
            (r#"{"steps":[{"level":"x"#, "write_file"),
        ] {
            assert_eq!(of_part("write_file", start).to_string(), expect, "{start}");
        }
    }
}
