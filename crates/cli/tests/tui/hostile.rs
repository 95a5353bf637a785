//! Text from the sandbox, the model and a paste has no effect on the terminal.

use std::fs;

use llm::script::ScriptedReply;
use serde_json::json;

use crate::scene::{Scene, bash, say, write};
use crate::screen::TmuxScreen;

/// Copies, changes the title, clears, moves, leaves the alternate screen, takes the mouse, queries the
/// terminal, draws over lines above, reverses text.
const ESCAPES: &str = "\x1b]52;c;ZXZpbA==\x07\x1b]0;evil title\x07\x1b]2;evil title\x1b\\\x1bkevil title\x1b\\\
                    \x1b[2J\x1b[1;1H\x1b[?1049l\x1b[?1000l\x1b[?1003h\x1b[?2004l\x1b[?25l\x1b[31m\
                    \x1bP$q\"p\x1b\\\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\\x1b[c\x1b[6n\x1b#8\x1bc\x0e\
                    \u{9b}2J\u{9d}0;evil title\u{9c}\u{90}x\u{9c}\r\x08\x07\u{202e}live\u{2066}";

/// A fake question.
const FAKE_QUESTION: &str = "┌ allow? ──────────┐\n│ y yes · n no      │\n└───────────────────┘";

/// `text` for `printf` of any shell.
fn octal(text: &str) -> String {
    text.bytes().map(|byte| format!("\\{byte:03o}")).collect()
}

#[test]
fn nothing_but_text_reaches_the_terminal() {
    let mut spoken = write("name\u{1b}[31m\u{202e}.txt", ESCAPES);
    spoken.text = Some(format!("words {ESCAPES} and words"));
    spoken.thinking = Some(format!("thoughts {ESCAPES}"));
    let printing = format!(
        "printf '{}\\n'; printf '{}\\n' >&2; printf '{}\\n'; ls -N",
        octal(ESCAPES),
        octal(ESCAPES),
        octal(FAKE_QUESTION)
    );
    let scene = Scene::new([
        spoken,
        bash(&printing),
        ScriptedReply::call("list_files", json!({"path": "."})),
        ScriptedReply::call("no_such_tool", json!({"a": ESCAPES})),
        say(&format!("the answer {ESCAPES} ends here")),
    ]);
    fs::create_dir_all(scene.file("")).unwrap();
    fs::write(scene.file("file \u{1b}]0;evil title\u{7}\u{202e}"), ESCAPES).unwrap();
    let screen = TmuxScreen::start(&scene, 100, 40, &["--thinking", "1024"]);
    screen.wait_for(": asks");
    let state = "#{pane_title} #{alternate_on} #{mouse_any_flag} #{mouse_sgr_flag} #{keypad_flag}";
    let before = screen.ask(state);
    let record = screen.record();
    // tmux has no key name for it, so it is sent as it is.
    screen.paste(&format!("please {}", ESCAPES.replace("\x1b[?2004l", "")));
    screen.wait_for("please");
    screen.press(&["Enter"]);
    screen.wait_for("ends here");
    screen.wait_gone("esc interrupts");
    // Everything expanded, and every list that shows it.
    screen.press(&["C-o"]);
    screen.press(&["C-t"]);
    screen.assert_intact();
    // The fake question takes no answer: a letter is a letter.
    screen.press(&["y"]);
    screen.wait_for("> y");
    screen.press(&["BSpace"]);
    for (command, shown) in [
        ("/sessions", "please"),
        ("/diff", "name"),
        ("/files", "file"),
        ("/search live", "live"),
        ("/cost", "tokens"),
    ] {
        screen.say(command);
        screen.wait_until(command, |text| {
            let is_open = ["esc close", "esc back"];
            is_open.iter().any(|words| text.contains(words)) && text.contains(shown)
        });
        screen.escape();
    }
    screen.write("@");
    screen.wait_for("name");
    screen.press(&["C-u"]);
    screen.wait_gone("> @");
    screen.assert_intact();
    assert_eq!(screen.ask(state), before);
    assert!(!screen.has_clipboard(), "{}", screen.clipboard());
    screen.say("/quit");
    screen.assert_left(0);
    check(&fs::read(record).unwrap());
}

/// Asserts that the output has only the UI's own sequences.
#[track_caller]
fn check(written: &[u8]) {
    let written = String::from_utf8_lossy(written);
    let (mut colours, mut rest) = (0, &*written);
    while let Some((_, after)) = rest.split_once('\x1b') {
        let end = after.find(|letter: char| letter.is_ascii_alphabetic());
        let sequence = &after[..=end.unwrap_or(after.len() - 1)];
        let is_ours = match sequence.as_bytes() {
            // Colours and positions; no queries, and only the modes that drawing uses.
            [b'[', .., b'm' | b'H' | b'J' | b'K'] => true,
            b"[?2026h" | b"[?2026l" | b"[?25l" | b"[?25h" => true,
            b"[<u" | b"[?1049l" | b"[?1000l" | b"[?1006l" | b"[?2004l" => true,
            _ => false,
        };
        assert!(is_ours, "{sequence:?}");
        colours += usize::from(sequence.ends_with('m'));
        rest = after;
    }
    assert!(colours > 10, "{colours}");
    // The modes are reset once, at the end.
    for switch in ["\x1b[?1049l", "\x1b[?1000l", "\x1b[?2004l"] {
        assert_eq!(written.matches(switch).count(), 1, "{switch:?}");
    }
    let evil = |letter: char| match letter {
        '\x1b' | '\r' | '\n' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        letter => letter.is_control(),
    };
    assert_eq!(written.chars().find(|letter| evil(*letter)), None);
}
