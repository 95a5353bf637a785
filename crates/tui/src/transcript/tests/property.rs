//! Property tests: no sequence of events and actions panics or draws outside the screen.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::{
    BackgroundJob, Block, CallId, CallKind, CallSummary, Change, Checkpoint, EventKind, Kept,
    Moment, Outcome, ShownInput, ShownOutput, Stop, Usage,
};
use serde_json::{Value, json};

use super::turn_ended;
use crate::samples::{event, start_time, turn};
use crate::theme::{ColourScheme, Theme};
use crate::transcript::{NoteTone, Transcript};

#[derive(Debug, Clone)]
enum UserAction {
    Happen(EventKind),
    Note(String),
    Scroll(i32),
    Page(i32),
    Top,
    End,
    Select(i32),
    Unselect,
    Toggle,
    ToggleCalls,
    ToggleThinking,
    Click(u16),
    Search(String),
    Next(i32),
    ClearSearch,
    Draw(u16, u16, ColourScheme),
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z \n]{0,40}",
        2 => any::<String>(),
        1 => Just("\u{1b}[31mred\u{1b}]0;title\u{7}\r\nnew".to_owned()),
        1 => Just("世界👩‍👩‍👧‍👦e\u{301}\u{202e}\u{200d}\tx".to_owned()),
        1 => Just("word ".repeat(4000)),
        1 => Just("x".repeat(20_000)),
        1 => Just("```rust\nfn main() {}\n| a | b |\n|--|--|\n| 1 |".to_owned()),
        1 => Just("+a\n-b\n@@ -1 +1 @@\n".repeat(30)),
        1 => Just("line\n".repeat(5000)),
        1 => Just("exit code: 0".to_owned()),
    ]
}

fn id() -> impl Strategy<Value = CallId> {
    "[ab]".prop_map(|id| CallId::from(id.as_str()))
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("bash".to_owned()),
        Just("write_file".to_owned()),
        Just("edit_file".to_owned()),
        Just("plan".to_owned()),
        hostile(),
    ]
}

fn input() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        hostile().prop_map(|command| json!({ "command": command })),
        (hostile(), hostile())
            .prop_map(|(path, content)| json!({"path": path, "content": content})),
        hostile().prop_map(|title| json!({"steps": [{"title": title, "status": "active"}, 7]})),
        hostile().prop_map(|text| json!([text, {"a": text}])),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        hostile().prop_map(Block::text),
        hostile().prop_map(|thinking| Block::Thinking {
            thinking,
            signature: String::new()
        }),
        Just(Block::RedactedThinking {
            data: String::new()
        }),
        (id(), name(), input()).prop_map(|(id, name, input)| Block::ToolUse { id, name, input }),
        Just(Block::Other(json!({"type": "new"}))),
    ]
}

/// As a hostile server may send it: not made by [`CallSummary::new`].
fn summary() -> impl Strategy<Value = Box<CallSummary>> {
    let input = prop_oneof![
        Just(ShownInput::Nothing),
        Just(ShownInput::All),
        (hostile(), hostile()).prop_map(|(name, language)| ShownInput::Argument { name, language }),
    ];
    let output = prop_oneof![
        Just(ShownOutput::Nothing),
        Just(ShownOutput::Command),
        Just(ShownOutput::Diff),
        Just(ShownOutput::Plan),
        Just(ShownOutput::Text),
    ];
    (
        hostile(),
        hostile(),
        input,
        output,
        proptest::option::of(0..3u32),
    )
        .prop_map(|(verb, subject, input, output, job)| CallSummary {
            detail: subject.clone(),
            verb,
            subject,
            kind: CallKind::Other,
            input,
            output,
            job,
        })
        .prop_map(Box::new)
}

fn change() -> impl Strategy<Value = Change> {
    (hostile(), proptest::option::of(hostile())).prop_map(|(path, diff)| Change { path, diff })
}

fn checkpoint(skipped: String) -> Checkpoint {
    Checkpoint {
        number: 1,
        files: 1,
        bytes: 1,
        skipped: BTreeMap::from([(skipped.clone(), skipped)]),
    }
}

