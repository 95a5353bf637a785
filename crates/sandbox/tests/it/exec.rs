//! Commands: how they start, what they get, and how they end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use sandbox::request::{CommandStatus, RefusalKind};
use sandbox::{CapturedOutput, CommandEvent, CommandResult, ExecCommand, LimitKind};

use crate::under_test::nature;
use crate::world::{TestSandbox, assert_refused, ended, eventually, rest, text, until, within};

fn argv(argv: &[&str]) -> ExecCommand {
    ExecCommand::new(argv.iter().copied())
}

fn executable(world: &TestSandbox, name: &str, content: &str, mode: u32) {
    let path = world.path(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_command_prints_and_ends() {
    within(async {
        let world = TestSandbox::new().await;
        fs::create_dir_all(world.path("sub/folder")).unwrap();
        executable(&world, "sub/greet", "#!/bin/sh\necho hello \"$@\"\n", 0o755);
        executable(&world, "plain", "echo plain \"$1\"; exit 9\n", 0o755);
        let check = async |command: ExecCommand, stdout: &str, stderr: &str, status| {
            let expect = CapturedOutput {
                stdout: stdout.into(),
                stderr: stderr.into(),
                verdict: ended(status),
            };
            let shown = format!("{command:?}");
            assert_eq!(world.run(command).await.unwrap(), expect, "{shown}");
        };
        let sh = |script: &str| ExecCommand::script(script);
        let code = CommandStatus::Code;
        // Arguments are passed as they are: no shell interprets them.
        check(
            argv(&["echo", "a  b", "$HOME", "*"]),
            "a  b $HOME *\n",
            "",
            code(0),
        )
        .await;
        check(argv(&["printf", "%s|", "", "é"]), "|é|", "", code(0)).await;
        check(argv(&["/bin/true"]), "", "", code(0)).await;
        check(argv(&["false"]), "", "", code(1)).await;
        check(
            sh("echo out; echo err >&2; exit 3"),
            "out\n",
            "err\n",
            code(3),
        )
        .await;
        check(sh("exit 255"), "", "", code(255)).await;
        check(sh("kill -TERM $$"), "", "", CommandStatus::Signal(15)).await;
        check(sh("kill -KILL $$"), "", "", CommandStatus::Signal(9)).await;
        check(sh("kill -40 $$"), "", "", CommandStatus::Signal(40)).await;
        // Without standard input, reading returns the end at once.
        check(argv(&["cat"]), "", "", code(0)).await;
        check(sh("pwd"), "/workspace\n", "", code(0)).await;
        check(sh("pwd").cwd("/tmp"), "/tmp\n", "", code(0)).await;
        check(
            sh("pwd").cwd("sub/folder"),
            "/workspace/sub/folder\n",
            "",
            code(0),
        )
        .await;
        check(
            argv(&["./greet", "you"]).cwd("sub"),
            "hello you\n",
            "",
            code(0),
        )
        .await;
        check(argv(&["sub/greet"]), "hello\n", "", code(0)).await;
        // Without an interpreter line: run by the shell, as shells do.
        check(argv(&["./plain", "words"]), "plain words\n", "", code(9)).await;
        world.end().await;
    });
}

#[test]
fn a_command_gets_the_usual_variables_those_of_the_sandbox_and_its_own() {
    within(async {
        let world = TestSandbox::with(|spec| {
            spec.env = vec![
                ("A".into(), "sandbox".into()),
                ("B".into(), "sandbox".into()),
            ];
        })
        .await;
        let show = "echo $A $B $C; echo $HOME $USER $TMPDIR $LANG";
        let command = ExecCommand::script(show)
            .env("B", "command")
            .env("C", "x\ny");
        let captured = world.run(command).await.unwrap();
        let expect = "sandbox command x y\n/home/hotcell hotcell /tmp C.UTF-8\n";
        assert_eq!(text(&captured.stdout), expect);
        // Variables of one command do not reach others, and the host's variables reach none.
        assert_eq!(world.text("echo $B $C").await, "sandbox\n");
        let names = world.text("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
        assert_eq!(names, "A B HOME LANG LOGNAME PATH PWD SHELL TMPDIR USER ");
        // A command's own PATH is used to find it.
        fs::create_dir(world.path("bin")).unwrap();
        executable(&world, "bin/ls", "#!/bin/sh\necho mine\n", 0o755);
        let command = argv(&["ls"]).env("PATH", "/workspace/bin:/usr/bin:/bin");
        assert_eq!(text(&world.run(command).await.unwrap().stdout), "mine\n");
        world.end().await;
    });
}

#[test]
fn what_cannot_be_started_is_refused_with_the_reason() {
    within(async {
        let world = TestSandbox::new().await;
        executable(&world, "secret", "echo never\n", 0o644);
        fs::create_dir(world.path("folder")).unwrap();
        executable(&world, "lost", "#!/no/such/interpreter\n", 0o755);
        let check = async |command: ExecCommand, kind, says| {
            assert_refused(world.run(command).await, kind, says);
        };
        use RefusalKind::{Denied, Invalid, NotFound};
        check(
            argv(&["no-such-program"]),
            NotFound,
            "cannot start `no-such-program`",
        )
        .await;
        check(
            argv(&["./no-such-file"]),
            NotFound,
            "cannot start `./no-such-file`",
        )
        .await;
        check(argv(&[""]), NotFound, "cannot start ``").await;
        check(argv(&["./secret"]), Denied, "cannot start `./secret`").await;
        check(argv(&["./folder"]), Denied, "cannot start `./folder`").await;
        check(argv(&["./lost"]), NotFound, "cannot start `./lost`").await;
        check(argv(&["echo", "a\0b"]), Invalid, "cannot start `echo`").await;
        check(
            argv(&["pwd"]).cwd("nowhere"),
            NotFound,
            "`/workspace/nowhere`",
        )
        .await;
        check(
            argv(&["pwd"]).cwd("secret"),
            NotFound,
            "`/workspace/secret`",
        )
        .await;
        check(argv(&[]), RefusalKind::Other, "cannot start").await;
        assert_eq!(world.text("echo still here").await, "still here\n");
        world.end().await;
    });
}

#[test]
fn input_is_echoed_until_it_ends() {
    within(async {
        let world = TestSandbox::new().await;
        let mut running = world.exec(argv(&["cat"]).stdin()).await.unwrap();
        let mut input = running.take_input().unwrap();
        // One at a time: written data arrives before the end.
        for word in ["one\n", "two\n"] {
            input
                .write(Bytes::from_static(word.as_bytes()))
                .await
                .unwrap();
            until(&mut running, word).await;
        }
        drop(input);
        let captured = rest(&mut running).await;
        assert_eq!(captured.verdict, ended(CommandStatus::Code(0)));

        // A command that does not read its input can end, and so can the writer.
        let mut running = world
            .exec(ExecCommand::script("exit 4").stdin())
            .await
            .unwrap();
        let mut input = running.take_input().unwrap();
        let flood = async {
            let bytes = Bytes::from(vec![b'x'; 64 * 1024]);
            while input.write(bytes.clone()).await.is_ok() {}
        };
        let (_, captured) = tokio::join!(flood, rest(&mut running));
        assert_eq!(captured.verdict, ended(CommandStatus::Code(4)));
        world.end().await;
    });
}

#[test]
fn output_keeps_its_streams_and_their_order() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
        let captured = world.sh(script).await;
        let lines = |word: &str| {
            (0..500)
                .map(|i| format!("{word} {i}\n"))
                .collect::<String>()
        };
        assert_eq!(text(&captured.stdout), lines("out"));
        assert_eq!(text(&captured.stderr), lines("err"));

        // The order across the two streams is kept if the command waits in between.
        let script = "for i in 1 2 3; do echo $i; read go; echo $i >&2; read go; done";
        let mut running = world
            .exec(ExecCommand::script(script).stdin())
            .await
            .unwrap();
        let mut input = running.take_input().unwrap();
        let mut seen = String::new();
        loop {
            match running.next().await.unwrap() {
                CommandEvent::Stdout(bytes) => seen += &format!("out {}", text(&bytes)),
                CommandEvent::Stderr(bytes) => seen += &format!("err {}", text(&bytes)),
                CommandEvent::Ended(_) => break,
            }
            input.write(Bytes::from_static(b"go\n")).await.unwrap();
        }
        assert_eq!(seen, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
        world.end().await;
    });
}

#[test]
fn time_and_output_end_a_command_and_the_limit_is_named() {
    within(async {
        let killed = |limit| CommandResult {
            status: CommandStatus::Signal(9),
            limit: Some(limit),
        };
        let world = TestSandbox::with(|spec| spec.limits.output = Some(1 << 20)).await;
        // Its children are killed too, whatever signals they ignore.
        let script = "trap '' TERM INT; echo before; sleep 1000 & sleep 1000";
        let command = ExecCommand::script(script)
            .timeout(Some(nature::scaled_timeout(Duration::from_millis(500))));
        let captured = world.run(command).await.unwrap();
        assert_eq!(captured.verdict, killed(LimitKind::WallTime));
        assert_eq!(text(&captured.stdout), "before\n");
        eventually("the children are gone", async || {
            sleepers(&world).await == 0
        })
        .await;

        let captured = world.run(argv(&["yes"])).await.unwrap();
        assert_eq!(captured.verdict, killed(LimitKind::Output));
        assert_eq!(captured.stdout.len(), 1 << 20);
        // Both streams count together, and output within the limit is allowed.
        let half = "head -c 524288 /dev/zero; head -c 524288 /dev/zero >&2";
        let captured = world.sh(half).await;
        assert_eq!(captured.verdict, ended(CommandStatus::Code(0)));
        let captured = world.sh(&format!("{half}; echo more; sleep 1000")).await;
        assert_eq!(captured.verdict, killed(LimitKind::Output));
        world.end().await;
    });
}

#[test]
fn the_sandbox_has_a_deadline_for_everything() {
    within(async {
        let wall = nature::short_wall();
        let world = TestSandbox::with(|spec| spec.limits.wall = Some(wall)).await;
        let captured = world.run(argv(&["sleep", "1000"])).await.unwrap();
        let expect = CommandResult {
            status: CommandStatus::Signal(9),
            limit: Some(LimitKind::WallTime),
        };
        assert_eq!(captured.verdict, expect);
        // Then the sandbox itself ends, even if its owner does nothing.
        eventually("the sandbox is over", async || world.stats().await.is_err()).await;
        world.end().await;
    });
}

#[test]
fn a_signal_reaches_the_whole_group() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "sleep 1000 & sleep 1000 & echo ready; wait";
        let mut running = world.exec(ExecCommand::script(script)).await.unwrap();
        until(&mut running, "ready").await;
        let remote = running.remote();
        remote.signal(libc::SIGTERM).await.unwrap();
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Signal(15))
        );
        eventually("the group is gone", async || sleepers(&world).await == 0).await;

        // A command can handle a signal itself.
        let script = r#"$| = 1; $SIG{USR1} = sub { print "caught\n"; exit 42 };
                        print "ready\n"; sleep 1 while 1"#;
        let mut running = world.exec(argv(&["perl", "-e", script])).await.unwrap();
        until(&mut running, "ready").await;
        running.remote().signal(libc::SIGUSR1).await.unwrap();
        until(&mut running, "caught").await;
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Code(42))
        );

        // Signalling an ended command is no error; an invalid signal is.
        remote.signal(libc::SIGTERM).await.unwrap();
        let mut running = world.exec(argv(&["sleep", "1000"])).await.unwrap();
        let nonsense = running.remote().signal(4711).await;
        assert_refused(nonsense, RefusalKind::Invalid, "cannot send a signal");
        running.remote().signal(libc::SIGKILL).await.unwrap();
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Signal(9))
        );
        world.end().await;
    });
}

