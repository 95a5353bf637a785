//! Ctrl-C, SIGTERM, and closed output: what was done stays, nothing is left running, and the session can be
//! resumed.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use nix::sys::signal::Signal;
use testkit::{ScriptedAnswer, StreamGate};

use crate::place::{assert_code, eventually, finish, processes_with, start, stderr};
use crate::scene::{Scene, bash, lines, listen, say, send, until, write};

#[test]
fn in_the_middle_of_words() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let gate = StreamGate::new();
        let held = ScriptedAnswer::reply(say("one two three four")).hold(5, &gate);
        let scene = Scene::new([held, say("five").into()]);
        let (child, mut next) = listen(&mut scene.hotcell(["run", "--json", "Count"]));
        until(&mut next, "text_delta");
        gate.wait_reached();
        send(&child, signal);
        let end = until(&mut next, "turn_ended");
        assert_eq!(end["outcome"]["kind"], "interrupted");
        assert_code(&finish(child), 130);
        scene.server.wait_hung_up(1);
        assert_eq!(scene.latest()["outcome"], "interrupted");
        // The received text is kept, and the session continues from it.
        assert_eq!(scene.done(&["resume"]), "five\n");
        let last = scene.server.requests().last().unwrap().json();
        assert!(last["messages"][1].to_string().contains("one"), "{last}");
    }
}

#[test]
fn before_the_first_word() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("one")).hold(0, &gate);
    let scene = Scene::new([held, say("one").into()]);
    let child = start(&mut scene.hotcell(["run", "Count"]));
    gate.wait_reached();
    send(&child, Signal::SIGINT);
    let output = finish(child);
    assert_code(&output, 130);
    assert_eq!(output.stdout, b"");
    assert!(
        stderr(&output).ends_with("hotcell: interrupted\n"),
        "{output:?}"
    );
    assert_eq!(scene.done(&["resume"]), "one\n");
}

#[test]
fn in_the_middle_of_a_command() {
    let marker = format!("1003.{}", std::process::id());
    let mut both = write("done", "before\n");
    both.calls
        .extend(bash(&format!("echo begun; sleep {marker}")).calls);
    let scene = Scene::new([both, say("so be it")]);
    let (child, mut next) = listen(&mut scene.hotcell(["run", "--json", "Sleep"]));
    let output = until(&mut next, "tool_output");
    assert_eq!(output["text"], "begun\n");
    send(&child, Signal::SIGINT);
    let end = until(&mut next, "turn_ended");
    assert_eq!(end["outcome"]["kind"], "interrupted");
    assert_code(&finish(child), 130);
    eventually("the command is gone", || processes_with(&marker).is_empty());
    assert_eq!(scene.read("done"), "before\n");
    // Both calls have a result; the server checks that.
    assert_eq!(scene.done(&["resume"]), "so be it\n");
    let results = scene.results();
    assert_eq!(results.len(), 2);
    assert!(results[1].contains("begun"), "{results:?}");
    assert!(results[1].contains("interrupted"), "{results:?}");
}

#[test]
fn the_second_time_at_once() {
    let marker = format!("1004.{}", std::process::id());
    let script = format!("trap '' INT TERM; echo begun; sleep {marker}");
    let scene = Scene::new([bash(&script), say("so be it")]);
    let (child, mut next) = listen(&mut scene.hotcell(["run", "--json", "Sleep"]));
    until(&mut next, "tool_output");
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGTERM);
    let output = finish(child);
    assert_code(&output, 130);
    eventually("the command is gone", || processes_with(&marker).is_empty());
    assert_eq!(scene.done(&["resume"]), "so be it\n");
}

#[test]
fn the_second_time_even_if_nobody_reads_on() {
    let gate = StreamGate::new();
    // More than a pipe holds.
    let long = say(&"word ".repeat(20_000));
    let held = ScriptedAnswer::reply(long).hold(usize::MAX, &gate);
    let scene = Scene::new([held, say("so be it").into()]);
    let mut child = start(&mut scene.hotcell(["run", "--json", "Talk"]));
    let stuck = child.stdout.take();
    gate.wait_reached();
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGTERM);
    assert_code(&finish(child), 130);
    drop(stuck);
    assert_eq!(scene.done(&["resume"]), "so be it\n");
}

/// The session has ended, but its output is not read yet.
#[test]
fn signals_count_while_the_last_words_wait_for_a_reader() {
    let scene = Scene::new([say(&"word".repeat(50_000))]);
    let mut child = start(&mut scene.hotcell(["run", "Talk"]));
    let stuck = child.stdout.take();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("1 request") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0);
    }
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGTERM);
    assert_code(&finish(child), 130);
    drop(stuck);
}

#[test]
fn a_reader_that_goes_away_ends_the_session() {
    let marker = format!("1005.{}", std::process::id());
    let command = format!("echo begun; sleep {marker}");
    let scene = Scene::new([bash(&command), say("so be it")]);
    let mut child = start(&mut scene.hotcell(["run", "--json", "Sleep"]));
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // Nothing else is written for a long time.
    while !line.contains("begun\\n\",\"is_error\"") {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0);
    }
    drop(reader);
    let output = finish(child);
    // The exit code as a shell reports it; with the default action, SIGPIPE kills the process.
    let code = output
        .status
        .code()
        .or(output.status.signal().map(|signal| 128 + signal));
    assert_eq!(code, Some(141), "{output:?}");
    assert_eq!(output.stderr, b"");
    eventually("the command is gone", || processes_with(&marker).is_empty());
    assert_eq!(scene.done(&["resume"]), "so be it\n");
}

#[test]
fn a_reader_that_goes_away_before_the_answer() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("the answer")).hold(1, &gate);
    let scene = Scene::new([held, say("the answer").into()]);
    let mut child = start(&mut scene.hotcell(["run", "Answer"]));
    gate.wait_reached();
    drop(child.stdout.take());
    // The gate stays shut: the rest of the reply is not awaited.
    assert_code(&finish(child), 141);
    assert_eq!(scene.done(&["resume"]), "the answer\n");
}

#[test]
fn a_full_disk_for_the_answer_is_an_error() {
    let scene = Scene::new([say("the answer")]);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = scene.hotcell(["run", "Answer"]);
    command.stdout(Stdio::from(full)).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_code(&finish(child), 1);
    assert!(
        said.contains("hotcell: cannot write: No space left"),
        "{said}"
    );
}

#[test]
fn nobody_need_read_what_went_wrong() {
    let scene = Scene::new([say("never said")]);
    let mut child = start(&mut scene.hotcell(["run", "--max-tokens", "none", "Answer"]));
    drop(child.stderr.take());
    assert_code(&finish(child), 2);
    assert_eq!(lines(&scene.done(&["sessions", "--json"])).len(), 0);
}
