//! What the log can say: one [`Record`] for each kind of event.
//!
//! Records never hold the values of environment variables, only their names, and never what a
//! command read or wrote, except the text that an agent typed into one of its own shell commands.

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
        /// Which command of the sandbox it is, counted from 1; its end has the same number.
        #[serde(default)]
        exec: u64,
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
        /// Which one.
        #[serde(default)]
        exec: u64,
        /// How it ended.
        outcome: String,
        /// How long it ran, in milliseconds.
        #[serde(default)]
        millis: u64,
        /// Bytes that it printed, as far as they were asked for.
        #[serde(default)]
        bytes: u64,
    },
    /// An agent is about to write to the standard input of a command in the background.
    Input {
        /// Which one, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exec: Option<u64>,
        /// The number under which the agent knows it.
        job: u32,
        /// What is written; bytes that are not UTF-8 are replaced.
        text: String,
        /// Whether the input ends with it.
        last: bool,
    },
    /// An agent is about to send a signal to a command in the background.
    Signal {
        /// Which one, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exec: Option<u64>,
        /// The number under which the agent knows it.
        job: u32,
        /// The signal's number.
        signal: i32,
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
        /// How many attempts the line stands for: repeats are counted for a while.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    },
    /// There was more than is recorded one by one.
    Capped {
        /// What, such as `connections`.
        what: String,
        /// How many were not recorded; 0 in the line that says that recording stops.
        count: u64,
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
    /// Somebody asks a server for a change, which begins after this line is written.
    Request {
        /// The same as in the answer's header, and in the record of the answer.
        id: String,
        /// The address that it came from.
        remote: String,
        /// Whose key it was; empty when nobody's.
        user: String,
        /// Which key; absent for a login, and without keys.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Of HTTP.
        method: String,
        /// Without what comes after the `?`.
        path: String,
    },
    /// A change that was asked for has been made or has failed; the answer follows this line.
    Answer {
        /// Of the request.
        id: String,
        /// Who turned out to have asked, if it was not known before, as at a login.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// What is answered.
        status: u16,
    },
    /// A server turned requests away.
    Refusal {
        /// The address that they came from.
        remote: String,
        /// Whose key it was; empty when nobody's.
        user: String,
        /// Which key, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Of HTTP.
        method: String,
        /// Which kind of request.
        route: String,
        /// What was answered.
        status: u16,
        /// How many: repeats are counted for a while.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u64,
    },
    /// The log goes on in a new file, of which this is the first line.
    Rotated {
        /// The file that the lines before are in now.
        previous: String,
        /// The number of the first record for which there is still a file.
        first_kept: u64,
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

fn one() -> u64 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_one(count: &u64) -> bool {
    *count == 1
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
            count: 1,
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