fn event_kind() -> impl Strategy<Value = EventKind> {
    let blocks = || proptest::collection::vec(block(), 0..4);
    prop_oneof![
        1 => (0..4u32, blocks()).prop_map(|(turn, prompt)| EventKind::TurnStarted { turn, prompt }),
        1 => (0..4u32).prop_map(|turn| EventKind::TurnContinued { turn }),
        1 => Just(EventKind::RequestStarted { turn: 1, request: 1 }),
        1 => hostile().prop_map(|reason| EventKind::Retrying { attempt: 1, wait_ms: 1, reason }),
        3 => hostile().prop_map(|text| EventKind::TextDelta { text }),
        2 => hostile().prop_map(|text| EventKind::ThinkingDelta { text }),
        2 => (id(), name(), hostile())
            .prop_map(|(call, name, json)| EventKind::InputDelta { call, name, json }),
        3 => blocks().prop_map(|content| EventKind::Replied {
            turn: 1,
            content,
            stop: Stop::EndTurn,
            broken_calls: BTreeMap::new(),
            usage: Usage::default(),
            cost: None,
            model: String::new(),
        }),
        2 => (id(), name(), input(), summary()).prop_map(|(call, name, input, summary)| {
            EventKind::ToolStarted { call, name, input, summary }
        }),
        2 => (id(), hostile()).prop_map(|(call, text)| EventKind::ToolOutput {
            call,
            text,
            is_error: true
        }),
        2 => (
            (id(), name(), blocks(), any::<bool>()),
            proptest::collection::vec(change(), 0..3),
            proptest::option::of(summary()),
        )
            .prop_map(|((call, name, content, is_error), changes, summary)| EventKind::ToolEnded {
                call,
                name: name.clone(),
                content,
                is_error,
                kept: is_error.then_some(Kept { handle: name, bytes: 7 }),
                changes,
                millis: 1,
                denied: Some(false),
                summary,
            }),
        1 => hostile().prop_map(|text| EventKind::Noted { text }),
        1 => hostile().prop_map(|path| EventKind::CheckpointMade {
            turn: 1,
            moment: Moment::Before,
            checkpoint: checkpoint(path),
        }),
        1 => hostile().prop_map(|summary| EventKind::Compacted {
            summary,
            usage: Usage::default(),
            cost: None,
            model: String::new(),
        }),
        1 => (id(), hostile(), proptest::option::of(hostile())).prop_map(|(call, tail, ending)| {
            EventKind::Background {
                jobs: vec![BackgroundJob {
                    job: 1,
                    call,
                    command: tail.clone(),
                    since: start_time(),
                    tail,
                    ending,
                }],
            }
        }),
        1 => Just(EventKind::Background { jobs: Vec::new() }),
        1 => (0..4u32, hostile())
            .prop_map(|(turn, reason)| turn_ended(turn, Outcome::Failed { reason })),
        1 => (0..4u32, hostile()).prop_map(|(turn, path)| EventKind::Undone {
            turn,
            checkpoint: checkpoint(String::new()),
            restored: 1,
            removed: 1,
            left: vec![path],
        }),
        1 => (0..4u32, hostile()).prop_map(|(turn, path)| EventKind::Redone {
            turn,
            checkpoint: checkpoint(String::new()),
            restored: 1,
            removed: 1,
            left: vec![path],
        }),
    ]
}

fn size() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(1), Just(2), 3..30u16, 30..300u16]
}

fn scheme() -> impl Strategy<Value = ColourScheme> {
    prop_oneof![
        Just(ColourScheme::Dark),
        Just(ColourScheme::Light),
        Just(ColourScheme::Plain)
    ]
}

fn action() -> impl Strategy<Value = UserAction> {
    prop_oneof![
        12 => event_kind().prop_map(UserAction::Happen),
        1 => hostile().prop_map(UserAction::Note),
        3 => prop_oneof![-30..30i32, any::<i32>()].prop_map(UserAction::Scroll),
        1 => (-3..3i32).prop_map(UserAction::Page),
        1 => Just(UserAction::Top),
        1 => Just(UserAction::End),
        2 => (-3..3i32).prop_map(UserAction::Select),
        1 => Just(UserAction::Unselect),
        2 => Just(UserAction::Toggle),
        1 => Just(UserAction::ToggleCalls),
        1 => Just(UserAction::ToggleThinking),
        1 => (0..40u16).prop_map(UserAction::Click),
        2 => prop_oneof!["[a-e世é]{0,2}", hostile()].prop_map(UserAction::Search),
        2 => (-2..3i32).prop_map(UserAction::Next),
        1 => Just(UserAction::ClearSearch),
        6 => (size(), size(), scheme()).prop_map(|(width, height, scheme)| {
            UserAction::Draw(width, height, scheme)
        }),
    ]
}

fn draw(transcript: &mut Transcript, width: u16, height: u16, scheme: ColourScheme) {
    transcript.arrange(width, height, &Theme::new(scheme));
    assert!(transcript.visible().len() <= usize::from(height));
    for line in transcript.visible() {
        assert!(line.width() <= usize::from(width), "{width}: {line:?}");
        for span in &line.spans {
            assert!(!span.content.contains(char::is_control), "{span:?}");
        }
    }
    let position = transcript.position();
    assert!(position.above <= position.total && position.height <= position.total);
    if let Some((place, count)) = transcript.match_position() {
        assert!(1 <= place && place <= count);
    }
}

fn run_action(transcript: &mut Transcript, action: &UserAction) {
    match action {
        UserAction::Happen(kind) => transcript.apply(&event(kind.clone())),
        UserAction::Note(text) => transcript.note(text.as_str(), NoteTone::Good),
        UserAction::Scroll(lines) => transcript.scroll(*lines),
        UserAction::Page(pages) => transcript.page(*pages),
        UserAction::Top => transcript.go_to_top(),
        UserAction::End => transcript.go_to_end(),
        UserAction::Select(step) => transcript.select(*step),
        UserAction::Unselect => transcript.unselect(),
        UserAction::Toggle => transcript.toggle_selected(),
        UserAction::ToggleCalls => transcript.toggle_all_calls(),
        UserAction::ToggleThinking => transcript.toggle_thinking(),
        UserAction::Click(row) => drop(transcript.click(*row)),
        UserAction::Search(query) => drop(transcript.search(query)),
        UserAction::Next(step) => transcript.next_match(*step),
        UserAction::ClearSearch => transcript.clear_search(),
        UserAction::Draw(width, height, scheme) => draw(transcript, *width, *height, *scheme),
    }
    drop((transcript.copy_selected(), transcript.selected_diff()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_events_and_actions_are_drawn_inside_the_screen(actions in proptest::collection::vec(action(), 1..40)) {
        let mut transcript = Transcript::default();
        for action in &actions {
            run_action(&mut transcript, action);
        }
        draw(&mut transcript, 80, 24, ColourScheme::Dark);
        // The transcript still works afterwards.
        transcript.clear_search();
        transcript.apply(&event(turn(99, "the last prompt")));
        transcript.go_to_end();
        transcript.arrange(80, 24, &Theme::new(ColourScheme::Dark));
        let last = transcript.visible().last().map(ToString::to_string);
        prop_assert!(last.is_some_and(|line| line.contains("the last prompt")));
    }
}
