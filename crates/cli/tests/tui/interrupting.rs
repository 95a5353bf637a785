//! Interrupted turns, and messages queued for their end.

use testkit::{Replies, ScriptedAnswer, StreamGate};

use crate::place::{eventually, processes_with};
use crate::prompts::last_prompts;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn a_command_is_stopped_and_the_session_goes_on() {
    let marker = format!("1000.{}7", std::process::id());
    let scene = Scene::new([bash(&format!("sleep {marker}")), say("Still here.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Sleep");
    screen.wait_for(&format!("● $ sleep {marker}"));
    eventually("the command runs", || !processes_with(&marker).is_empty());
    screen.press(&["Escape"]);
    screen.wait_for("interrupted\n");
    screen.wait_gone("esc interrupts");
    eventually("the command is gone", || processes_with(&marker).is_empty());
    screen.say("Are you there?");
    screen.wait_for("Still here.");
    let said = last_prompts(&scene);
    assert_eq!(said.first().unwrap(), "Sleep");
    assert!(said.last().unwrap().contains("Are you there?"), "{said:?}");
    let sessions = scene.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["turns"], 2);
}

fn held(text: &str, gate: &StreamGate) -> ScriptedAnswer {
    ScriptedAnswer::reply(say(text)).hold(0, gate)
}

#[test]
fn a_message_that_is_written_meanwhile_waits_for_the_end_of_the_turn() {
    let gate = StreamGate::new();
    let answers = [
        held("One.", &gate),
        say("Two.").into(),
        say("Three.").into(),
    ];
    let scene = Scene::new(Replies::list(answers));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    gate.wait_reached();
    screen.say("second");
    screen.wait_for("next  second\n");
    screen.say("third");
    screen.wait_for("next  third\n");
    assert_eq!(scene.server.request_count(), 1);
    gate.open();
    screen.wait_for("Three.");
    screen.wait_gone("next  ");
    assert_eq!(last_prompts(&scene), ["first", "second", "third"]);
    assert_eq!(scene.server.request_count(), 3);
}

#[test]
fn what_waits_is_back_in_the_editor_after_an_interrupt() {
    let gate = StreamGate::new();
    let scene = Scene::new(Replies::list([held("never", &gate), say("Two.").into()]));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    gate.wait_reached();
    screen.say("second");
    screen.wait_for("next  second\n");
    screen.press(&["Escape"]);
    screen.wait_for("interrupted\n");
    screen.wait_for("────\n> second\n────");
    assert_eq!(scene.server.request_count(), 1, "it is not sent by itself");
    screen.say(" thoughts");
    screen.wait_for("Two.");
    assert!(
        last_prompts(&scene)
            .last()
            .unwrap()
            .ends_with("second thoughts")
    );
}

#[test]
fn a_turn_that_was_cut_short_is_taken_up_again() {
    let gate = StreamGate::new();
    let answers = [held("Never heard.", &gate), say("To its end.").into()];
    let scene = Scene::new(Replies::list(answers));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Begin");
    gate.wait_reached();
    screen.press(&["Escape"]);
    screen.wait_for("interrupted\n");
    gate.open();
    screen.say("/continue");
    screen.wait_for("To its end.");
    assert_eq!(scene.sessions()[0]["turns"], 1, "the same turn");
    screen.say("/continue");
    screen.wait_for("there is no unfinished turn to continue");
}
