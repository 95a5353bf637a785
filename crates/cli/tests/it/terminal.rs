//! `-t`: the command gets its own terminal, and the user's terminal is restored.

use std::process::Output;

use crate::place::{Place, assert_code, feed, hotcell, run, stdout};

/// Runs a shell line on a terminal; `$H` is the program. The exit code is the line's.
fn on_terminal(place: &Place, line: &str, input: &[u8]) -> Output {
    let mut command = place.program("/usr/bin/script");
    command
        .args(["-qec", line, "/dev/null"])
        .env("H", hotcell());
    command.env("TERM", "vt100").env("SHELL", "/bin/sh");
    feed(&mut command, input)
}

#[test]
fn the_command_has_a_terminal_of_the_same_size() {
    let place = Place::with_workspace();
    let line = "stty rows 31 cols 97; \"$H\" exec --workspace workspace -t -- sh -c \
                'test -t 0 && test -t 1 && test -t 2 && tty; stty size; echo $TERM; exit 7'";
    let output = on_terminal(&place, line, b"");
    assert_code(&output, 7);
    // `script` itself may print `^@` at the end of its input at any time.
    let said = stdout(&output).replace("^@", "");
    assert_eq!(said, "/dev/pts/0\r\n31 97\r\nvt100\r\n");
}

#[test]
fn keys_reach_the_command_and_the_terminal_is_given_back_as_it_was() {
    let place = Place::with_workspace();
    // Input is sent after the command's prompt, so that nothing else reads it.
    let line = "stty -g > before; \"$H\" exec -t -- sh -c \
                'stty -echo; read a; echo \"[$a]\"; exit 3'; code=$?; stty -g > after; exit $code";
    let output = on_terminal(&place, line, b"typed\r");
    assert_code(&output, 3);
    assert!(stdout(&output).contains("[typed]\r\n"), "{output:?}");
    let read = |name| std::fs::read(place.here(name)).unwrap();
    assert_eq!(read("before"), read("after"));
}

#[test]
fn without_a_terminal_outside_there_is_one_inside_all_the_same() {
    let place = Place::with_workspace();
    let mut command = place.hotcell(["exec", "-t", "--", "sh", "-c", "tty; stty size"]);
    let output = run(&mut command);
    assert_code(&output, 0);
    assert!(
        stdout(&output).contains("/dev/pts/0\r\n24 80\r\n"),
        "{output:?}"
    );
    for input in ["line\n", "no newline"] {
        let script = "stty -echo; echo ready; cat; echo over";
        let mut command = place.hotcell(["exec", "-t", "--", "sh", "-c", script]);
        let output = feed(&mut command, input.as_bytes());
        assert_code(&output, 0);
        assert!(stdout(&output).ends_with("over\r\n"), "{output:?}");
    }
    // Without the flag there is no terminal.
    let output = place.exec(&[], "tty");
    assert_code(&output, 1);
    assert_eq!(stdout(&output), "not a tty\n");
}
