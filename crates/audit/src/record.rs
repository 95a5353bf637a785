//! The events in the log: a [`AuditRecord`] for each kind of event.
//!
//! Records never contain the values of environment variables, only their names. They never contain the
//! input or output of a command, except the text that an agent typed into its own shell commands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event of a sandbox, or of the server that runs sandboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditRecord {
    /// A sandbox started.
    Start {
        /// The backend that runs it.
        backend: String,
        /// What an escape has to break: `namespaces`, `kernel` or `vm`; `none` without isolation.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        strength: String,
        /// Why this backend was chosen.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// The names of the active walls.
        walls: Vec<String>,
        /// Each limit's name and what enforces it.
        limits: BTreeMap<String, String>,
        /// The workspace folder on the host.
        workspace: String,
    },
    /// A command started.
    Exec {
        /// Number of the command in the sandbox, from 1. Its end has the same number.
        #[serde(default)]
        exec: u64,
        /// The command and its arguments; invalid UTF-8 is replaced.
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
        /// Number of the command.
        #[serde(default)]
        exec: u64,
        /// How it ended.
        outcome: String,
        /// How long it ran, in milliseconds.
        #[serde(default)]
        millis: u64,
        /// Bytes of output that were read.
        #[serde(default)]
        bytes: u64,
    },
    /// An agent is about to write to the standard input of a background command.
    Input {
        /// Number of the command, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exec: Option<u64>,
        /// The agent's number of the background command.
        job: u32,
        /// The input; invalid UTF-8 is replaced.
        text: String,
        /// Whether this is the end of the input.
        last: bool,
    },
    /// An agent is about to send a signal to a background command.
    Signal {
        /// Number of the command, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exec: Option<u64>,
        /// The agent's number of the background command.
        job: u32,
        /// The signal's number.
        signal: i32,
    },
    /// The host changed a file for the sandbox.
    FileChange {
        /// The operation, such as `write` or `remove`.
        operation: String,
        /// The file, as the sandbox sees it.
        path: String,
    },
    /// The sandbox tried to reach a host.
    Connection {
        /// The requested name or address.
        host: String,
        /// The requested port.
        port: u16,
        verdict: AuditVerdict,
        /// The rule that allowed it, or the reason for the denial.
        because: String,
        /// The address that was connected to or refused, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// Number of attempts: repeats within a time window are counted in one line.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    },
    /// There were too many events to record them individually.
    Capped {
        /// The kind of events, such as `connections`.
        what: String,
        /// Number of events that were not recorded; 0 in the line that marks the end of recording.
        count: u64,
    },
    /// A user or a rule decided on an action that has effects outside of the sandbox.
    Approval {
        /// The requested action.
        what: String,
        /// `allowed`, `denied` or, without an answer, `unanswered`.
        decision: String,
        /// Validity of a user's decision: `once`, `session` or `always`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// `person`, or the rule.
        #[serde(default)]
        by: String,
    },
    /// A server received a request for a change, which starts after this line is written.
    Request {
        /// The same as in the response header and in the record of the answer.
        id: String,
        /// The client address.
        remote: String,
        /// The owner of the key; empty without a key.
        user: String,
        /// The name of the key; absent for a login and without keys.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The HTTP method.
        method: String,
        /// The path without the query.
        path: String,
    },
    /// A requested change was made or has failed. The response is sent after this line.
    Answer {
        /// The id of the request.
        id: String,
        /// The user, if not known at the time of the request, as for a login.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The HTTP status.
        status: u16,
    },
    /// A server refused requests.
    Refusal {
        /// The client address.
        remote: String,
        /// The owner of the key; empty without a key.
        user: String,
        /// The name of the key, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The HTTP method.
        method: String,
        /// The route of the request.
        route: String,
        /// The HTTP status.
        status: u16,
        /// Number of requests: repeats within a time window are counted in one line.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    },
    /// The log continues in a new file. This is its first line.
    Rotated {
        /// The file with the previous lines.
        previous: String,
        /// The number of the first record that still exists.
        first_kept: u64,
    },
    /// A sandbox ended.
    End {
        /// Why it ended.
        cause: String,
    },
}

/// The result of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    Allowed,
    /// It was refused or failed.
    Denied,
}

fn one() -> u64 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires a reference"
)]
fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Bytes that are kept of each string in a record that is too long.
const MAX_KEPT_STRING_BYTES: usize = 1024;
/// Items that are kept of each list or map in a record that is too long.
const MAX_KEPT_ITEMS: usize = 64;

/// Truncates the long parts of an event and notes how much was removed.
///
/// A command with megabytes of arguments must not evade the log, so a record that does not fit into a
/// line is truncated instead of refused.
pub(crate) fn shorten(event: &mut Value) {
    match event {
        Value::String(text) => shorten_text(text),
        Value::Array(items) => {
            let cut = items.len().saturating_sub(MAX_KEPT_ITEMS);
            items.truncate(MAX_KEPT_ITEMS);
            items.iter_mut().for_each(shorten);
            if cut > 0 {
                items.push(Value::String(format!("… ({cut} more)")));
            }
        }
        Value::Object(fields) => {
            let surplus: Vec<String> = fields.keys().skip(MAX_KEPT_ITEMS).cloned().collect();
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
    if text.len() <= MAX_KEPT_STRING_BYTES {
        return;
    }
    let end = text.floor_char_boundary(MAX_KEPT_STRING_BYTES);
    let cut = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("… ({cut} bytes more)"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_tagged_with_its_kind() {
        let record = AuditRecord::Connection {
            host: "example.com".into(),
            port: 443,
            verdict: AuditVerdict::Denied,
            because: "no rule".into(),
            address: None,
            count: 1,
        };
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"connection","host":"example.com","port":443,"verdict":"denied","because":"no rule"}"#
        );
        assert_eq!(serde_json::from_str::<AuditRecord>(&json).unwrap(), record);
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
