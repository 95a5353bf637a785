//! Conversations from typical and from random sequences of events.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::{Checkpoint, Spending, Usage};
use serde_json::json;

use super::*;

fn prompt(turn: u32, text: &str) -> EventKind {
    EventKind::TurnStarted {
        turn,
        prompt: vec![Block::text(text)],
    }
}

fn reply(content: Vec<Block>, stop: Stop) -> EventKind {
    EventKind::Replied {
        turn: 1,
        content,
        stop,
        broken_calls: BTreeMap::new(),
        usage: Usage::default(),
        cost: None,
        model: "m".into(),
    }
}

fn call(id: &str) -> Block {
    Block::ToolUse {
        id: id.into(),
        name: "bash".into(),
        input: json!({"command": "true"}),
    }
}

fn result(id: &str, text: &str) -> EventKind {
    EventKind::ToolEnded {
        call: id.into(),
        name: "bash".into(),
        content: vec![Block::text(text)],
        is_error: false,
        kept: None,
        changes: Vec::new(),
        millis: 0,
        denied: Some(false),
        summary: None,
    }
}

fn ended(outcome: Outcome) -> EventKind {
    EventKind::TurnEnded {
        turn: 1,
        outcome,
        spending: Spending::default(),
    }
}

fn undone(turn: u32) -> EventKind {
    EventKind::Undone {
        turn,
        checkpoint: Checkpoint {
            number: 1,
            files: 0,
            bytes: 0,
            skipped: BTreeMap::new(),
        },
        restored: 0,
        removed: 0,
        left: Vec::new(),
    }
}

fn redone(turn: u32) -> EventKind {
    EventKind::Redone {
        turn,
        checkpoint: Checkpoint {
            number: 2,
            files: 0,
            bytes: 0,
            skipped: BTreeMap::new(),
        },
        restored: 0,
        removed: 0,
        left: Vec::new(),
    }
}

fn compacted(summary: &str) -> EventKind {
    EventKind::Compacted {
        summary: summary.into(),
        usage: Usage::default(),
        cost: None,
        model: "m".into(),
    }
}

/// One line per message: its role and one word per block.
fn shape(events: &[EventKind]) -> Vec<String> {
    let block = |block: &Block| match block {
        Block::Text { text, .. } => match text.split_once("]\n\n") {
            Some((_, summary)) => format!("summary {summary}"),
            None => text.clone(),
        },
        Block::ToolUse { id, .. } => format!("call {id}"),
        Block::ToolResult {
            tool_use_id,
            is_error,
            ..
        } => format!(
            "{} {tool_use_id}",
            if *is_error { "lost" } else { "result" }
        ),
        _ => "other".to_owned(),
    };
    Conversation::fold(events)
        .messages()
        .iter()
        .map(|message| {
            let blocks: Vec<String> = message.content.iter().map(block).collect();
            format!("{:?}: {}", message.role, blocks.join(", "))
        })
        .collect()
}

#[test]
fn results_of_one_reply_are_one_message_in_call_order() {
    let events = [
        prompt(1, "do"),
        reply(vec![Block::text("ok"), call("a"), call("b")], Stop::ToolUse),
        result("b", "second"),
        result("a", "first"),
        reply(vec![Block::text("done")], Stop::EndTurn),
        ended(Outcome::Done),
    ];
    assert_eq!(
        shape(&events),
        [
            "User: do",
            "Assistant: ok, call a, call b",
            "User: result a, result b",
            "Assistant: done"
        ]
    );
}

#[test]
fn a_lost_call_gets_a_result_before_the_next_prompt() {
    let events = [
        prompt(1, "do"),
        reply(vec![call("a"), call("b")], Stop::ToolUse),
        result("a", "first"),
        // The process was killed here.
        prompt(2, "again"),
    ];
    assert_eq!(
        shape(&events),
        [
            "User: do",
            "Assistant: call a, call b",
            "User: result a, lost b, again"
        ]
    );
}

