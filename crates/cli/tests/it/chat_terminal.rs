//! The chat in lines at a terminal: questions, input typed before and after them, and Ctrl-C.

use std::fs;

use testkit::{ScriptedAnswer, StreamGate};

use crate::place::assert_code;
use crate::scene::{KEY, Scene, bash, results, say};
use crate::terminal_user::TerminalUser;

fn start_chat(scene: &Scene, flags: &str) -> TerminalUser {
    let url = scene.server.base_url();
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &url)];
    let mut person = TerminalUser::at(&scene.place, &format!("--plain {flags}"), &variables);
    person.wait_for("> ");
    person
}

/// With a rule that asks about every `touch` command.
fn scene_with_ask_rule(replies: impl IntoIterator<Item = ScriptedAnswer>) -> Scene {
    let scene = Scene::new(testkit::Replies::list(replies));
    let folder = scene.place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    let rules = "[[rule]]\ntool = \"bash\"\nargument = \"touch*\"\naction = \"ask\"\n";
    fs::write(folder.join("rules.toml"), rules).unwrap();
    scene
}

const QUESTION: &str = "never (d): ";

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(bash("touch made")).hold(0, &gate);
    let scene = scene_with_ask_rule([held, say("so be it").into()]);
    let mut person = start_chat(&scene, "");
    person.types("Touch it\n");
    gate.wait_reached();
    person.types("y\ny");
    // The terminal has received it.
    person.wait_for("y\r\ny");
    gate.open();
    let asked = person.wait_for(QUESTION);
    assert!(asked.contains("touch made"), "{asked}");
    person.types("\n");
    person.wait_for("answer with one of the letters");
    person.wait_for(QUESTION);
    person.types("n\n");
    person.wait_for("so be it");
    assert!(!scene.file("made").exists());
    assert_code(&person.close_input(), 0);
    assert_eq!(results(&scene.server.requests()[1]).len(), 1);
}

#[test]
fn answers_hold_as_long_as_they_say() {
    for (answer, asked_again, is_kept) in
        [("y", true, false), ("s", false, false), ("a", false, true)]
    {
        let replies = [
            bash("touch made"),
            say("one"),
            bash("touch made"),
            say("two"),
        ];
        let scene = scene_with_ask_rule(replies.map(ScriptedAnswer::from));
        let mut person = start_chat(&scene, "");
        person.types("Touch it\n");
        person.wait_for(QUESTION);
        person.types(&format!("{answer}\n"));
        if is_kept {
            person.wait_for("saved as a rule in ");
        }
        person.wait_for("one");
        assert!(scene.file("made").exists(), "{answer}");
        person.types("Again\n");
        if asked_again {
            person.wait_for(QUESTION);
            person.types("no\n");
        }
        person.wait_for("two");
        assert_code(&person.close_input(), 0);
        let rules = scene.place.home().join(".config/hotcell/rules.toml");
        let rules = fs::read_to_string(rules).unwrap();
        assert_eq!(rules.contains("\"allow\""), is_kept, "{rules}");
    }
}

#[test]
fn an_interrupt_takes_the_question_back() {
    let scene = scene_with_ask_rule([bash("touch made").into(), say("two").into()]);
    let mut person = start_chat(&scene, "");
    person.types("Touch it\n");
    person.wait_for(QUESTION);
    person.types("\x03");
    person.wait_for("hotcell: interrupted");
    person.wait_for("> ");
    person.types("Go on\n");
    person.wait_for("two");
    assert_code(&person.close_input(), 0);
    assert!(!scene.file("made").exists());
}

#[test]
fn leaving_takes_two() {
    let scene = scene_with_ask_rule([say("one").into()]);
    let mut person = start_chat(&scene, "");
    person.types("\x03");
    person.wait_for("press Ctrl-C again to exit");
    person.wait_for("> ");
    person.types("Hello\n");
    person.wait_for("one");
    person.wait_for("> ");
    person.types("\x03");
    person.wait_for("press Ctrl-C again to exit");
    person.wait_for("> ");
    person.types("\x03");
    assert_code(&person.wait_end(), 0);
}
