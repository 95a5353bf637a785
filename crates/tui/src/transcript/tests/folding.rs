//! Every kind of event, and what stands on the page for it.

use std::collections::BTreeMap;

use protocol::{
    BackgroundJob, Block, BudgetKind, CallId, Change, Checkpoint, Decision, EventKind, Fork, Image,
    Kept, Moment, Outcome, Question, Scope, Subject, Usage,
};
use serde_json::json;

use super::{
    bash, called, ended, lined, lived, over, page, printed, said, started, text, thinking, words,
};
use crate::samples::{self, began, event_at, turn};
use crate::transcript::Transcript;

fn check(events: &[EventKind], expect: &str) {
    let mut transcript = lived(events);
    assert_eq!(page(&mut transcript), lined(expect), "{events:#?}");
}

#[test]
fn people_and_models_speak() {
    check(&[], "");
    check(
        &[turn(1, "hello"), words("Hello!"), over(1, Outcome::Done)],
        "
        |> hello
        |
        |  Hello!",
    );
    let picture = Block::Image {
        source: Image::Base64 {
            media_type: "image/png".into(),
            data: String::new(),
        },
    };
    check(
        &[EventKind::TurnStarted {
            turn: 1,
            prompt: vec![Block::text("look\nhere"), picture.clone(), picture],
        }],
        "
        |> look
        |  here
        |  2 pictures",
    );
    check(
        &[turn(1, &super::lines(10_000))],
        "
        |> line 1
        |  line 2
        |  line 3
        |  line 4
        |  line 5
        |  line 6
        |  line 7
        |  line 8
        |  … 9,992 more lines",
    );
    check(
        &[EventKind::TurnContinued { turn: 1 }, text("I go"), text(" on.\n")],
        "
        |· taken up again
        |
        |  I go on.",
    );
}

#[test]
fn a_reply_takes_the_place_of_its_pieces() {
    let request = EventKind::RequestStarted {
        turn: 1,
        request: 1,
    };
    let retrying = EventKind::Retrying {
        attempt: 1,
        wait_ms: 2_500,
        reason: "overloaded".into(),
    };
    check(
        &[
            request.clone(),
            text("Half of"),
            thinking("hm"),
            retrying.clone(),
        ],
        "|! overloaded; trying again in 2.5 s",
    );
    check(
        &[
            request.clone(),
            text("Half of"),
            retrying,
            request.clone(),
            text("Whole."),
            words("Whole."),
        ],
        "|  Whole.",
    );
    check(
        &[request.clone(), text("Wrong"), words("Right.")],
        "|  Right.",
    );
    check(
        &[
            request,
            text("a"),
            said(vec![
                Block::RedactedThinking {
                    data: String::new(),
                },
                Block::text("a"),
                Block::text("b"),
            ]),
        ],
        "
        |▸ thought · sealed by the provider
        |
        |  ab",
    );
}

#[test]
fn thinking_is_shown_while_it_goes_on() {
    check(
        &[thinking("First\nthis,\n"), thinking("then that.")],
        "
        |· thinking
        |  │ First
        |  │ this,
        |  │ then that.",
    );
    check(
        &[thinking("one two three"), text("So.")],
        "
        |▸ thought · 3 words
        |
        |  So.",
    );
    let mut transcript = Transcript::default();
    transcript.apply(&event_at(0, thinking("one two")));
    transcript.apply(&event_at(12_900, text("So.")));
    assert!(page(&mut transcript).contains("▸ thought for 12 s · 2 words"));
}

#[test]
fn calls_are_seen_from_their_first_letter_on() {
    let piece = |json: &str| EventKind::InputDelta {
        call: CallId::from("a"),
        name: "write_file".into(),
        json: json.into(),
    };
    check(&[piece("")], "|○ write_file · …");
    check(
        &[piece("{\"path\": \"hel"), piece("lo.py\", \"content\": \"x")],
        "|○ write hello.py · …",
    );
    check(
        &[piece("{\"path\": \"a\", \"content\": \""), piece(&"x".repeat(3000))],
        "|○ write a · 3.0 kB …",
    );
    check(&[bash("a", "make")], "|○ $ make");
    check(
        &[bash("a", "make"), started("a", "make"), printed("a", &super::lines(9))],
        "
        |● $ make
        |  │ line 4
        |  │ line 5
        |  │ line 6
        |  │ line 7
        |  │ line 8
        |  │ line 9",
    );
}

