//! Typed text is shown and reaches the host, whatever else is going on.

use crate::pty::TestPty;

#[test]
fn what_is_typed_is_drawn_and_sent() {
    let mut pty = TestPty::echo("");
    pty.send("hello");
    pty.wait_for("hello");
    pty.send("\r");
    pty.wait_for("heard <hello>");
    // Every frame is drawn in one write.
    let written = String::from_utf8_lossy(&pty.written).into_owned();
    assert!(written.contains("\x1b[?2026h"), "{written:?}");
    assert_eq!(
        written.matches("\x1b[?2026h").count(),
        written.matches("\x1b[?2026l").count()
    );
}

#[test]
fn split_key_sequences_are_joined() {
    let mut pty = TestPty::echo("");
    pty.send("ac\x1b");
    pty.send("[");
    pty.send(b"Db\xc3");
    pty.send(b"\xa9\r");
    pty.wait_for("heard <abéc>");
}

#[test]
fn a_flood_of_events_does_not_delay_keys() {
    let mut pty = TestPty::echo("");
    pty.send("flood\r");
    pty.wait_for("drop ");
    for character in 'a'..='z' {
        pty.send(character.to_string());
    }
    pty.wait_for("abcdefghijklmnopqrstuvwxyz");
    pty.send("\x15/quit\r");
    pty.assert_restored(0);
}

#[test]
fn a_large_paste_is_one_message() {
    let mut pty = TestPty::echo("");
    let line = "0123456789abcde\r";
    pty.send(format!("\x1b[200~{}\x1b[201~\r", line.repeat(65536)));
    // The final line end may be dropped.
    pty.wait_until("all of it was heard", |screen| {
        let text = screen.contents();
        text.contains("heard 1048576 bytes") || text.contains("heard 1048575 bytes")
    });
}

#[test]
fn the_screen_follows_a_resize() {
    let mut pty = TestPty::echo("");
    pty.send("here");
    for step in 0..200_u16 {
        pty.resize(40 + step * 7 % 90, 10 + step * 3 % 40);
    }
    pty.resize(60, 15);
    pty.send("\rand there");
    pty.wait_for("heard <here>");
    pty.wait_for("and there");
    pty.wait_until("the rules are as wide as the screen", |screen| {
        let rows = screen.rows(0, 60);
        let rules =
            rows.filter(|row| row.trim_end().chars().filter(|char| *char == '─').count() == 60);
        rules.count() >= 2
    });
}

#[test]
fn the_external_editor_is_used() {
    let mut pty = TestPty::echo("sed -i s/one/two/");
    pty.send("one\x07");
    pty.wait_for("two");
    pty.send("\r");
    pty.wait_for("heard <two>");
    pty.send("/quit\r");
    pty.assert_restored(0);
}

#[test]
fn a_failing_external_editor_changes_nothing() {
    let mut pty = TestPty::echo("false");
    pty.send("as it was\x07");
    pty.wait_for("`false` ended with");
    pty.send("\r");
    pty.wait_for("heard <as it was>");
}
