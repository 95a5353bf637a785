//! The chat in lines with a person at a terminal: questions, typed before and after, and Ctrl-C.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use testkit::{Answer, Gate};

use crate::place::{assert_code, finish, hotcell, start};
use crate::scene::{KEY, Scene, bash, results, say};

/// Milliseconds without a word past which a program hangs. None comes near it.
const PATIENCE: u16 = 60_000;

/// A person at a terminal.
struct Person {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// What was read up to now.
    seen: String,
}

impl Person {
    fn sit_down(scene: &Scene, flags: &str) -> Self {
        let mut command = scene.place.program("/usr/bin/script");
        command
            .args(["-qec", &format!("exec \"$H\" --plain {flags}"), "/dev/null"])
            .env("H", hotcell())
            .env("TERM", "vt100")
            .env("SHELL", "/bin/sh")
            .env("NO_COLOR", "1")
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", scene.server.base_url())
            .stdin(Stdio::piped());
        let mut child = start(&mut command);
        let mut person = Self {
            keyboard: child.stdin.take().unwrap(),
            screen: child.stdout.take().unwrap(),
            child,
            seen: String::new(),
        };
        person.wait_for("> ");
        person
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads on until this has come; what came before it is done with.
    #[track_caller]
    fn wait_for(&mut self, words: &str) -> String {
        let mut chunk = [0; 4096];
        loop {
            if let Some(place) = self.seen.find(words) {
                let rest = self.seen.split_off(place + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let mut screen = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            let is_there = poll(&mut screen, PollTimeout::from(PATIENCE)).unwrap() > 0;
            assert!(is_there, "no `{words}` after {:?}", self.seen);
            let count = self.screen.read(&mut chunk).unwrap();
            assert_ne!(count, 0, "no `{words}` in {}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    }

    #[track_caller]
    fn leaves(self) -> Output {
        let Self {
            child, keyboard, ..
        } = self;
        drop(keyboard);
        finish(child)
    }
}

/// With a rule by which every command is asked about.
fn asking(replies: impl IntoIterator<Item = Answer>) -> Scene {
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
    let gate = Gate::new();
    let held = Answer::reply(bash("touch made")).hold(0, &gate);
    let scene = asking([held, say("so be it").into()]);
    let mut person = Person::sit_down(&scene, "");
    person.types("Touch it\n");
    gate.wait_reached();
    person.types("y\ny");
    // The terminal has it.
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
    assert_code(&person.leaves(), 0);
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
        let scene = asking(replies.map(Answer::from));
        let mut person = Person::sit_down(&scene, "");
        person.types("Touch it\n");
        person.wait_for(QUESTION);
        person.types(&format!("{answer}\n"));
        if is_kept {
            person.wait_for("kept as a rule in ");
        }
        person.wait_for("one");
        assert!(scene.file("made").exists(), "{answer}");
        person.types("Again\n");
        if asked_again {
            person.wait_for(QUESTION);
            person.types("no\n");
        }
        person.wait_for("two");
        assert_code(&person.leaves(), 0);
        let rules = scene.place.home().join(".config/hotcell/rules.toml");
        let rules = fs::read_to_string(rules).unwrap();
        assert_eq!(rules.contains("\"allow\""), is_kept, "{rules}");
    }
}

#[test]
fn an_interrupt_takes_the_question_back() {
    let scene = asking([bash("touch made").into(), say("two").into()]);
    let mut person = Person::sit_down(&scene, "");
    person.types("Touch it\n");
    person.wait_for(QUESTION);
    person.types("\x03");
    person.wait_for("hotcell: interrupted");
    person.wait_for("> ");
    person.types("Go on\n");
    person.wait_for("two");
    assert_code(&person.leaves(), 0);
    assert!(!scene.file("made").exists());
}

#[test]
fn leaving_takes_two() {
    let scene = asking([say("one").into()]);
    let mut person = Person::sit_down(&scene, "");
    person.types("\x03");
    person.wait_for("once more to leave");
    person.wait_for("> ");
    person.types("Hello\n");
    person.wait_for("one");
    person.wait_for("> ");
    person.types("\x03");
    person.wait_for("once more to leave");
    person.wait_for("> ");
    person.types("\x03");
    assert_code(&finish(person.child), 0);
    drop(person.keyboard);
}