#[test]
fn commands_end() {
    let run = |output: &str, is_error| [bash("a", "make"), ended("a", "bash", output, is_error)];
    check(
        &run("a\nb\nc\nd\nexit code: 0", false),
        "
        |✓ $ make · 2.3 s
        |  │ b
        |  │ c
        |  │ d",
    );
    check(&run("exit code: 2", true), "|✗ $ make · 2.3 s · exit code 2");
    check(
        &run("x\nkilled by signal 9 (SIGKILL): the sandbox's memory limit was reached", true),
        "
        |✗ $ make · 2.3 s · killed by signal 9 (SIGKILL)
        |  │ x",
    );
    check(
        &run("interrupted: the command was ended", true),
        "|✗ $ make · 2.3 s · interrupted",
    );
    check(
        &run("running in the background as job 3 for 0 s: `bash_job` polls it", false),
        "|✓ $ make · 2.3 s · goes on as job 3",
    );
    check(
        &[bash("a", "make"), started("a", "make"), over(1, Outcome::Interrupted)],
        "
        |✗ $ make · cut off
        |! interrupted",
    );
    // A name that is used again is another call.
    check(
        &[
            bash("a", "one"),
            ended("a", "bash", "exit code: 0", false),
            bash("a", "two"),
            ended("a", "bash", "exit code: 0", false),
        ],
        "
        |✓ $ one · 2.3 s
        |✓ $ two · 2.3 s",
    );
}

