//! The status after some events, and how much of it fits.

#![allow(clippy::unwrap_used)]

use protocol::{EventKind, Usage};
use serde_json::json;

use super::*;
use crate::samples::{
    self, background, ended, event_at, ready, replied, sandbox_started, spending, turn, usage,
};
use crate::theme::{ColourScheme, Theme};

fn status_after(kinds: &[EventKind]) -> UiStatus {
    let mut status = UiStatus::default();
    for (index, kind) in kinds.iter().enumerate() {
        let millis = 100 * index as u64;
        status.now = Duration::from_millis(millis);
        status.apply(&event_at(millis as i64, kind.clone()));
    }
    status
}

fn text(status: &UiStatus, width: u16, lines: u16) -> String {
    let theme = Theme::new(ColourScheme::Plain);
    let lines = status_bar(status, Vec::new(), width, lines, &theme);
    for line in &lines {
        assert!(line.width() <= usize::from(width), "{line}");
    }
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[track_caller]
fn check(kinds: &[EventKind], expect: &str) {
    assert_eq!(text(&status_after(kinds), 400, 1), expect);
}

#[test]
fn the_bar_follows_events() {
    check(&[], "starting the sandbox …");
    check(
        &[ready("native", &[], false)],
        "native walls · no network · claude-sonnet-4-5",
    );
    // Stronger walls than usual are named.
    check(
        &[ready("microvm", &[], false)],
        "microvm walls (vm) · no network · claude-sonnet-4-5",
    );
    check(
        &[ready("native", &[], false), sandbox_started("gvisor")],
        "gvisor walls (kernel) · no network · claude-sonnet-4-5",
    );
    check(
        &[ready("none", &[], false)],
        "NO SANDBOX · open network · claude-sonnet-4-5",
    );
    check(
        &[ready("native", &[], true)],
        "native walls · network: asks · claude-sonnet-4-5",
    );
    check(
        &[
            ready("native", &[], true),
            EventKind::NetworkChanged {
                network: vec!["pypi.org".into(), "crates.io".into()],
            },
        ],
        "native walls · pypi.org, crates.io, asks · claude-sonnet-4-5",
    );
    check(
        &[
            ready("native", &[], false),
            EventKind::ModelChanged {
                model: "gpt-5".into(),
                window: None,
            },
            EventKind::Background {
                jobs: vec![
                    background("python -m http.server", None),
                    background("make", Some("exit code 0")),
                ],
            },
        ],
        "native walls · no network · gpt-5 · 1 in background",
    );
}

#[test]
fn totals_come_from_the_agent_or_the_sum_of_replies() {
    let reply = || replied(vec![], usage(50_000, 1_000), Some(0.25));
    check(
        &[ready("native", &[], false), turn(1, "hi"), reply(), reply()],
        "native walls · no network · claude-sonnet-4-5 · 25 % of context · $0.50 · \
         100k in, 2.0k out · turn 0 s",
    );
    check(
        &[turn(1, "hi"), reply(), ended(1, spending(0.9, Some(1.0)))],
        "starting the sandbox … · $0.25 of $1.00 · 50.0k in, 1.0k out",
    );
    let mut spent = spending(0.9, Some(1.0));
    spent.usage = usage(60_000, 1_000);
    check(
        &[turn(1, "hi"), reply(), ended(1, spent)],
        "starting the sandbox … · $0.90 of $1.00 · 60.0k in, 1.0k out",
    );
    check(
        &[replied(vec![], usage(10, 5), None)],
        "starting the sandbox … · cost unknown · 10 in, 5 out",
    );
}

#[test]
fn context_is_the_last_request_until_compaction() {
    let cached = Usage {
        input_tokens: 1_000,
        cache_creation_input_tokens: 9_000,
        cache_read_input_tokens: 150_000,
        output_tokens: 4_000,
    };
    let mut kinds = vec![ready("native", &[], false), replied(vec![], cached, None)];
    let status = status_after(&kinds);
    assert_eq!(status.context_used(), Some(82));
    assert!(text(&status, 400, 1).contains("82 % of context: /compact"));
    kinds.push(EventKind::Compacted {
        summary: "all of it".into(),
        usage: usage(164_000, 2_000),
        cost: None,
        model: "claude-sonnet-4-5".into(),
    });
    assert_eq!(status_after(&kinds).context_used(), Some(1));
}

#[test]
fn the_activity_is_described() {
    #[track_caller]
    fn check(kinds: &[EventKind], expect: &str) {
        let all = [&[turn(1, "hi")], kinds].concat();
        let status = status_after(&all);
        assert_eq!(status.activity.text(status.now), expect);
    }
    let delta = |text: &str| EventKind::TextDelta { text: text.into() };
    let bash =
        |id: &str, command: &str| samples::tool_started(id, "bash", json!({ "command": command }));
    let end = |id: &str| samples::tool_ended(id, "bash", "", Vec::new());
    check(&[], "waiting for the model");
    check(
        &[EventKind::ThinkingDelta { text: "hm".into() }],
        "thinking",
    );
    check(&[delta("so")], "writing");
    check(
        &[EventKind::InputDelta {
            call: "1".into(),
            name: "write_file".into(),
            json: "{".into(),
        }],
        "preparing write_file",
    );
    check(&[bash("1", "cargo test")], "running $ cargo test");
    check(
        &[bash("1", "cat <<E\nx\u{1b}[2J\nE")],
        "running $ cat <<E x [2J E",
    );
    check(&[bash("1", "a"), bash("2", "b")], "running 2 commands");
    check(
        &[
            bash("1", "a"),
            samples::tool_started("2", "read_file", json!({"path": "x"})),
        ],
        "2 things at once",
    );
    check(&[bash("1", "a"), bash("2", "b"), end("1")], "running $ b");
    check(&[bash("1", "a"), end("1")], "waiting for the model");
    let retry = EventKind::Retrying {
        attempt: 1,
        wait_ms: 2_500,
        reason: "the provider is overloaded".into(),
    };
    check(
        std::slice::from_ref(&retry),
        "trying again in 3 s: the provider is overloaded",
    );
    let mut status = status_after(&[turn(1, "hi"), retry]);
    status.now += Duration::from_secs(9);
    assert_eq!(
        status.activity.text(status.now),
        "trying again: the provider is overloaded"
    );
}

#[test]
fn turns_are_timed_live_and_from_history() {
    let mut status = status_after(&[turn(1, "hi")]);
    status.now += Duration::from_secs(7);
    assert_eq!(status.elapsed(), Some(Duration::from_secs(7)));
    status.apply(&event_at(7_000, ended(1, spending(0.1, None))));
    assert_eq!(status.elapsed(), None);
    // All events arrive at once, a minute after the start.
    let mut status = UiStatus::default();
    status.apply(&event_at(0, turn(1, "hi")));
    status.apply(&event_at(60_000, replied(vec![], usage(1, 1), None)));
    status.now += Duration::from_secs(2);
    assert_eq!(status.elapsed(), Some(Duration::from_secs(62)));
}

#[test]
fn walls_are_unknown_for_an_opened_session_but_known_for_a_job() {
    let history = vec![
        event_at(0, samples::started()),
        event_at(0, samples::sandbox_started("native")),
        event_at(0, turn(1, "hi")),
    ];
    let mut opened = OpenedSession {
        origin: SessionOrigin::Here { session: None },
        history,
        model: "gpt-5".into(),
        workspace: "/home/ada/other".into(),
    };
    let status = UiStatus::open(Duration::ZERO, &opened);
    assert_eq!((status.sandbox, status.is_busy), (None, false));
    assert_eq!(status.session, Some(samples::session()));
    assert_eq!(status.model, "gpt-5");
    opened.origin = SessionOrigin::Job {
        job: "0198c1de-0000-7000-8000-000000000001".parse().unwrap(),
        server: "build.example".into(),
    };
    let status = UiStatus::open(Duration::ZERO, &opened);
    assert!(status.is_busy && status.sandbox.is_some());
    assert!(text(&status, 80, 1).starts_with("job 0198c1de · native"));
}

#[test]
fn narrow_bars_keep_the_most_important_parts() {
    let status = status_after(&[
        ready(
            "native",
            &["pypi.org", "files.pythonhosted.org", "crates.io"],
            true,
        ),
        samples::started(),
        turn(1, "hi"),
        replied(vec![], usage(60_000, 3_000), Some(0.12)),
        EventKind::Spent {
            spending: {
                let mut spending = spending(0.12, Some(1.0));
                spending.usage = usage(60_000, 3_000);
                spending
            },
        },
        EventKind::Background {
            jobs: vec![background("python -m http.server", None)],
        },
    ]);
    #[track_caller]
    fn check(status: &UiStatus, width: u16, lines: u16, expect: &str) {
        assert_eq!(text(status, width, lines), expect);
    }
    check(&status, 20, 1, "native");
    check(&status, 40, 1, "native · pypi.org +2, asks");
    check(
        &status,
        80,
        1,
        "native · pypi.org +2, asks · claude-sonnet-4-5 · ctx 31 % · $0.12/$1.00",
    );
    check(
        &status,
        80,
        2,
        "native walls · pypi.org, files.pythonhosted.org, crates.io, asks\n\
         claude-sonnet-4-5 · 31 % of context · $0.12 of $1.00 · ↑60.0k ↓3.0k · 1 running",
    );
    check(
        &status,
        120,
        2,
        "native walls · pypi.org +2, asks · claude-sonnet-4-5 · ctx 31 % · $0.12/$1.00 · \
         ↑60.0k ↓3.0k · 1 running",
    );
    check(
        &status,
        300,
        2,
        "native walls · pypi.org, files.pythonhosted.org, crates.io, asks · claude-sonnet-4-5 · \
         31 % of context · $0.12 of $1.00 · 60.0k in, 3.0k out · 1 in background · turn 0 s · \
         /home/ada/parser · session 20260315-120000-k3fd",
    );
    for width in 0..100 {
        text(&status, width, 2);
    }
}
