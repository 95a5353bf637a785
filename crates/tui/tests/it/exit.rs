//! The terminal is restored however the program ends.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;

use crate::pty::{TestPty, echo};

#[test]
fn restored_after_quitting() {
    let mut pty = TestPty::echo("");
    pty.send("/quit\r");
    pty.assert_restored(0);
}

#[test]
fn restored_after_a_signal() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
    ] {
        let mut pty = TestPty::echo("");
        pty.send("half a tho");
        pty.wait_for("half a tho");
        pty.signal(signal);
        pty.assert_restored(128 + signal as i32);
    }
}

#[test]
fn restored_after_a_panic_of_another_thread() {
    let mut pty = TestPty::echo("");
    pty.send("panic\r");
    pty.assert_restored(4);
    let text = String::from_utf8_lossy(&pty.written);
    let (_, after) = text.rsplit_once("\x1b[?1049l").unwrap();
    assert!(
        after.contains("as it was told to"),
        "the message can be read: {after}"
    );
}

#[test]
fn ends_with_the_terminal() {
    let pty = TestPty::echo("");
    let status = pty.hang_up();
    // The signal and the end of input race with each other.
    let code = status.code();
    assert!(
        code == Some(3) || code == Some(129),
        "{status:?} {:?}",
        status.signal()
    );
}

#[test]
fn stopped_until_the_shell_continues_it() {
    let mut pty = TestPty::start(&["bash", "--norc", "--noediting", "-i"]);
    let program = echo();
    pty.send(format!("{}\n", program.display()));
    pty.wait_until("it draws", |screen| screen.alternate_screen());
    pty.send("before\x1a");
    pty.wait_until("the shell has the screen", |screen| {
        !screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor()
    });
    pty.wait_for("Stopped");
    pty.send("echo the shell $((40 + 2))\n");
    pty.wait_for("the shell 42");
    pty.send("fg\n");
    pty.wait_until("it draws again", |screen| screen.alternate_screen());
    pty.wait_for("before");
    pty.send(" and after\r");
    pty.wait_for("heard <before and after>");
    // For the shell, it then quits as usual.
    pty.send("/quit\r");
    pty.wait_until("the shell has the screen", |screen| {
        !screen.alternate_screen()
    });
    pty.send("echo code $?\n");
    pty.wait_for("code 0");
    pty.send("exit\n");
    pty.assert_restored(0);
}

#[test]
fn suspending_without_a_shell_has_no_effect() {
    let mut pty = TestPty::echo("");
    pty.send("still\x1a");
    pty.signal(Signal::SIGTSTP);
    pty.send(" here\r");
    pty.wait_for("heard <still here>");
    pty.send("/quit\r");
    pty.assert_restored(0);
}