#[test]
fn other_calls_end() {
    check(
        &[
            called("a", "read_file", json!({"path": "a"})),
            ended("a", "read_file", "1 x\n2 y", false),
        ],
        "|✓ read a · 2.3 s",
    );
    check(
        &[
            called("a", "read_file", json!({"path": "a"})),
            ended("a", "read_file", "there is no `a`", true),
        ],
        "
        |✗ read a · 2.3 s
        |  │ there is no `a`",
    );
    check(
        &[
            called("a", "edit_file", json!({"path": "src/parser.rs", "edits": []})),
            samples::tool_ended("a", "edit_file", "edited", vec![samples::edit()]),
        ],
        "
        |✓ edit src/parser.rs · +3 −1 · 1.2 s
        |  │ @@ -10,5 +10,6 @@ fn parse(line: &str) {
        |  │      let line = line.trim();
        |  │ -    let (name, rest) = line.split_once(' ').unwrap();
        |  │ +    let Some((name, rest)) = line.split_once(' ') else {
        |  │ +        return Err(ParseError::NoName);
        |  │ +    };
        |  │      read(name, rest)",
    );
    let long = Change {
        path: "a".into(),
        diff: Some((1..=30).map(|number| format!("+{number}\n")).collect()),
    };
    check(
        &[samples::tool_ended("a", "write_file", "created", vec![long])],
        "
        |✓ write_file · +30 −0 · 1.2 s
        |  │ +1
        |  │ +2
        |  │ +3
        |  │ +4
        |  │ +5
        |  │ +6
        |  │ +7
        |  │ +8
        |  │ +9
        |  │ +10
        |  │ +11
        |  │ +12
        |  │ … 18 more lines",
    );
}

#[test]
fn the_latest_plan_is_a_list() {
    let plan = |id: &str, first: &str, second: &str| {
        let steps = json!([
            {"title": "Read", "status": first},
            {"title": "Write", "status": second},
        ]);
        [
            called(id, "plan", json!({ "steps": steps })),
            ended(id, "plan", "The person sees the plan.", false),
        ]
    };
    let events = [plan("a", "active", "pending"), plan("b", "done", "active")];
    check(
        &events.concat(),
        "
        |✓ plan, 0 of 2 done · 2.3 s
        |✓ plan, 1 of 2 done · 2.3 s
        |  │ ✓ Read
        |  │ ● Write",
    );
}

#[test]
fn commands_in_the_background_are_followed() {
    let job = |tail: &str, ending: Option<&str>| BackgroundJob {
        job: 1,
        call: CallId::from("a"),
        command: "serve".into(),
        since: began(),
        tail: tail.into(),
        ending: ending.map(str::to_owned),
    };
    let background = |jobs: Vec<BackgroundJob>| EventKind::Background { jobs };
    let begun = [
        bash("a", "serve"),
        ended("a", "bash", "running in the background as job 1 for 0 s: x", false),
    ];
    let with = |more: &[EventKind]| [&begun, more].concat();
    check(
        &with(&[background(vec![job("a\nb\nc\nd\n", None)])]),
        "
        |✓ $ serve · 2.3 s · goes on as job 1
        |  │ b
        |  │ c
        |  │ d
        |  │ job 1 goes on",
    );
    let over = "
        |✓ $ serve · 2.3 s · goes on as job 1
        |  │ job 1 is over: exit code 0";
    check(&with(&[background(vec![job("a", Some("exit code 0"))])]), over);
    check(
        &with(&[background(vec![job("a", None)]), background(Vec::new())]),
        &over.replace("exit code 0", "ended"),
    );
}

#[test]
fn turns_end() {
    for (outcome, expect) in [
        (Outcome::Interrupted, "! interrupted"),
        (
            Outcome::Failed {
                reason: "the model refused".into(),
            },
            "✗ failed: the model refused",
        ),
        (
            Outcome::Budget {
                budget: BudgetKind::Cost,
                reason: "$1.00 is spent".into(),
            },
            "✗ the budget is used up: $1.00 is spent",
        ),
        (
            Outcome::Provider {
                reason: "no\u{1b}[31m answer".into(),
            },
            "✗ the provider failed: no answer",
        ),
        (Outcome::Done, ""),
    ] {
        check(&[over(1, outcome)], &format!("|{expect}"));
    }
    let mut transcript = Transcript::default();
    transcript.apply(&event_at(0, turn(1, "go")));
    transcript.apply(&event_at(72_000, over(1, Outcome::Done)));
    assert_eq!(page(&mut transcript), "> go\n\n· done in 1 min 12 s");
}

#[test]
fn notes_are_made() {
    let question = Question {
        number: 1,
        what: "connect to pypi.org:443".into(),
        why: String::new(),
        subject: Subject::Host {
            host: "pypi.org".into(),
        },
    };
    let decided = |is_allowed, scope| EventKind::Decided {
        question: question.clone(),
        decision: Some(Decision { is_allowed, scope }),
    };
    let skipped = |paths: &[&str]| EventKind::CheckpointMade {
        turn: 1,
        moment: Moment::Before,
        checkpoint: Checkpoint {
            number: 1,
            files: 1,
            bytes: 1,
            skipped: paths
                .iter()
                .map(|path| (path.to_string(), "too large".to_owned()))
                .collect(),
        },
    };
    check(
        &[
            EventKind::SessionStarted {
                release: String::new(),
                workspace: String::new(),
                model: String::new(),
                forked_from: Some(Fork {
                    session: samples::session(),
                    seq: 7,
                }),
            },
            EventKind::SandboxStarted {
                backend: "native".into(),
                walls: Vec::new(),
                network: Vec::new(),
                limits: BTreeMap::new(),
                replaces: Some("out of memory".into()),
            },
            EventKind::Noted {
                text: "The same call again.".into(),
            },
            EventKind::Noted {
                text: "One.\nTwo.".into(),
            },
            EventKind::ModelChanged {
                model: "haiku".into(),
                window: None,
            },
            EventKind::CommandRefused {
                reason: "nothing to undo".into(),
            },
            EventKind::Asked {
                question: question.clone(),
            },
            decided(true, Scope::Session),
            decided(true, Scope::Always),
            decided(false, Scope::Once),
            EventKind::Decided {
                question: question.clone(),
                decision: None,
            },
            skipped(&["a", "b"]),
            skipped(&["a", "b"]),
            skipped(&["a", "c"]),
            EventKind::Compacted {
                summary: "All was well.".into(),
                usage: Usage::default(),
                cost: None,
                model: String::new(),
            },
        ],
        "
        |· a fork of 20260315-120000-k3fd
        |! the sandbox was lost, and a new one stands: out of memory
        |· note to the model: The same call again.
        |▸ note to the model: One.
        |· the model is now haiku
        |! refused: nothing to undo
        |✓ allowed for this session: pypi.org
        |✓ always allowed: pypi.org
        |! denied once: connect to pypi.org:443
        |· not on record for an undo: a: too large, and 1 more
        |· not on record for an undo: c: too large
        |▸ the past was put into a summary",
    );
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        number: 1,
        files: 0,
        bytes: 0,
        skipped: BTreeMap::new(),
    }
}