#[test]
fn a_paused_reply_continues_in_the_same_message() {
    let events = [
        prompt(1, "do"),
        reply(vec![Block::text("first half")], Stop::PauseTurn),
        reply(vec![Block::text("second half")], Stop::EndTurn),
    ];
    assert_eq!(
        shape(&events),
        ["User: do", "Assistant: first half, second half"]
    );
}

#[test]
fn refused_and_empty_replies_are_left_out() {
    let events = [
        prompt(1, "one"),
        reply(vec![Block::text("I must not")], Stop::Refusal),
        prompt(2, "two"),
        reply(vec![Block::text("  ")], Stop::EndTurn),
        prompt(3, "three"),
    ];
    assert_eq!(shape(&events), ["User: one, two, three"]);
}

#[test]
fn an_undo_also_removes_a_prompt_that_was_merged_into_a_message() {
    let events = [
        prompt(1, "one"),
        reply(vec![call("a")], Stop::ToolUse),
        result("a", "first"),
        ended(Outcome::Interrupted),
        prompt(2, "two"),
        reply(vec![Block::text("second answer")], Stop::EndTurn),
        undone(2),
    ];
    assert_eq!(
        shape(&events),
        ["User: one", "Assistant: call a", "User: result a"]
    );
    let conversation = Conversation::fold(&events);
    assert_eq!(conversation.undoable(), Some(1));
    assert_eq!(conversation.last_turn(), 2);
}

#[test]
fn a_redo_restores_the_messages() {
    let said = [
        prompt(1, "one"),
        reply(vec![call("a")], Stop::ToolUse),
        result("a", "first"),
        ended(Outcome::Interrupted),
        prompt(2, "two"),
        reply(vec![Block::text("second answer")], Stop::EndTurn),
        ended(Outcome::Interrupted),
    ];
    let check = |more: &[EventKind], like: &[EventKind], undoable: Option<u32>| {
        let events = [&said[..], more].concat();
        assert_eq!(shape(&events), shape(like), "{more:?}");
        let conversation = Conversation::fold(&events);
        assert_eq!(conversation.undoable(), undoable, "{more:?}");
        let is_like = Conversation::fold(like).can_continue();
        assert_eq!(conversation.can_continue(), is_like, "{more:?}");
    };
    check(&[undone(2), redone(2)], &said, Some(2));
    check(
        &[undone(2), undone(1), redone(1), redone(2)],
        &said,
        Some(2),
    );
    check(&[undone(1), redone(1)], &said, Some(2));
    check(&[redone(1)], &said, Some(2));
    let first = [&said[..4], &[ended(Outcome::Done)]].concat();
    check(&[undone(2), undone(1), redone(1)], &first, Some(1));
    check(&[undone(2), redone(2), undone(2)], &first, Some(1));
    let other = [&first[..], &[prompt(3, "three")]].concat();
    check(&[undone(2), prompt(3, "three"), redone(2)], &other, Some(3));
}

#[test]
fn a_summary_replaces_all_but_the_first_prompt() {
    let said = [
        prompt(1, "the task"),
        reply(vec![Block::text("ok"), call("a")], Stop::ToolUse),
        result("a", "first"),
        reply(vec![Block::text("done")], Stop::EndTurn),
        ended(Outcome::Done),
        prompt(2, "more"),
        reply(vec![Block::text("yes")], Stop::EndTurn),
        ended(Outcome::Done),
    ];
    let check = |more: &[EventKind], expect: &[&str]| {
        assert_eq!(shape(&[&said[..], more].concat()), expect, "{more:?}");
    };
    let summed_up = "User: the task, summary so far";
    check(&[compacted("so far")], &[summed_up]);
    check(
        &[compacted("so far"), prompt(3, "go on")],
        &["User: the task, summary so far, go on"],
    );
    // The first prompt is kept through every summary; only the last summary counts.
    check(
        &[compacted("so far"), prompt(3, "go on"), compacted("by now")],
        &["User: the task, summary by now"],
    );
    check(
        &[compacted("so far"), prompt(3, "go on"), undone(3)],
        &[summed_up],
    );
    // Undoing a turn from before the summary undoes the summary too.
    let first = [
        "User: the task",
        "Assistant: ok, call a",
        "User: result a",
        "Assistant: done",
    ];
    check(&[compacted("so far"), undone(2)], &first);
    check(
        &[
            compacted("so far"),
            prompt(3, "go on"),
            undone(3),
            undone(2),
        ],
        &first,
    );
    check(&[compacted("so far"), undone(2), redone(2)], &[summed_up]);
    check(&[compacted("so far"), undone(1)], &[]);
    // Undoing the first turn and prompting again starts another task.
    check(
        &[undone(1), prompt(3, "another task"), compacted("so far")],
        &["User: another task, summary so far"],
    );
    // A turn undone before the summary cannot be redone.
    check(&[undone(2), compacted("so far"), redone(2)], &[summed_up]);
}

