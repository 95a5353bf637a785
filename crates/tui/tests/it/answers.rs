//! Answers of the terminal are never taken for keys, and a question cannot be answered before the
//! user can have seen it.

use crate::pty::TestPty;

#[test]
fn the_colour_of_the_terminal_is_not_typed() {
    let mut pty = TestPty::echo("");
    pty.wait_for_bytes("\x1b]11;?\x1b\\\x1b[c");
    pty.send("a\x1b]11;rgb:ffff/ff");
    pty.send("ff/ffff\x1b");
    pty.send("\\\x1b[?62;22cb\r");
    pty.wait_for("heard <ab>");
}

#[test]
fn a_key_from_before_the_question_was_drawn_is_no_answer() {
    let mut pty = TestPty::echo("");
    pty.send("ask\r");
    pty.wait_for("connect to example.com:443");
    // Drawn, but the terminal has not confirmed it: these keys were typed before.
    pty.wait_for_bytes("\x1b[5n");
    pty.send("yy");
    pty.wait_for("yy");
    // Now the terminal confirms the frame.
    pty.send("\x1b[0n\x7f\x7f");
    pty.wait_until("the editor is empty", |screen| {
        !screen.contents().contains("yy")
    });
    // A quiet period without typing has to precede the answer.
    pty.wait_for("a letter answers only on its own");
    pty.send("y");
    pty.wait_for("the answer to 7 is yes");
    let told = pty.text();
    assert_eq!(told.matches("the answer").count(), 1, "{told}");
}