#[test]
fn a_command_whose_handle_is_dropped_is_killed() {
    within(async {
        let world = TestSandbox::new().await;
        for is_chatty in [false, true] {
            let script = if is_chatty {
                "echo ready; sleep 1000 & yes"
            } else {
                "echo ready; sleep 1000 & sleep 1000"
            };
            let mut running = world.exec(ExecCommand::script(script)).await.unwrap();
            until(&mut running, "ready").await;
            drop(running);
            eventually("the group is gone", async || sleepers(&world).await == 0).await;
        }
        // Also while it is waited for.
        let waiting = world.sh("sleep 1000 & sleep 1000");
        tokio::select! {
            _ = waiting => panic!("it does not end by itself"),
            () = eventually("it has begun", async || sleepers(&world).await == 2) => {}
        }
        eventually("the group is gone", async || sleepers(&world).await == 0).await;
        world.end().await;
    });
}

/// Processes inside that are `sleep`.
async fn sleepers(world: &TestSandbox) -> usize {
    let script = "cat /proc/[0-9]*/comm 2>/dev/null | grep -cx sleep || true";
    world.text(script).await.trim().parse().unwrap()
}

#[test]
fn arguments_and_variables_may_be_huge_and_what_is_too_much_is_refused() {
    within(async {
        let world = TestSandbox::new().await;
        let piece = "x".repeat(100_000);
        let mut words = vec!["sh", "-c", "echo $# ${#1} ${#10}", "sh"];
        words.extend([piece.as_str(); 10]);
        let captured = world.run(argv(&words)).await.unwrap();
        assert_eq!(text(&captured.stdout), "10 100000 100000\n");

        let mut command = ExecCommand::script("env | wc -c");
        for number in 0..10 {
            command = command.env(format!("V{number}"), &piece);
        }
        let captured = world.run(command).await.unwrap();
        let size: usize = text(&captured.stdout).trim().parse().unwrap();
        assert!(size > 1_000_000, "{size}");

        // One argument longer than the kernel accepts, and a total longer than it accepts.
        let long = "x".repeat(200_000);
        let refused = world.run(argv(&["echo", &long])).await;
        assert_refused(refused, RefusalKind::Invalid, "cannot start `echo`");
        let refused = world
            .run(ExecCommand::new(vec!["echo"; 1]).env("V", &long))
            .await;
        assert_refused(refused, RefusalKind::Invalid, "cannot start `echo`");
        let many = vec![piece.as_str(); 30];
        let refused = world.run(argv(&[&["echo"], &many[..]].concat())).await;
        assert_refused(refused, RefusalKind::Invalid, "cannot start `echo`");
        // More than fits into one message.
        let many = vec![piece.as_str(); 60];
        let refused = world.run(argv(&[&["echo"], &many[..]].concat())).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(world.text("echo still here").await, "still here\n");
        world.end().await;
    });
}

