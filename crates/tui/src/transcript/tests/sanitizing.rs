//! Only plain text from outside reaches the terminal.

use protocol::{BackgroundJob, Block, CallId, Change, EventKind, Kept};
use serde_json::json;

use super::{
    bash, call_reply, ended, page, printed, reply, started, text, thinking, transcript_of,
};
use crate::samples::{start_time, turn};

#[test]
fn no_control_sequence_reaches_the_screen() {
    let evil = "\u{1b}]52;c;aGk=\u{7}a\u{1b}[2J\u{9b}31mb\u{202e}c\u{8}";
    let events = [
        turn(1, evil),
        thinking(evil),
        text(evil),
        reply(evil),
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
                since: start_time(),
                tail: evil.into(),
                ending: Some(evil.into()),
            }],
        },
    ];
    let mut transcript = transcript_of(&events);
    let closed = page(&mut transcript);
    transcript.toggle_all_calls();
    transcript.toggle_thinking();
    let open = page(&mut transcript);
    for page in [closed, open] {
        let is_bad = |character: char| {
            character != '\n'
                && (character.is_control() || ('\u{202a}'..='\u{202e}').contains(&character))
        };
        assert_eq!(
            page.chars().find(|character| is_bad(*character)),
            None,
            "{page}"
        );
    }
}
