//! Notes about turns, decisions and undos.

use std::collections::BTreeMap;

use protocol::{
    Backend, BudgetKind, Checkpoint, Decision, EventKind, Fork, Moment, Outcome, Question,
    SandboxInfo, Scope, Subject, Usage,
};

use super::{check, page, reply, turn_ended};
use crate::samples::{self, event_at, turn};
use crate::transcript::Transcript;

#[test]
fn turn_outcomes_are_noted() {
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
                transient: false,
            },
            "✗ the provider failed: no answer",
        ),
        (Outcome::Done, ""),
    ] {
        check(&[turn_ended(1, outcome)], &format!("|{expect}"));
    }
    let mut transcript = Transcript::default();
    transcript.apply(&event_at(0, turn(1, "go")));
    transcript.apply(&event_at(72_000, turn_ended(1, Outcome::Done)));
    assert_eq!(page(&mut transcript), "> go\n\n· done in 1 min 12 s");
}

#[test]
fn events_become_notes() {
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
                sandbox: SandboxInfo::requested(Backend::Native, Vec::new()),
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
fn turns_are_undone_and_redone() {
    let reported_files = [
        turn(1, "one"),
        reply("First."),
        turn(2, "two"),
        reply("Second."),
    ];
    let with = |more: &[EventKind]| [&reported_files, more].concat();
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