#[test]
fn a_child_that_keeps_the_output_open_holds_nobody_up() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "sleep 1000 & echo $!; echo said by a child >&2";
        let captured = world.sh(script).await;
        assert_eq!(captured.verdict, ended(CommandStatus::Code(0)));
        assert_eq!(text(&captured.stderr), "said by a child\n");
        // The child keeps running until it is killed explicitly.
        let child = text(&captured.stdout);
        world.text(&format!("kill -0 {}", child.trim())).await;
        // All output of the command itself arrives, whatever its length.
        let script = "sleep 1000 & head -c 3000000 /dev/zero";
        assert_eq!(world.sh(script).await.stdout.len(), 3_000_000);
        world.end().await;
    });
}

#[test]
fn many_commands_run_at_once() {
    within(async {
        let world = TestSandbox::new().await;
        // All run at the same time: each waits for its input to end.
        let script = "echo up; read line; echo $N; exit $N";
        let mut all = Vec::new();
        for number in 0..100 {
            let command = ExecCommand::script(script).env("N", number.to_string());
            all.push(world.exec(command.stdin()).await.unwrap());
        }
        for running in &mut all {
            until(running, "up\n").await;
        }
        for (number, running) in all.iter_mut().enumerate() {
            drop(running.take_input());
            let captured = rest(running).await;
            assert_eq!(
                text(&captured.stdout),
                format!("{number}\n"),
                "{captured:?}"
            );
            assert_eq!(captured.verdict, ended(CommandStatus::Code(number as i32)));
        }
        drop(all);
        world.end().await;
    });
}

