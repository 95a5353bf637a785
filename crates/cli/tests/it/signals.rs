//! Signals for `hotcell` are forwarded to the command.

use std::io::{BufRead, BufReader};
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place::{Place, assert_code, eventually, finish, processes_with, start};

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Starts a command and waits for its first line.
fn start_ready(place: &Place, argv: &[&str]) -> (Child, impl FnMut() -> String + use<>) {
    let arguments = ["exec", "--no-audit", "--"].iter().chain(argv).copied();
    let mut child = start(&mut place.hotcell(arguments));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    (child, next)
}

/// A script that reports a signal, then runs `then`.
fn handler(signals: &str, then: &str) -> String {
    format!(
        r#"$| = 1; for my $s (qw({signals})) {{ $SIG{{$s}} = sub {{ print "got $s\n"; {then} }} }}
           print "ready\n"; sleep 1 while 1"#
    )
}

#[test]
fn each_is_passed_on_and_the_command_decides() {
    let place = Place::with_workspace();
    for (signal, name) in [
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
    ] {
        let script = handler(name, "exit 42");
        let (child, mut next) = start_ready(&place, &["perl", "-e", &script]);
        send(&child, signal);
        assert_eq!(next(), format!("got {name}"));
        assert_code(&finish(child), 42);
        // Without a handler it dies of the signal.
        let script = "$| = 1; print qq(ready\\n); sleep 1 while 1";
        let (child, _next) = start_ready(&place, &["perl", "-e", script]);
        send(&child, signal);
        assert_code(&finish(child), 128 + signal as i32);
    }
}

#[test]
fn a_command_that_ignores_two_interrupts_is_killed_by_the_third() {
    let place = Place::with_workspace();
    let script = handler("INT", "");
    let marker = format!("interrupts-{}", std::process::id());
    let (child, mut next) = start_ready(&place, &["perl", "-e", &script, &marker]);
    for _ in 0..2 {
        send(&child, Signal::SIGINT);
        assert_eq!(next(), "got INT");
    }
    send(&child, Signal::SIGINT);
    assert_code(&finish(child), 137);
    eventually("the command is gone", || processes_with(&marker).is_empty());
}
