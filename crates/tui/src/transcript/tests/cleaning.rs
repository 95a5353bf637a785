//! Only plain text from outside reaches the terminal.

use protocol::{BackgroundJob, Block, CallId, Change, EventKind, Kept};
use serde_json::json;

use super::{bash, call_reply, ended, lived, page, printed, started, text, thinking, words};
use crate::samples::{began, turn};

#[test]
fn nothing_that_a_terminal_obeys_comes_through() {
    let evil = "\u{1b}]52;c;aGk=\u{7}a\u{1b}[2J\u{9b}31mb\u{202e}c\u{8}";
    let events = [
        turn(1, evil),
        thinking(evil),
        text(evil),
        words(evil),
        call_reply(evil, evil, json!({evil: evil, "path": evil})),
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
            changes: vec![
                Change {
                    path: evil.into(),
                    diff: Some(format!("+{evil}\n")),
                };
                2
            ],
            millis: 0,
            denied: Some(false),
            summary: None,
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
