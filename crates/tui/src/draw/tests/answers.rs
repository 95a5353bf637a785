//! Questions in the whole UI: which keys answer, and which are typed.

use crossterm::event::{KeyCode, KeyModifiers};
use protocol::{AgentCommand, Decision, Scope};

use super::test_screen::TestScreen;
use crate::app::{AppEffect, AppInput};
use crate::port::UiRequest;
use crate::samples::{question, working_turn};
use crate::theme::ColourScheme;

/// The allowed questions with their scopes, and the text in the editor.
#[track_caller]
fn check(live: impl Fn(&mut TestScreen), answers: &[(u32, Scope)], editor: &str) {
    let mut screen = TestScreen::new(ColourScheme::Dark, 80, 24);
    screen.receive(working_turn());
    screen.wait(5_000);
    live(&mut screen);
    screen.wait(5_000);
    let decided = screen.effects.iter().filter_map(|effect| match effect {
        AppEffect::Ask(UiRequest::Agent(AgentCommand::Decide {
            question,
            decision:
                Decision {
                    is_allowed: true,
                    scope,
                },
        })) => Some((*question, *scope)),
        _ => None,
    });
    assert_eq!(decided.collect::<Vec<_>>(), answers);
    assert_eq!(screen.app.editor.text(), editor);
}

fn ask(screen: &mut TestScreen) {
    screen.receive([question(1, "pypi.org")]);
}

#[test]
fn a_key_after_the_reading_time_answers() {
    let answer = |character: &'static str| {
        move |screen: &mut TestScreen| {
            ask(screen);
            screen.wait(0);
            screen.wait(400);
            screen.type_in(character);
        }
    };
    check(answer("y"), &[(1, Scope::Once)], "");
    check(answer("s"), &[(1, Scope::Session)], "");
    check(answer("a"), &[(1, Scope::Always)], "");
    check(answer("n"), &[], "");
    check(answer("x"), &[], "x");
}

#[test]
fn keys_typed_as_the_question_opens_are_text() {
    // All keys in one read, before anything is drawn.
    check(
        |screen| {
            screen.type_in("yes");
            ask(screen);
            screen.type_in("ay");
        },
        &[],
        "yesay",
    );
    check(
        |screen| {
            ask(screen);
            screen.type_in("y");
            screen.wait(0);
        },
        &[],
        "y",
    );
    check(
        |screen| {
            ask(screen);
            screen.wait(0);
            screen.wait(399);
            screen.type_in("y");
        },
        &[],
        "y",
    );
    // A sentence that begins long after.
    check(
        |screen| {
            ask(screen);
            screen.wait(0);
            screen.wait(3_000);
            for character in ["y", "e", "s"] {
                screen.type_in(character);
                screen.wait(120);
            }
        },
        &[],
        "yes",
    );
}

#[test]
fn a_paste_is_not_an_answer() {
    check(
        |screen| {
            ask(screen);
            screen.wait(0);
            screen.wait(400);
            screen.input(AppInput::Paste("y\n".into()));
        },
        &[],
        "y\n",
    );
}

#[test]
fn a_resize_restarts_the_reading_time() {
    let resized = |height: u16, wait: u64| {
        move |screen: &mut TestScreen| {
            ask(screen);
            screen.wait(0);
            screen.wait(400);
            screen.input(AppInput::Resized { width: 80, height });
            screen.wait(0);
            screen.wait(wait);
            screen.type_in("y");
        }
    };
    check(resized(30, 100), &[], "y");
    check(resized(30, 400), &[(1, Scope::Once)], "");
    // The question is not visible.
    check(resized(4, 4_000), &[], "y");
}

#[test]
fn a_covered_question_is_not_answered() {
    let behind = |closes: bool| {
        move |screen: &mut TestScreen| {
            screen.type_in("/help");
            screen.press(KeyCode::Esc, KeyModifiers::NONE);
            screen.enter();
            assert!(screen.app.overlay.is_some());
            ask(screen);
            screen.wait(0);
            screen.wait(400);
            if closes {
                screen.press(KeyCode::Esc, KeyModifiers::NONE);
                screen.wait(0);
                screen.wait(400);
            }
            screen.type_in("s");
        }
    };
    check(behind(false), &[], "");
    check(behind(true), &[(1, Scope::Session)], "");
}

#[test]
fn each_question_is_answered_separately() {
    check(
        |screen| {
            ask(screen);
            screen.receive([question(2, "crates.io")]);
            screen.wait(0);
            screen.wait(400);
            screen.type_in("y");
            screen.wait(250);
            // The second question is on the screen, but there was no time to read it.
            screen.type_in("y");
            screen.wait(100);
        },
        &[(1, Scope::Once)],
        "y",
    );
    check(
        |screen| {
            ask(screen);
            screen.receive([question(2, "crates.io")]);
            for character in ["y", "s"] {
                screen.wait(0);
                screen.wait(400);
                screen.type_in(character);
                screen.wait(250);
            }
        },
        &[(1, Scope::Once), (2, Scope::Session)],
        "",
    );
}
