//! Questions in the whole UI: which keys answer, and which are typed.

use crossterm::event::{KeyCode, KeyModifiers};
use protocol::{AgentCommand, Decision, Scope};

use super::scene::UiScene;
use crate::app::{AppEffect, AppInput};
use crate::port::UiRequest;
use crate::samples::{question, working_turn};
use crate::theme::ColourScheme;

/// The allowed questions with their scopes, and the text in the editor.
#[track_caller]
fn check(live: impl Fn(&mut UiScene), answers: &[(u32, Scope)], editor: &str) {
    let mut scene = UiScene::new(ColourScheme::Dark, 80, 24);
    scene.hear(working_turn());
    scene.wait(5_000);
    live(&mut scene);
    scene.wait(5_000);
    let decided = scene.effects.iter().filter_map(|effect| match effect {
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
    assert_eq!(scene.app.editor.text(), editor);
}

fn ask(scene: &mut UiScene) {
    scene.hear([question(1, "pypi.org")]);
}

#[test]
fn who_reads_and_then_types_a_letter_answers() {
    let answer = |letter: &'static str| {
        move |scene: &mut UiScene| {
            ask(scene);
            scene.wait(0);
            scene.wait(400);
            scene.type_in(letter);
        }
    };
    check(answer("y"), &[(1, Scope::Once)], "");
    check(answer("s"), &[(1, Scope::Session)], "");
    check(answer("a"), &[(1, Scope::Always)], "");
    check(answer("n"), &[], "");
    check(answer("x"), &[], "x");
}

#[test]
fn keys_that_come_with_the_question_are_typed() {
    // All keys in one read, before anything is drawn.
    check(
        |scene| {
            scene.type_in("yes");
            ask(scene);
            scene.type_in("ay");
        },
        &[],
        "yesay",
    );
    check(
        |scene| {
            ask(scene);
            scene.type_in("y");
            scene.wait(0);
        },
        &[],
        "y",
    );
    check(
        |scene| {
            ask(scene);
            scene.wait(0);
            scene.wait(399);
            scene.type_in("y");
        },
        &[],
        "y",
    );
    // A sentence that begins long after.
    check(
        |scene| {
            ask(scene);
            scene.wait(0);
            scene.wait(3_000);
            for letter in ["y", "e", "s"] {
                scene.type_in(letter);
                scene.wait(120);
            }
        },
        &[],
        "yes",
    );
}

#[test]
fn a_paste_is_a_message() {
    check(
        |scene| {
            ask(scene);
            scene.wait(0);
            scene.wait(400);
            scene.input(AppInput::Paste("y\n".into()));
        },
        &[],
        "y\n",
    );
}

#[test]
fn a_window_that_changes_is_read_anew() {
    let resized = |height: u16, wait: u64| {
        move |scene: &mut UiScene| {
            ask(scene);
            scene.wait(0);
            scene.wait(400);
            scene.input(AppInput::Resized { width: 80, height });
            scene.wait(0);
            scene.wait(wait);
            scene.type_in("y");
        }
    };
    check(resized(30, 100), &[], "y");
    check(resized(30, 400), &[(1, Scope::Once)], "");
    // The question is not visible.
    check(resized(4, 4_000), &[], "y");
}

#[test]
fn what_is_behind_something_else_is_not_answered() {
    let behind = |closes: bool| {
        move |scene: &mut UiScene| {
            scene.type_in("/help");
            scene.press(KeyCode::Esc, KeyModifiers::NONE);
            scene.enter();
            assert!(scene.app.overlay.is_some());
            ask(scene);
            scene.wait(0);
            scene.wait(400);
            if closes {
                scene.press(KeyCode::Esc, KeyModifiers::NONE);
                scene.wait(0);
                scene.wait(400);
            }
            scene.type_in("s");
        }
    };
    check(behind(false), &[], "");
    check(behind(true), &[(1, Scope::Session)], "");
}

#[test]
fn each_question_has_an_answer_of_its_own() {
    check(
        |scene| {
            ask(scene);
            scene.hear([question(2, "crates.io")]);
            scene.wait(0);
            scene.wait(400);
            scene.type_in("y");
            scene.wait(250);
            // The second question is on the screen, but there was no time to read it.
            scene.type_in("y");
            scene.wait(100);
        },
        &[(1, Scope::Once)],
        "y",
    );
    check(
        |scene| {
            ask(scene);
            scene.hear([question(2, "crates.io")]);
            for letter in ["y", "s"] {
                scene.wait(0);
                scene.wait(400);
                scene.type_in(letter);
                scene.wait(250);
            }
        },
        &[(1, Scope::Once), (2, Scope::Session)],
        "",
    );
}
