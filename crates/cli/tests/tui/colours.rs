//! Different terminals, with and without colours.

use crate::place::{assert_code, feed, stdout};
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

/// The numbers of all styles on the screen: `1` for bold, `36` for cyan.
fn styles(screen: &TmuxScreen) -> Vec<u32> {
    let styled = screen.styled();
    let sequences = styled.split("\x1b[").skip(1);
    let inside = sequences.filter_map(|part| Some(part.split_once('m')?.0));
    let numbers = inside.flat_map(|numbers| numbers.split(';'));
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn is_colour(number: &u32) -> bool {
    matches!(number, 30..=38 | 40..=48 | 90..=97 | 100..=107)
}

/// A conversation with something of each kind, with its first call selected.
#[track_caller]
fn converse(scene: &Scene, variables: &[(&str, &str)]) -> TmuxScreen {
    let screen = TmuxScreen::start_with(scene, 80, 24, &[], variables);
    screen.wait_for(": asks");
    screen.say("go");
    screen.wait_for("fn main");
    screen.wait_gone("esc interrupts");
    screen.press(&["Tab"]);
    screen.wait_for("▸ $ echo");
    screen
}

fn scene() -> Scene {
    let code = "# All\n\n- **bold** and `code`\n\n```rust\nfn main() {}\n```\n";
    Scene::new([bash("echo out; echo err >&2; false"), say(code)])
}

#[test]
fn without_colours_all_is_said_in_words_and_weight() {
    let scene = scene();
    let screen = converse(&scene, &[("NO_COLOR", "1"), ("TERM", "xterm-256color")]);
    let styles = styles(&screen);
    assert!(!styles.iter().any(is_colour), "{styles:?}");
    assert!(styles.contains(&1), "bold is no colour: {styles:?}");
    // Also in all lists with a selected line.
    screen.escape();
    let text = screen.text();
    assert!(text.contains("✗ $ echo"), "{text}");
    for (command, shown) in [
        ("/help", "commands"),
        ("/sessions", "1 turn"),
        ("/model", "claude-opus"),
    ] {
        screen.say(command);
        screen.wait_for("esc close");
        screen.wait_for(shown);
        let styles = self::styles(&screen);
        assert!(!styles.iter().any(is_colour), "{command}: {styles:?}");
        let is_choice = command != "/help";
        assert_eq!(styles.contains(&7), is_choice, "{command}: {styles:?}");
        screen.escape();
    }
    screen.say("/quit");
    screen.assert_left(0);
}

#[test]
fn colours_are_those_of_the_terminal() {
    // Cyan on dark, blue on light: the other would be hard to see.
    for (colours, expect, never) in [("15;0", 6, 4), ("0;15", 4, 6)] {
        let scene = scene();
        let screen = converse(&scene, &[("COLORFGBG", colours)]);
        screen.escape();
        screen.say("/help");
        screen.wait_for("esc close");
        let styles = styles(&screen);
        let has = |colour: u32| styles.windows(3).any(|part| part == [38, 5, colour]);
        assert!(has(expect), "{colours}: {styles:?}");
        assert!(!has(never), "{colours}: {styles:?}");
    }
}

#[test]
fn names_of_terminals_make_no_difference() {
    for name in [
        "vt100",
        "xterm",
        "screen",
        "linux",
        "xterm-256color",
        "nobody-knows-it",
    ] {
        let scene = scene();
        let screen = converse(&scene, &[("TERM", name)]);
        screen.escape();
        screen.assert_intact();
        screen.say("/quit");
        screen.assert_left(0);
    }
}

#[test]
fn where_there_is_no_screen_there_are_lines() {
    let scene = scene();
    let screen = TmuxScreen::start_with(&scene, 80, 24, &[], &[("TERM", "dumb")]);
    screen.wait_for("Ctrl-D (end of input) exits");
    assert_eq!(screen.ask("#{alternate_on}"), "0");
    screen.say("go");
    screen.wait_for("fn main");
    screen.say("/quit");
    screen.assert_left(0);

    let scene = self::scene();
    let mut piped = scene.hotcell([]);
    let output = feed(piped.env("TERM", "xterm"), b"go\n");
    assert_code(&output, 0);
    assert!(stdout(&output).contains("fn main"), "{output:?}");
    assert!(!stdout(&output).contains('\x1b'), "{output:?}");
}
