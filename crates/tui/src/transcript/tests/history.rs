//! A page made from stored events alone equals the live page.

use protocol::{Block, CallId, EventKind, Outcome};
use serde_json::json;

use super::{
    call_reply, ended, page, printed, reply, reply_of, started, text, thinking, transcript_of,
    turn_ended,
};
use crate::samples::{call, tool_started, turn, working_end, working_turn};

fn check(events: &[EventKind]) {
    let stored: Vec<EventKind> = events
        .iter()
        .filter(|kind| kind.is_lasting())
        .cloned()
        .collect();
    assert!(stored.len() < events.len(), "something is not stored");
    let (mut before, mut after) = (transcript_of(events), transcript_of(&stored));
    assert_eq!(page(&mut before), page(&mut after));
    before.toggle_all_calls();
    after.toggle_all_calls();
    before.toggle_thinking();
    after.toggle_thinking();
    let open = page(&mut before);
    assert_eq!(open, page(&mut after));
    assert!(!open.is_empty());
}

fn input_delta(id: &str, name: &str, json: &str) -> EventKind {
    EventKind::InputDelta {
        call: CallId::from(id),
        name: name.into(),
        json: json.into(),
    }
}

#[test]
fn a_turn_with_calls() {
    check(&[working_turn(), working_end()].concat());
}

#[test]
fn a_reply_in_pieces() {
    let content = vec![
        Block::Thinking {
            thinking: "Let me see.".into(),
            signature: String::new(),
        },
        Block::text("\n\nFirst the file.\n\n"),
        call(
            "a",
            "write_file",
            json!({"path": "a.py", "content": "print(1)\n"}),
        ),
        call("b", "bash", json!({"command": "python3 a.py"})),
    ];
    check(&[
        turn(1, "go"),
        EventKind::RequestStarted {
            turn: 1,
            request: 1,
        },
        thinking("Let me"),
        EventKind::Retrying {
            attempt: 1,
            wait_ms: 10,
            reason: "overloaded".into(),
        },
        EventKind::RequestStarted {
            turn: 1,
            request: 2,
        },
        thinking("Let me "),
        thinking("see."),
        text("\n\nFirst the"),
        text(" file.\n\n"),
        input_delta("a", "write_file", "{\"path\":\"a.py\","),
        input_delta("a", "write_file", "\"content\":\"print(1)\\n\"}"),
        input_delta("b", "bash", "{\"command\":"),
        reply_of(content),
        started("b", "python3 a.py"),
        printed("b", "1\n"),
        ended("b", "bash", "1\nexit code: 0", false),
        ended("a", "write_file", "created", false),
        text("Done"),
        reply("Done."),
        turn_ended(1, Outcome::Done),
    ]);
}

#[test]
fn an_interrupted_turn() {
    check(&[
        turn(1, "go"),
        thinking("I was about to"),
        text("Half a wo"),
        input_delta("a", "bash", "{\"comm"),
        reply("Half a wo"),
        turn_ended(1, Outcome::Interrupted),
        turn(2, "again"),
        thinking("nothing came of this"),
        turn_ended(2, Outcome::Interrupted),
        turn(3, "again"),
        call_reply("b", "fetch", json!({"url": "http://x"})),
        tool_started("b", "fetch", json!({"url": "http://x"})),
        turn_ended(3, Outcome::Interrupted),
    ]);
}
