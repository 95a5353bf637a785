//! A tool call in a few words, for the user. The tool makes it, the event carries it, and every user
//! interface shows it without knowing the tool. Entry type: [`CallSummary`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum lengths in characters.
const MAX_VERB_CHARS: usize = 60;
const MAX_SUBJECT_CHARS: usize = 400;
const MAX_DETAIL_CHARS: usize = 80;
const MAX_LANGUAGE_CHARS: usize = 80;

/// Arguments that tell what a call is about, for calls whose tool has said nothing.
pub const TELLING_ARGUMENTS: [&str; 8] = [
    "command", "path", "pattern", "query", "url", "name", "title", "text",
];

/// A tool call in one line, and what else is worth showing of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallSummary {
    /// The action, such as `read` or `edit`; `$` for a shell command.
    pub verb: String,
    /// What it acts on, such as a path or a command.
    pub subject: String,
    /// What came of it, such as `exit code 1` or `+3 −1`. Empty before the end, and if there is
    /// nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// For an icon.
    #[serde(default)]
    pub kind: CallKind,
    #[serde(default)]
    pub input: ShownInput,
    #[serde(default)]
    pub output: ShownOutput,
    /// The background job in which the command continues after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
}

/// What a call does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    Command,
    Read,
    Write,
    Edit,
    List,
    Search,
    Plan,
    /// Anything else, also what a later release adds.
    #[default]
    #[serde(other)]
    Other,
}

/// What is shown of the input when a call is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "show", rename_all = "snake_case")]
pub enum ShownInput {
    /// The summary contains it.
    Nothing,
    /// One argument, as text.
    Argument {
        name: String,
        /// A language such as `sh`, or a file name whose ending tells it.
        language: String,
    },
    /// Everything, as JSON.
    #[default]
    #[serde(other)]
    All,
}

/// What is shown of the output while a call is closed. Errors are always shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShownOutput {
    /// It is for the model alone.
    Nothing,
    /// The end of a command's output. The last line tells how the command ended; it is left out,
    /// because `detail` says so.
    Command,
    /// The changes of files.
    Diff,
    Image,
    /// The `steps` of the input, each with `title` and `status` (`pending`, `active` or `done`).
    Plan,
    /// HTML, tables and the like.
    Rich,
    /// The end of the text.
    #[default]
    #[serde(other)]
    Text,
}

impl CallSummary {
    pub fn new(kind: CallKind, verb: &str, subject: &str) -> Self {
        Self {
            verb: one_line(verb, MAX_VERB_CHARS),
            subject: one_line(subject, MAX_SUBJECT_CHARS),
            kind,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn show_input(self, mut input: ShownInput) -> Self {
        if let ShownInput::Argument { language, .. } = &mut input {
            // The end of a file name tells its language.
            let surplus = language.chars().count().saturating_sub(MAX_LANGUAGE_CHARS);
            *language = language.chars().skip(surplus).collect();
        }
        Self { input, ..self }
    }

    #[must_use]
    pub fn show_output(self, output: ShownOutput) -> Self {
        Self { output, ..self }
    }

    #[must_use]
    pub fn with_detail(self, detail: &str) -> Self {
        Self {
            detail: one_line(detail, MAX_DETAIL_CHARS),
            ..self
        }
    }

    /// For a call whose tool has said nothing: unknown tools, invalid input, and sessions of
    /// older releases.
    pub fn generic(tool: &str, input: &Value) -> Self {
        let text = |name: &&str| input.get(*name).and_then(Value::as_str);
        let subject = TELLING_ARGUMENTS.iter().find_map(text);
        Self::new(CallKind::Other, tool, subject.unwrap_or_default())
    }
}

/// Verb and subject.
impl fmt::Display for CallSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verb.as_str(), self.subject.as_str()) {
            ("", text) | (text, "") => formatter.write_str(text),
            (verb, subject) => write!(formatter, "{verb} {subject}"),
        }
    }
}

/// Text as one line: unprintable characters become spaces, and long text is cut.
pub fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (at, character) in text.trim().chars().enumerate() {
        if at == most {
            line.push('…');
            break;
        }
        let is_plain = !character.is_control() && !is_invisible(character);
        line.push(if is_plain { character } else { ' ' });
    }
    line
}

/// Characters that are invisible or change how the text around them is displayed.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_is_one_bounded_line() {
        let summary = CallSummary::new(
            CallKind::Command,
            "$",
            &format!("ls\n-l\u{1b}[2J{}", "x".repeat(900)),
        );
        assert!(summary.to_string().starts_with("$ ls -l [2Jxxx"));
        assert_eq!(summary.subject.chars().count(), MAX_SUBJECT_CHARS + 1);
        let summary = summary.with_detail(&"y\n".repeat(100));
        assert_eq!(summary.detail.chars().count(), MAX_DETAIL_CHARS + 1);
        let summary = summary.show_input(ShownInput::Argument {
            name: "content".to_owned(),
            language: format!("{}.rs", "z".repeat(900)),
        });
        let ShownInput::Argument { language, .. } = summary.input else {
            unreachable!()
        };
        assert!(language.len() == MAX_LANGUAGE_CHARS && language.ends_with("z.rs"));
    }

    #[test]
    fn calls_without_a_summary_get_a_generic_one() {
        for (input, expect) in [
            (json!({"url": "http://x", "depth": 2}), "fetch http://x"),
            (json!({"depth": 2}), "fetch"),
            (json!({"path": 7}), "fetch"),
            (json!(7), "fetch"),
        ] {
            assert_eq!(CallSummary::generic("fetch", &input).to_string(), expect);
        }
    }

    #[test]
    fn what_a_later_release_says_is_read_as_something_general() {
        let summary: CallSummary = serde_json::from_value(json!({
            "verb": "look", "subject": "up", "kind": "oracle",
            "input": {"show": "hologram", "depth": 3}, "output": "smell", "colour": "red",
        }))
        .unwrap();
        assert_eq!(summary.kind, CallKind::Other);
        assert_eq!(summary.input, ShownInput::All);
        assert_eq!(summary.output, ShownOutput::Text);
    }
}
