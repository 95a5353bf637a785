//! `--json`: one event per line that matches the schema, and nothing else.

use serde_json::Value;

use crate::place::{assert_code, stderr, stdout};
use crate::scene::{Scene, bash, lines, say, write};

const SCHEMA: &str = include_str!("../../../../docs/events.schema.json");

/// Checks events against the schema, and that lasting ones are numbered without gaps.
#[track_caller]
pub(crate) fn check(events: &[Value], first: u64) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for event in events {
        if let Err(error) = validator.validate(event) {
            panic!("{error}: {event}");
        }
    }
    let numbers: Vec<u64> = events
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    let expected: Vec<u64> = (first..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let lasting = events.iter().filter(|event| event["seq"].is_u64());
    lasting
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn every_line_is_an_event() {
    let mut thoughtful = write("a.txt", "a\n");
    thoughtful.thinking = Some("First a file.".into());
    thoughtful.text = Some("A file.".into());
    let scene = Scene::new([
        thoughtful,
        bash("cat a.txt; echo error >&2; exit 3"),
        say("done"),
        say("said"),
    ]);
    let output = scene.run(&["run", "--json", "--thinking", "1024", "Write a file"]);
    assert_code(&output, 0);
    assert_eq!(stderr(&output), "");
    let events = lines(&stdout(&output));
    check(&events, 1);
    assert_eq!(
        kinds(&events),
        [
            "session_started",
            "turn_started",
            "sandbox_started",
            "replied",
            "checkpoint_made",
            "tool_ended",
            "replied",
            "tool_ended",
            "replied",
            "turn_ended",
            "checkpoint_made",
        ]
    );
    for kind in [
        "request_started",
        "thinking_delta",
        "text_delta",
        "input_delta",
        "tool_started",
        "tool_output",
        "spent",
    ] {
        assert!(
            events.iter().any(|event| event["type"] == kind),
            "no {kind}"
        );
    }
    // The numbers continue.
    let output = scene.run(&["resume", "--json", "--prompt", "And now?"]);
    assert_code(&output, 0);
    check(&lines(&stdout(&output)), 12);
    // The stored events equal the printed ones.
    let exported = scene.done(&["sessions", "export", &scene.session(), "--output", "-"]);
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let stored = exported["events"].as_array().unwrap();
    check(stored, 1);
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event["seq"].is_u64())
        .collect();
    assert_eq!(stored.iter().take(told.len()).collect::<Vec<_>>(), told);
    // Undo prints its events in the same way.
    let output = scene.run(&["undo", "--json"]);
    assert_code(&output, 0);
    let events = lines(&stdout(&output));
    check(&events, stored.len() as u64 + 1);
    assert_eq!(events.last().unwrap()["type"], "undone");
}