#[test]
fn a_summary_also_replaces_calls_without_results() {
    let events = [
        prompt(1, "do"),
        reply(vec![call("a")], Stop::ToolUse),
        compacted("so far"),
        result("a", "late"),
    ];
    assert_eq!(shape(&events), ["User: do, summary so far"]);
}

#[test]
fn only_a_turn_that_was_cut_short_can_be_continued() {
    let check = |events: &[EventKind], expect: bool| {
        assert_eq!(
            Conversation::fold(events).can_continue(),
            expect,
            "{events:?}"
        );
    };
    check(&[], false);
    check(&[prompt(1, "x")], true);
    check(&[prompt(1, "x"), ended(Outcome::Done)], false);
    check(&[prompt(1, "x"), ended(Outcome::Interrupted)], true);
    check(
        &[prompt(1, "x"), ended(Outcome::Interrupted), undone(1)],
        false,
    );
}

fn any_event() -> impl Strategy<Value = EventKind> {
    let id = prop::sample::select(vec!["a", "b", "c", "d"]);
    let blocks = prop::collection::vec(
        prop_oneof![
            Just(Block::text("words")),
            Just(Block::text("")),
            id.clone().prop_map(call),
        ],
        0..4,
    );
    let stop = prop_oneof![
        Just(Stop::EndTurn),
        Just(Stop::Refusal),
        Just(Stop::PauseTurn)
    ];
    prop_oneof![
        (1u32..6).prop_map(|turn| prompt(turn, "prompt")),
        (blocks, stop).prop_map(|(blocks, stop)| reply(blocks, stop)),
        id.prop_map(|id| result(id, "text")),
        Just(EventKind::Noted {
            text: "note".into()
        }),
        Just(EventKind::TurnContinued { turn: 1 }),
        Just(ended(Outcome::Done)),
        (1u32..6).prop_map(undone),
        (1u32..6).prop_map(redone),
        Just(compacted("summary")),
        Just(compacted("")),
    ]
}

proptest! {
    /// Any sequence of events, cut anywhere, gives a history that providers accept.
    #[test]
    fn every_history_is_valid(events in prop::collection::vec(any_event(), 0..40)) {
        let mut conversation = Conversation::fold(&events);
        conversation.apply(&prompt(9, "last"));
        let messages = conversation.messages();
        prop_assert_eq!(messages.last().unwrap().role, Role::User);
        for pair in messages.windows(2) {
            prop_assert_ne!(pair[0].role, pair[1].role);
        }
        for (place, message) in messages.iter().enumerate() {
            prop_assert!(!message.content.is_empty());
            let calls: Vec<&CallId> = message.content.iter().filter_map(|block| match block {
                Block::ToolUse { id, .. } => Some(id),
                _ => None,
            }).collect();
            let next = messages.get(place + 1).map_or(&[][..], |next| &next.content);
            let results: Vec<&CallId> = next.iter().map_while(|block| match block {
                Block::ToolResult { tool_use_id, .. } => Some(tool_use_id),
                _ => None,
            }).collect();
            if message.role == Role::Assistant {
                prop_assert_eq!(calls, results);
            } else {
                let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
                let mut late = message.content.iter().skip_while(|block| is_result(block));
                let has_late_result = late.any(is_result);
                prop_assert!(!has_late_result);
            }
        }
    }
}