#[test]
fn orphans_are_reaped() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "i=0; while [ $i -lt 50 ]; do ( (exit 0) & ); i=$((i+1)); done";
        assert!(world.sh(script).await.verdict.success());
        // Zombies count, and one may not have ended yet.
        eventually("nothing is left but process 1", async || {
            world.stats().await.unwrap().processes == 1
        })
        .await;
        world.end().await;
    });
}

#[test]
fn process_1_survives_what_its_children_send_it() {
    within(async {
        let world = TestSandbox::new().await;
        let signals = [
            "KILL", "STOP", "SEGV", "ABRT", "QUIT", "PIPE", "ALRM", "USR1", "USR2", "TTIN", "TTOU",
            "TSTP", "34", "64",
        ];
        for signal in signals {
            world.sh(&format!("kill -{signal} 1")).await;
            assert_eq!(world.text("echo alive").await, "alive\n", "{signal}");
        }
        // Process 1 forwards these to all processes.
        for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
            let script = format!("kill {name} => 1; sleep 1000");
            let captured = world.run(argv(&["perl", "-e", &script])).await.unwrap();
            assert_eq!(captured.verdict, ended(CommandStatus::Signal(number)));
            assert_eq!(world.text("echo alive").await, "alive\n");
        }
        world.end().await;
    });
}
