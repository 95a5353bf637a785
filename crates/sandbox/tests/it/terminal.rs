//! Commands on a terminal: detection, size, keys, end of input.

use bytes::Bytes;
use sandbox::request::{CommandStatus, TerminalSize};
use sandbox::{ExecCommand, RunningCommand};

use crate::under_test::nature::{has_controlling_terminal, terminal_ends_input};
use crate::world::{TestSandbox, ended, rest, text, until, within};

const TERMINAL_SIZE: TerminalSize = TerminalSize {
    rows: 33,
    columns: 121,
};

fn on_terminal(script: &str) -> ExecCommand {
    ExecCommand::script(script).terminal(TERMINAL_SIZE)
}

async fn press(running: &mut RunningCommand<'_>, keys: &'static [u8]) -> sandbox::CommandInput {
    let mut input = running.take_input().unwrap();
    input.write(Bytes::from_static(keys)).await.unwrap();
    input
}

#[test]
fn a_command_sees_a_terminal_of_its_own() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "for i in 0 1 2; do test -t $i && echo $i; done; stty size; tty; \
                      (: > /dev/tty) 2> /dev/null && echo controlling; echo err >&2; exit 6";
        let mut running = world.exec(on_terminal(script)).await.unwrap();
        let captured = rest(&mut running).await;
        let controlling = if has_controlling_terminal() {
            "controlling\r\n"
        } else {
            ""
        };
        let expect = format!("0\r\n1\r\n2\r\n33 121\r\n/dev/pts/0\r\n{controlling}err\r\n");
        assert_eq!(text(&captured.stdout), expect);
        assert_eq!(text(&captured.stderr), "");
        assert_eq!(captured.verdict, ended(CommandStatus::Code(6)));
        // Without a terminal there is no `/dev/tty`.
        assert!(!world.sh(": > /dev/tty").await.verdict.success());
        world.end().await;
    });
}

#[test]
fn a_change_of_size_is_told() {
    within(async {
        let world = TestSandbox::new().await;
        let script = r#"exec perl -e '$| = 1; $SIG{WINCH} = sub { exec "stty size" };
                        print "ready\n"; sleep 1 while 1'"#;
        let mut running = world.exec(on_terminal(script)).await.unwrap();
        until(&mut running, "ready").await;
        let size = TerminalSize {
            rows: 50,
            columns: 200,
        };
        running.remote().resize(size).await.unwrap();
        until(&mut running, "50 200").await;
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Code(0))
        );
        // A size has no effect on a command without a terminal.
        let mut running = world.exec(ExecCommand::new(["cat"]).stdin()).await.unwrap();
        running.remote().resize(size).await.unwrap();
        drop(running.take_input());
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Code(0))
        );
        world.end().await;
    });
}

#[test]
fn keys_become_signals() {
    within(async {
        let world = TestSandbox::new().await;
        // Without a shell, whose reaction to an interrupt depends on its children.
        let waits = r#"exec perl -e '$| = 1; print "ready\n"; sleep 1 while 1'"#;
        for (key, signal) in [(b"\x03", 2), (b"\x1c", 3)] {
            let mut running = world.exec(on_terminal(waits)).await.unwrap();
            until(&mut running, "ready").await;
            let _input = press(&mut running, key).await;
            let verdict = rest(&mut running).await.verdict;
            assert_eq!(verdict, ended(CommandStatus::Signal(signal)));
        }
        let script = r#"exec perl -e '$| = 1; $SIG{INT} = sub { print "caught\n"; exit 5 };
                        print "ready\n"; sleep 1 while 1'"#;
        let mut running = world.exec(on_terminal(script)).await.unwrap();
        until(&mut running, "ready").await;
        let _input = press(&mut running, b"\x03").await;
        until(&mut running, "caught").await;
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Code(5))
        );
        world.end().await;
    });
}

#[test]
fn the_end_of_input_is_typed() {
    within(async {
        let world = TestSandbox::new().await;
        for typed in ["", "a line\n", "two\nlines\n", "no newline", "a\nb"] {
            let script = "stty -echo; echo ready; cat; echo over";
            let mut running = world.exec(on_terminal(script)).await.unwrap();
            until(&mut running, "ready").await;
            let mut input = running.take_input().unwrap();
            input
                .write(Bytes::from_static(typed.as_bytes()))
                .await
                .unwrap();
            drop(input);
            let shown = typed.replace('\n', "\r\n");
            if !terminal_ends_input() {
                if !shown.is_empty() {
                    until(&mut running, &shown).await;
                }
                running.remote().signal(libc::SIGTERM).await.unwrap();
                assert_eq!(
                    rest(&mut running).await.verdict,
                    ended(CommandStatus::Signal(15))
                );
                continue;
            }
            let captured = rest(&mut running).await;
            assert!(
                text(&captured.stdout).ends_with(&format!("{shown}over\r\n")),
                "{captured:?}"
            );
            assert_eq!(captured.verdict, ended(CommandStatus::Code(0)));
        }
        world.end().await;
    });
}

#[test]
fn a_terminal_carries_much_and_its_children_hold_nobody_up() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "stty -opost; sleep 1000 & head -c 3000000 /dev/zero";
        let mut running = world.exec(on_terminal(script)).await.unwrap();
        assert_eq!(rest(&mut running).await.stdout.len(), 3_000_000);
        // Many separate terminals at once.
        let mut all = Vec::new();
        for _ in 0..20 {
            let running = world.exec(on_terminal("tty; read line")).await.unwrap();
            all.push(running);
        }
        let mut names = Vec::new();
        for running in &mut all {
            names.push(until(running, "\n").await);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20);
        drop(all);
        world.end().await;
    });
}
