//! The committed schema matches the types, and events conform to it.

use std::collections::BTreeMap;

use protocol::{
    Backend, BackgroundJob, Block, BudgetKind, CallKind, CallSummary, Change, Checkpoint, Decision,
    EVENT_VERSION, Event, EventKind, Image, Kept, Moment, Outcome, Question, SandboxInfo, Scope,
    Spending, Stop, Subject, Usage,
};
use serde_json::{Value, json};

const COMMITTED_SCHEMA: &str = include_str!("../../../../docs/events.schema.json");

#[test]
fn the_committed_schema_is_current() {
    let current = serde_json::to_string_pretty(&protocol::schema()).unwrap();
    assert!(
        current.trim() == COMMITTED_SCHEMA.trim(),
        "run `cargo run -p protocol --example schema > docs/events.schema.json`, and raise \
         VERSION if anything was taken away"
    );
}

fn examples() -> Vec<EventKind> {
    let checkpoint = Checkpoint {
        number: 1,
        files: 2,
        bytes: 3,
        skipped: BTreeMap::from([("big".into(), "large".into())]),
    };
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        ..Usage::default()
    };
    let content = vec![
        Block::text("words"),
        Block::Thinking {
            thinking: "hm".into(),
            signature: "s".into(),
        },
        Block::ToolUse {
            id: "c".into(),
            name: "bash".into(),
            input: json!({"command": "ls"}),
        },
        Block::Image {
            source: Image::Base64 {
                media_type: "image/png".into(),
                data: "AA==".into(),
            },
        },
        Block::Other(json!({"type": "new"})),
    ];
    let outcomes = [
        Outcome::Done,
        Outcome::Interrupted,
        Outcome::Failed { reason: "x".into() },
        Outcome::Provider {
            reason: "x".into(),
            transient: true,
        },
        Outcome::Budget {
            budget: BudgetKind::Cost,
            reason: "x".into(),
        },
    ];
    let mut examples = vec![
        EventKind::SessionStarted {
            release: "1".into(),
            workspace: "/w".into(),
            model: "m".into(),
            forked_from: None,
        },
        EventKind::SandboxStarted {
            sandbox: SandboxInfo {
                limits: BTreeMap::from([("memory".into(), "2 GiB by cgroup".into())]),
                is_emulated: true,
                ..SandboxInfo::requested(Backend::Microvm, vec!["seccomp".into()])
            },
            replaces: Some("broke".into()),
        },
        EventKind::TurnStarted {
            turn: 1,
            prompt: content.clone(),
        },
        EventKind::TurnContinued { turn: 1 },
        EventKind::RequestStarted {
            turn: 1,
            request: 1,
        },
        EventKind::Retrying {
            attempt: 1,
            wait_ms: 500,
            reason: "busy".into(),
        },
        EventKind::TextDelta { text: "a".into() },
        EventKind::ThinkingDelta { text: "a".into() },
        EventKind::InputDelta {
            call: "c".into(),
            name: "bash".into(),
            json: "{".into(),
        },
        EventKind::ToolStarted {
            call: "c".into(),
            name: "bash".into(),
            input: json!({}),
            summary: Box::new(CallSummary::new(CallKind::Command, "$", "ls")),
        },
        EventKind::ToolOutput {
            call: "c".into(),
            text: "x".into(),
            is_error: true,
        },
        EventKind::ToolEnded {
            call: "c".into(),
            name: "bash".into(),
            content: content.clone(),
            is_error: false,
            kept: Some(Kept {
                handle: "output:1".into(),
                bytes: 9,
            }),
            changes: vec![Change {
                path: "a".into(),
                diff: None,
            }],
            millis: 3,
            denied: Some(false),
            summary: Some(Box::new(CallSummary::default().with_detail("exit code 1"))),
        },
        EventKind::Noted { text: "x".into() },
        EventKind::CheckpointMade {
            turn: 1,
            moment: Moment::Before,
            checkpoint: checkpoint.clone(),
        },
        EventKind::CommandRefused { reason: "x".into() },
        EventKind::Spent {
            spending: Spending::default(),
        },
        EventKind::Undone {
            turn: 1,
            checkpoint: checkpoint.clone(),
            restored: 1,
            removed: 0,
            left: vec!["a".into()],
        },
        EventKind::Redone {
            turn: 1,
            checkpoint,
            restored: 1,
            removed: 0,
            left: Vec::new(),
        },
        EventKind::Ready {
            model: "m".into(),
            window: Some(200_000),
            sandbox: SandboxInfo::requested(Backend::None, Vec::new()),
            workspace: "/w".into(),
            asks: true,
        },
        EventKind::ModelChanged {
            model: "m".into(),
            window: None,
        },
        EventKind::Compacted {
            summary: "x".into(),
            usage,
            cost: None,
            model: "m".into(),
        },
        EventKind::NetworkChanged {
            network: vec!["example.com".into()],
        },
        EventKind::Background {
            jobs: vec![BackgroundJob {
                job: 1,
                call: "c".into(),
                command: "serve".into(),
                since: "2026-01-31T17:45:02Z".parse().unwrap(),
                tail: "listening".into(),
                ending: Some("exit code 1".into()),
            }],
        },
        EventKind::Files {
            paths: vec!["a".into()],
            is_cut: false,
        },
        EventKind::Differs {
            changes: Vec::new(),
            left_out: 1,
        },
    ];
    for subject in [
        Subject::Host {
            host: "example.com".into(),
        },
        Subject::Tool {
            tool: "bash".into(),
            argument: Some("git push*".into()),
        },
    ] {
        let question = Question {
            number: 1,
            what: "x".into(),
            why: "y".into(),
            subject,
        };
        examples.push(EventKind::Asked {
            question: question.clone(),
        });
        examples.push(EventKind::Decided {
            question,
            decision: Some(Decision {
                is_allowed: true,
                scope: Scope::Always,
            }),
        });
    }
    for stop in [Stop::EndTurn, Stop::Interrupted, Stop::Other("new".into())] {
        examples.push(EventKind::Replied {
            turn: 1,
            content: content.clone(),
            stop,
            broken_calls: BTreeMap::from([("c".into(), "cut".into())]),
            usage,
            cost: Some(0.5),
            model: "m".into(),
        });
    }
    examples.extend(outcomes.map(|outcome| EventKind::TurnEnded {
        turn: 1,
        outcome,
        spending: Spending::default(),
    }));
    examples
}

