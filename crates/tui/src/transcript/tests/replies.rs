//! Prompts and replies, while they arrive and when they are complete.

use protocol::{Block, EventKind, Image, Outcome};

use super::{check, lines, page, reply, reply_of, text, thinking, turn_ended};
use crate::samples::{self, event_at, turn};
use crate::transcript::Transcript;

#[test]
fn prompts_and_replies_are_shown() {
    check(&[], "");
    check(
        &[
            turn(1, "hello"),
            reply("Hello!"),
            turn_ended(1, Outcome::Done),
        ],
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
        &[turn(1, &lines(10_000))],
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
        &[
            EventKind::TurnContinued { turn: 1 },
            text("I go"),
            text(" on.\n"),
        ],
        "
        |· taken up again
        |
        |  I go on.",
    );
}

#[test]
fn a_complete_reply_replaces_its_pieces() {
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
            reply("Whole."),
        ],
        "|  Whole.",
    );
    check(
        &[request.clone(), text("Wrong"), reply("Right.")],
        "|  Right.",
    );
    check(
        &[
            request,
            text("a"),
            reply_of(vec![
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
fn thinking_is_shown_while_it_streams() {
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
fn a_stored_event_is_applied_once() {
    let mut transcript = Transcript::default();
    for seq in [1, 1, 2, 1] {
        let mut event = samples::event(reply("Hello."));
        event.seq = Some(seq);
        transcript.apply(&event);
    }
    assert_eq!(page(&mut transcript), "  Hello.\n\n  Hello.");
}
