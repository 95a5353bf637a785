//! What the log can say: one [`Record`] for each kind of event.
//!
//! Records never hold the values of environment variables, only their names, and never the bytes
//! that a command read or wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a sandbox, or of the server that has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// A sandbox began.
    Start {
        /// The backend that runs it.
        backend: String,
        /// What a way out has to break: `namespaces`, `kernel` or `vm`; `none` without walls.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        strength: String,
        /// Why this backend and no other.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The walls that stand, by name.
        walls: Vec<String>,
        /// Each limit's name and what enforces it.
        limits: BTreeMap<String, String>,
        /// The host folder it works in.
        workspace: String,
    },
    /// A command began.
    Exec {
        /// The command and its arguments; bytes that are not UTF-8 are replaced.
        argv: Vec<String>,
        /// The folder it runs in, as the sandbox sees it.
        cwd: String,
        /// The names of its variables. Values are never logged: some are secrets.
        env_names: Vec<String>,
        /// Whether it has a terminal.
        terminal: bool,
    },
    /// A command ended.
    ExecEnd {
        /// How it ended.
        outcome: String,
    },
    /// The host changed a file for the sandbox.
    FileChange {
        /// What was done, such as `write` or `remove`.
        operation: String,
        /// The file, as the sandbox sees it.
        path: String,
    },
    /// The sandbox tried to reach a host.
    Connection {
        /// The name or address it asked for.
        host: String,
        /// The port it asked for.
        port: u16,
        /// Whether it got through.
        verdict: Verdict,
        /// The rule that allowed it, or the reason for the denial.
        because: String,
        /// The address that was connected to or refused, once it was known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
    },
    /// A person or a rule decided on something that leaves the sandbox.
    Approval {
        /// What was asked for.
        what: String,
        /// `allowed`, `denied` or, when nobody answered, `unanswered`.
        decision: String,
        /// For how long, if a person decided: `once`, `session` or `always`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// `person`, or the rule.
        #[serde(default)]
        by: String,
    },
    /// Somebody asked a server for a change.
    Request {
        /// Whose key it was; empty when nobody's.
        user: String,
        /// Of HTTP.
        method: String,
        /// Without what comes after the `?`.
        path: String,
        /// What was answered.
        status: u16,
    },
    /// A sandbox ended.
    End {
        /// Why.
        cause: String,
    },
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It went through.
    Allowed,
    /// It was refused or failed.
    Denied,
}

/// Strings of a record that is too long keep this many bytes.
const KEPT_BYTES: usize = 1024;
/// Lists and maps of a record that is too long keep this many items.
const KEPT_ITEMS: usize = 64;

/// Cuts the long parts of an event, saying how much went.
///
/// A command with megabytes of arguments must not be able to escape the log, so what does not fit
/// a line is logged short rather than refused.
pub(crate) fn shorten(event: &mut Value) {
    match event {
        Value::String(text) => shorten_text(text),
        Value::Array(items) => {
            let cut = items.len().saturating_sub(KEPT_ITEMS);
            items.truncate(KEPT_ITEMS);
            items.iter_mut().for_each(shorten);
            if cut > 0 {
                items.push(Value::String(format!("… ({cut} more)")));
            }
        }
        Value::Object(fields) => {
            let surplus: Vec<String> = fields.keys().skip(KEPT_ITEMS).cloned().collect();
            for name in &surplus {
                fields.remove(name);
            }
            let kept = std::mem::take(fields);
            for (mut name, mut value) in kept {
                shorten_text(&mut name);
                shorten(&mut value);
                fields.insert(name, value);
            }
            if !surplus.is_empty() {
                fields.insert("…".into(), Value::String(format!("{} more", surplus.len())));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(crate) fn shorten_text(text: &mut String) {
    if text.len() <= KEPT_BYTES {
        return;
    }
    let end = text.floor_char_boundary(KEPT_BYTES);
    let cut = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("… ({cut} bytes more)"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_tagged_with_its_kind() {
        let record = Record::Connection {
            host: "example.com".into(),
            port: 443,
            verdict: Verdict::Denied,
            because: "no rule".into(),
            address: None,
        };
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"connection","host":"example.com","port":443,"verdict":"denied","because":"no rule"}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
    }

    #[test]
    fn shortening_says_what_went() {
        let mut event = serde_json::json!({
            "argv": vec!["é".repeat(1000); 100],
            "limits": (0..70).map(|n| (format!("{n:03}"), Value::Null)).collect::<serde_json::Map<_, _>>(),
        });
        shorten(&mut event);
        assert_eq!(event["argv"].as_array().unwrap().len(), 65);
        assert_eq!(event["argv"][64], "… (36 more)");
        assert!(
            event["argv"][0]
                .as_str()
                .unwrap()
                .ends_with("… (976 bytes more)")
        );
        assert_eq!(event["limits"]["…"], "6 more");
    }
}