/// Stored by a release that knew neither strength, reason nor emulation.
#[test]
fn an_old_record_of_a_sandbox_can_still_be_read() {
    let stored = json!({
        "v": 1,
        "session": "20260131-174502-k3fd",
        "seq": 2,
        "time": "2026-01-31T17:45:02Z",
        "type": "sandbox_started",
        "backend": "none",
        "walls": [],
        "network": [],
        "limits": {"memory": "2G by nothing"},
    });
    let event: Event = serde_json::from_value(stored).unwrap();
    let EventKind::SandboxStarted { sandbox, replaces } = event.kind else {
        panic!("{event:?}");
    };
    assert_eq!(sandbox.backend, Backend::None);
    assert!(!sandbox.has_walls() && !sandbox.is_emulated);
    assert_eq!((sandbox.strength, replaces), (None, None));
    assert_eq!(sandbox.limits["memory"], "2G by nothing");
}

#[test]
fn every_kind_of_event_keeps_to_the_schema_and_survives_it() {
    let schema: Value = serde_json::from_str(COMMITTED_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for kind in examples() {
        let event = Event {
            v: EVENT_VERSION,
            session: "20260131-174502-k3fd".parse().unwrap(),
            seq: kind.is_lasting().then_some(7),
            time: "2026-01-31T17:45:02Z".parse().unwrap(),
            kind,
        };
        let value = serde_json::to_value(&event).unwrap();
        kinds.insert(value["type"].as_str().unwrap().to_owned());
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{value}: {errors:?}");
        assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
    }
    let variants = schema["oneOf"].as_array().unwrap();
    let known: std::collections::BTreeSet<String> = variants
        .iter()
        .map(|variant| {
            variant["properties"]["type"]["const"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        kinds, known,
        "an example for each kind that the schema knows"
    );
    assert!(
        validator
            .validate(&json!({"v": 1, "type": "text_delta"}))
            .is_err()
    );
}
