//! Tool calls of replies: makes their ids unique and checks their names and inputs. Pure except for
//! the random part of an id.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::{Block, CallId, Message, Stop};
use serde_json::{Map, Value, json};

/// Assigns the ids of one reply's calls. They are unique within a conversation even if a server
/// repeats its ids, because results, approvals and events refer to calls by id.
#[derive(Debug)]
pub(crate) struct CallIds<'a> {
    before: &'a [Arc<Message>],
    given: BTreeSet<CallId>,
}

impl<'a> CallIds<'a> {
    /// For a reply to `messages`.
    pub(crate) fn new(messages: &'a [Arc<Message>]) -> Self {
        Self {
            before: messages,
            given: BTreeSet::new(),
        }
    }

    /// The server's id if it is present and unused, else a new one.
    pub(crate) fn claim(&mut self, offered: Option<&str>) -> CallId {
        let mut id = match offered {
            Some(offered) if !offered.is_empty() => CallId::from(offered),
            _ => new_id(),
        };
        // Some servers number calls from 0 in each reply.
        while self.is_taken(&id) {
            id = new_id();
        }
        self.given.insert(id.clone());
        id
    }

    fn is_taken(&self, id: &CallId) -> bool {
        let blocks = self.before.iter().flat_map(|message| &message.content);
        self.given.contains(id)
            || blocks
                .filter_map(|block| match block {
                    Block::ToolUse { id, .. } => Some(id),
                    _ => None,
                })
                .any(|known| known == id)
    }
}

fn new_id() -> CallId {
    CallId(format!("call_{:016x}", fastrand::u64(..)))
}

/// Whether a reply with this stop reason may end in the middle of its last block.
pub(crate) fn may_truncate(stop: &Stop) -> bool {
    matches!(
        stop,
        Stop::MaxTokens | Stop::ModelContextWindowExceeded | Stop::Refusal
    )
}

/// Maximum length of a tool name that providers accept.
const MAX_TOOL_NAME_LEN: usize = 64;

/// A tool name that a provider accepts, and why the call must not run if the name had to be
/// changed. Models invent names, and an invalid one would make every later request of the
/// conversation fail. No tool has an invalid name.
pub(crate) fn sanitize_tool_name(name: String) -> (String, Option<String>) {
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if (1..=MAX_TOOL_NAME_LEN).contains(&name.len()) && name.chars().all(is_legal) {
        return (name, None);
    }
    let legal: String = name
        .chars()
        .map(|letter| if is_legal(letter) { letter } else { '_' })
        .take(MAX_TOOL_NAME_LEN)
        .collect();
    let shown: String = name.chars().take(2 * MAX_TOOL_NAME_LEN).collect();
    let reason = format!("there is no tool `{shown}`");
    if legal.is_empty() {
        ("unnamed".to_owned(), Some(reason))
    } else {
        (legal, Some(reason))
    }
}

/// The input of a call, always an object, and the reason if the call must not run.
///
/// `is_cut`: the reply was cut off in or directly after this call.
pub(crate) fn parse_input(text: &str, is_cut: bool) -> (Value, Option<String>) {
    let parsed = match text.trim().is_empty() {
        // Providers send no input to mean `{}`. But if the reply was cut off here, the input was
        // still to come.
        true if is_cut => Err("it is missing".to_owned()),
        true => Ok(Value::Object(Map::new())),
        false => serde_json::from_str(text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(input) if input.is_object() => (input, None),
        _ if is_cut => {
            let reason = "the reply was cut off in the middle of this call's input";
            (json!({}), Some(reason.to_owned()))
        }
        Ok(_) => unparsed(text, "it is a different JSON value"),
        Err(error) => unparsed(text, &error),
    }
}

fn unparsed(text: &str, why: &str) -> (Value, Option<String>) {
    let reason = format!("the input is not a JSON object: {why}");
    (json!({ "unparsed": text }), Some(reason))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Role;

    use super::*;

    #[test]
    fn names_that_providers_refuse_are_made_ones_that_they_take() {
        let check = |name: &str, expect: &str| {
            let (legal, reason) = sanitize_tool_name(name.to_owned());
            assert_eq!(legal, expect);
            assert_eq!(reason.is_some(), name != expect, "{name}");
        };
        check("bash", "bash");
        check("read-file_2", "read-file_2");
        check("", "unnamed");
        check("a b/c\u{e9}", "a_b_c_");
        check(&"x".repeat(65), &"x".repeat(64));
    }

    #[test]
    fn inputs_are_objects_or_broken() {
        fn check(text: &str, is_cut: bool, expect: Value, broken: bool) {
            let (input, reason) = parse_input(text, is_cut);
            assert_eq!(
                (input, reason.is_some()),
                (expect, broken),
                "{text} {is_cut}"
            );
        }
        check("", false, json!({}), false);
        check(" ", false, json!({}), false);
        check(r#"{"a": [1]}"#, false, json!({"a": [1]}), false);
        check("[1]", false, json!({"unparsed": "[1]"}), true);
        check("null", false, json!({"unparsed": "null"}), true);
        check(r#"{"a": "#, false, json!({"unparsed": r#"{"a": "#}), true);
        check("", true, json!({}), true);
        check(r#"{"a": "#, true, json!({}), true);
        check(r#"{"a": 1}"#, true, json!({"a": 1}), false);
    }

    #[test]
    fn no_two_calls_share_an_id() {
        let call = |id: &str| Block::ToolUse {
            id: id.into(),
            name: "bash".into(),
            input: json!({}),
        };
        let messages = [Arc::new(Message {
            role: Role::Assistant,
            content: vec![Block::text("so"), call("call_0")],
        })];
        let mut ids = CallIds::new(&messages);
        let claimed = [
            Some("call_0"),
            Some("call_1"),
            Some("call_1"),
            Some(""),
            None,
        ]
        .map(|offered| ids.claim(offered));
        assert_eq!(claimed[1], "call_1".into(), "a free one is kept");
        let mut all = BTreeSet::from([CallId::from("call_0")]);
        for id in claimed {
            assert!(all.insert(id));
        }
    }
}