fn undone(turn: u32, restored: u64, removed: u64, left: &[&str]) -> EventKind {
    EventKind::Undone {
        turn,
        checkpoint: checkpoint(),
        restored,
        removed,
        left: left.iter().map(ToString::to_string).collect(),
    }
}

fn redone(turn: u32) -> EventKind {
    EventKind::Redone {
        turn,
        checkpoint: checkpoint(),
        restored: 1,
        removed: 0,
        left: Vec::new(),
    }
}

#[test]
fn turns_are_taken_back_and_come_again() {
    let told = [turn(1, "one"), words("First."), turn(2, "two"), words("Second.")];
    let with = |more: &[EventKind]| [&told, more].concat();
    check(
        &with(&[undone(2, 2, 1, &["a.txt", "b.txt"])]),
        "
        |> one
        |
        |  First.
        |
        |▸ turn 2 was taken back: 2 files restored, 1 removed
        |  left as they are: a.txt, b.txt",
    );
    check(
        &with(&[undone(2, 0, 0, &[]), undone(1, 0, 3, &[])]),
        "|▸ turn 1 was taken back: 3 files removed",
    );
    check(
        &with(&[undone(2, 0, 0, &[]), undone(1, 0, 3, &[]), redone(1)]),
        "
        |> one
        |
        |  First.
        |
        |▸ turn 2 was taken back
        |· turn 1 counts again: 1 file restored",
    );
    check(
        &with(&[undone(2, 1, 0, &[]), redone(2)]),
        "
        |> one
        |
        |  First.
        |
        |> two
        |
        |  Second.
        |
        |· turn 2 counts again: 1 file restored",
    );
}

#[test]
fn a_lasting_event_counts_once() {
    let mut transcript = Transcript::default();
    for seq in [1, 1, 2, 1] {
        let mut event = samples::event(words("Hello."));
        event.seq = Some(seq);
        transcript.apply(&event);
    }
    assert_eq!(page(&mut transcript), "  Hello.\n\n  Hello.");
}

#[test]
fn nothing_that_a_terminal_obeys_comes_through() {
    let evil = "\u{1b}]52;c;aGk=\u{7}a\u{1b}[2J\u{9b}31mb\u{202e}c\u{8}";
    let events = [
        turn(1, evil),
        thinking(evil),
        text(evil),
        words(evil),
        called(evil, evil, json!({evil: evil, "path": evil})),
        ended(evil, evil, evil, true),
        bash("x", evil),
        started("x", evil),
        printed("x", evil),
        EventKind::Noted { text: evil.into() },
        EventKind::ToolEnded {
            call: CallId::from("x"),
            name: "write_file".into(),
            content: vec![Block::text(evil)],
            is_error: false,
            kept: Some(Kept {
                handle: evil.into(),
                bytes: 1,
            }),
            changes: vec![Change {
                path: evil.into(),
                diff: Some(format!("+{evil}\n")),
            }; 2],
            millis: 0,
        },
        EventKind::Background {
            jobs: vec![BackgroundJob {
                job: 1,
                call: CallId::from("x"),
                command: evil.into(),
                since: began(),
                tail: evil.into(),
                ending: Some(evil.into()),
            }],
        },
    ];
    let mut transcript = lived(&events);
    let closed = page(&mut transcript);
    transcript.toggle_all_calls();
    transcript.toggle_thinking();
    let open = page(&mut transcript);
    for page in [closed, open] {
        let is_bad = |letter: char| {
            letter != '\n' && (letter.is_control() || ('\u{202a}'..='\u{202e}').contains(&letter))
        };
        assert_eq!(page.chars().find(|letter| is_bad(*letter)), None, "{page}");
    }
}
