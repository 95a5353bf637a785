//! Entries are selected, opened, closed and copied.

use std::collections::BTreeMap;

use protocol::{Block, Checkpoint, EventKind};
use ratatui::style::Modifier;
use serde_json::json;

use super::{
    bash, call_reply, ended, lines, page, reply, reply_of, strip_bars, transcript_of, visible_lines,
};
use crate::samples::{call, edit, event, tool_ended, turn};
use crate::theme::{ColourScheme, Theme};

#[test]
fn selection_starts_at_the_last_entry_that_opens() {
    let mut page = transcript_of(&[
        turn(1, "go"),
        bash("a", "make"),
        ended("a", "bash", "done\nexit code: 0", false),
        reply("Made."),
    ]);
    assert_eq!(page.selected(), None);
    page.select(-1);
    let view = visible_lines(&mut page, 40, 20).join("\n");
    let expect = "
        |> go
        |
        |▸ $ make · 2.3 s
        |│ │ done
        |
        |  Made.";
    assert_eq!(view, strip_bars(expect));
    page.toggle_selected();
    let view = visible_lines(&mut page, 40, 20).join("\n");
    let expect = "
        |> go
        |
        |▾ $ make · 2.3 s
        |│ │ done
        |│ │ exit code: 0
        |
        |  Made.";
    assert_eq!(view, strip_bars(expect));
    assert_eq!(page.copy_selected().unwrap(), "$ make\ndone\nexit code: 0");
    page.select(1);
    assert_eq!(page.copy_selected().unwrap(), "Made.");
    page.select(1);
    assert_eq!(
        page.copy_selected().unwrap(),
        "Made.",
        "there is none below"
    );
    page.select(-5);
    assert_eq!(page.copy_selected().unwrap(), "go");
    page.unselect();
    assert_eq!(page.selected(), None);
    assert_eq!(page.copy_selected(), None);
}

#[test]
fn the_selected_entry_is_scrolled_into_view() {
    let events: Vec<_> = (1..=50)
        .map(|number| turn(number, &format!("prompt {number}")))
        .collect();
    let mut page = transcript_of(&events);
    visible_lines(&mut page, 40, 9);
    page.select(-1);
    for number in (1..50).rev() {
        page.select(-1);
        let view = visible_lines(&mut page, 40, 9);
        assert!(view.contains(&format!("▸ prompt {number}")), "{view:?}");
    }
    for number in 2..=50 {
        page.select(1);
        let view = visible_lines(&mut page, 40, 9);
        assert!(view.contains(&format!("▸ prompt {number}")), "{view:?}");
    }
    assert!(page.is_following());
}

#[test]
fn opening_keeps_the_clicked_line_in_place() {
    let mut events = vec![bash("a", "seq"), ended("a", "bash", &lines(500), false)];
    events.extend((1..=4).map(|number| turn(number, "hay")));
    let mut page = transcript_of(&events);
    let before = visible_lines(&mut page, 40, 12);
    let row = before
        .iter()
        .position(|line| line.starts_with('✓'))
        .unwrap();
    assert!(page.click(row as u16));
    let after = visible_lines(&mut page, 40, 12);
    assert_eq!(after[row], before[row]);
    assert_eq!(after[row + 1], "  │ line 1");
    assert!(!page.is_following());

    // Closed from far down, its first line is scrolled back into view.
    page.scroll(300);
    visible_lines(&mut page, 40, 12);
    assert!(page.click(3));
    assert_eq!(visible_lines(&mut page, 40, 12), before);
    assert!(!page.click(11), "a prompt of one line does not open");
    assert!(!page.click(500));
}

#[test]
fn open_calls_show_their_input() {
    let content = "def f():\n    return 1\n";
    let mut transcript = transcript_of(&[
        reply_of(vec![
            Block::Thinking {
                thinking: "deep".into(),
                signature: String::new(),
            },
            call(
                "a",
                "write_file",
                json!({"path": "f.py", "content": content}),
            ),
        ]),
        ended("a", "write_file", "created `f.py`", false),
        call_reply("b", "fetch", json!({"url": "http://x", "depth": 2})),
        ended("b", "fetch", "ok", false),
        bash("c", "cat <<X\nhello\nX"),
        ended("c", "bash", "hello\nexit code: 0", false),
    ]);
    transcript.toggle_all_calls();
    transcript.toggle_thinking();
    let expect = r#"
        |▾ thought · 1 word
        |  │ deep
        |✓ write f.py · 2.3 s
        |  │ def f():
        |  │     return 1
        |  │ created `f.py`
        |✓ fetch http://x · 2.3 s
        |  │ {
        |  │   "url": "http://x",
        |  │   "depth": 2
        |  │ }
        |  │ ok
        |✓ $ cat <<X hello X · 2.3 s
        |  │ cat <<X
        |  │ hello
        |  │ X
        |  │ hello
        |  │ exit code: 0"#;
    assert_eq!(page(&mut transcript), strip_bars(expect));
    transcript.toggle_all_calls();
    transcript.toggle_thinking();
    let closed = page(&mut transcript);
    assert_eq!(closed.lines().count(), 6, "{closed}");
}

#[test]
fn diffs_and_the_last_reply_are_returned() {
    let mut page = transcript_of(&[
        reply("First."),
        call_reply("a", "edit_file", json!({"path": "src/parser.rs"})),
        tool_ended("a", "edit_file", "edited", vec![edit()]),
    ]);
    assert_eq!(page.last_reply(), Some("First."));
    assert_eq!(page.selected_diff(), None);
    page.select(1);
    let diff = page.selected_diff().unwrap();
    assert!(
        diff.starts_with("--- src/parser.rs\n+++ src/parser.rs\n@@ -10,5"),
        "{diff}"
    );
    page.apply(&event(reply("Second.")));
    assert_eq!(page.last_reply(), Some("Second."));
}

#[test]
fn undone_turns_can_still_be_read() {
    let mut transcript = transcript_of(&[
        turn(1, "one"),
        turn(2, "two"),
        reply("Second."),
        EventKind::Undone {
            turn: 2,
            checkpoint: Checkpoint {
                number: 1,
                files: 0,
                bytes: 0,
                skipped: BTreeMap::new(),
            },
            restored: 0,
            removed: 0,
            left: Vec::new(),
        },
    ]);
    assert_eq!(transcript.search("second"), 0);
    transcript.select(0);
    transcript.toggle_selected();
    let expect = "
        |> one
        |
        |> two
        |
        |  Second.
        |
        |▾ turn 2 was taken back";
    assert_eq!(page(&mut transcript), strip_bars(expect));
    assert_eq!(transcript.match_position(), Some((1, 1)));
    let dim = Theme::new(ColourScheme::Plain).dim;
    let spans = &transcript.visible()[4].spans;
    let last = spans.last().unwrap();
    assert!(
        last.style
            .add_modifier
            .contains(dim.add_modifier | Modifier::DIM)
    );
    assert_eq!(transcript.last_reply(), Some("Second."));
    transcript.select(0);
    transcript.toggle_selected();
    assert_eq!(page(&mut transcript), "> one\n\n▸ turn 2 was taken back");
    assert_eq!(transcript.last_reply(), None);
}

#[test]
fn closing_a_match_keeps_the_search_position() {
    let mut page = transcript_of(&[
        bash("a", "seq"),
        ended("a", "bash", &(lines(50) + "needle\nexit code: 0"), false),
    ]);
    assert_eq!(page.search("needle"), 1);
    visible_lines(&mut page, 40, 12);
    page.toggle_all_calls();
    page.toggle_all_calls();
    let view = visible_lines(&mut page, 40, 12);
    assert_eq!(view[0], "✓ $ seq · 2.3 s");
    assert_eq!(page.match_position(), Some((1, 1)));
    page.next_match(1);
    assert!(visible_lines(&mut page, 40, 12).contains(&"  │ needle".to_owned()));
}
