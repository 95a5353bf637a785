//! `bash`: output, exit status, and limits.

use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use sandbox::{LimitEnforcer, LimitKind, Network};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tools::ToolError;

use crate::fixture::{ToolFixture, run_test, text};
use crate::memory::peak_bytes;

#[test]
fn output_is_unchanged_and_the_exit_code_is_the_last_line() {
    run_test(async {
        let world = ToolFixture::new().await;
        let check = async |command: &str, expect: &str, is_error: bool| {
            let output = world
                .call("bash", json!({"command": command}))
                .await
                .unwrap();
            assert_eq!(text(&output), expect, "{command}");
            assert_eq!(output.is_error, is_error, "{command}");
        };
        check("echo hi", "hi\nexit code: 0", false).await;
        check("true", "exit code: 0", false).await;
        check("printf x", "x\nexit code: 0", false).await;
        check("exit 3", "exit code: 3", true).await;
        check(
            "echo out; sleep 0.05; echo err >&2; sleep 0.05; echo out",
            "out\nerr\nout\nexit code: 0",
            false,
        )
        .await;
        check("kill -KILL $$", "killed by signal 9 (SIGKILL)", true).await;
        check("kill -SEGV $$", "killed by signal 11 (SIGSEGV)", true).await;
        check(
            "printf '\\033[31mred\\033[0m\\n 10%%\\r 99%%\\rdone\\n'",
            "red\ndone\nexit code: 0",
            false,
        )
        .await;
        check("printf 'a\\377b'", "a\u{fffd}b\nexit code: 0", false).await;
        check("if then", "/proc/self/fd/8: line 1: syntax error near unexpected token `then'\n/proc/self/fd/8: line 1: `if then'\nexit code: 2", true).await;
        // The session persists.
        check("x=5; f() { echo f$x; }", "exit code: 0", false).await;
        check("f", "f5\nexit code: 0", false).await;
        check(
            "mkdir 'a b'; cd 'a b'",
            "[the folder is now /workspace/a b]\nexit code: 0",
            false,
        )
        .await;
        check("pwd", "/workspace/a b\nexit code: 0", false).await;
        check(
            "cd; cd /workspace; false",
            "[the folder is now /workspace]\nexit code: 1",
            true,
        )
        .await;
        // Output that looks like a state line is still output.
        check(
            "echo exit code: 0; exit 1",
            "exit code: 0\nexit code: 1",
            true,
        )
        .await;
        world.end().await;
    });
}

#[test]
fn output_is_sent_while_a_command_runs() {
    run_test(async {
        let world = ToolFixture::new().await;
        let seen = Mutex::new(Vec::new());
        let print = |bytes: &[u8], is_error: bool| {
            let mut seen = seen.lock().unwrap();
            seen.push((String::from_utf8(bytes.to_vec()).unwrap(), is_error));
            if seen.len() == 1 {
                // The command waits for this file, so its output was seen before it ended.
                fs::write(world.path("seen"), "").unwrap();
            }
        };
        let command = "printf '\\033[1mone'; until [ -e seen ]; do sleep 0.01; done; echo two >&2";
        let cancel = CancellationToken::new();
        let input = json!({"command": command});
        world
            .call_with("bash", input, &cancel, &print)
            .await
            .unwrap();
        let seen = seen.into_inner().unwrap();
        assert_eq!(
            seen,
            [("\u{1b}[1mone".into(), false), ("two\n".into(), true)]
        );
        world.end().await;
    });
}

#[test]
fn a_cancelled_command_ends_and_its_output_is_the_result() {
    run_test(async {
        let world = ToolFixture::new().await;
        for command in [
            "echo started; sleep 1000",
            "trap '' INT; echo started; sleep 1000",
        ] {
            let cancel = CancellationToken::new();
            let print = |_: &[u8], _| cancel.cancel();
            let input = json!({"command": command});
            let output = world
                .call_with("bash", input, &cancel, &print)
                .await
                .unwrap();
            assert_eq!(text(&output), "started\ninterrupted: the command was ended");
            assert!(output.is_error);
            world.wait_until_idle().await;
        }
        // A call that is cancelled before it starts does nothing.
        let cancel = CancellationToken::new();
        cancel.cancel();
        let input = json!({"command": "echo never"});
        let outcome = world.call_with("bash", input, &cancel, &|_, _| {}).await;
        assert_eq!(outcome.unwrap_err().to_string(), "interrupted");
        world.wait_until_idle().await;
        assert_eq!(
            world.call_text("bash", json!({"command": "echo on"})).await,
            "on\nexit code: 0"
        );
        world.end().await;
    });
}

#[test]
fn huge_output_is_bounded_and_stored_for_paging() {
    run_test(async {
        let world = ToolFixture::new().await;
        let output = world
            .call("bash", json!({"command": "seq 100000"}))
            .await
            .unwrap();
        let shown = text(&output);
        assert!(shown.len() < 25_000, "{}", shown.len());
        assert!(shown.starts_with("1\n2\n3\n") && shown.ends_with("\n100000\nexit code: 0"));
        let kept = output.kept.unwrap();
        assert_eq!((kept.handle.as_str(), kept.bytes), ("output:1", 588_895));
        let gap = shown.lines().find(|line| line.starts_with("[…")).unwrap();
        assert!(
            gap.contains("lines) left out; `read_file` with path `output:1` reads them"),
            "{gap}"
        );
        let page = world
            .call_text(
                "read_file",
                json!({"path": "output:1", "offset": 50_000, "limit": 2}),
            )
            .await;
        assert_eq!(
            page,
            "50000\t50000\n50001\t50001\n[lines 50000 to 50001 of 100000; continue with offset 50002]\n"
        );

        // 100 MB: only the beginning and end are held in memory.
        let command = "yes 0123456789 | head -c 100000000; echo; echo the end";
        let call = world.call("bash", json!({"command": command}));
        let (output, held) = peak_bytes(call).await;
        let output = output.unwrap();
        let shown = text(&output);
        assert!(shown.len() < 25_000 && shown.ends_with("\nthe end\nexit code: 0"));
        assert!(shown.contains("except 95805"), "{}", &shown[12_000..13_000]);
        assert!(output.kept.unwrap().bytes < (4 << 20) + 100);
        assert!(held < 20 << 20, "{held} bytes");
        world.end().await;
    });
}

#[test]
fn a_limit_that_ends_a_command_is_named_with_its_value() {
    run_test(async {
        let run = async |world: &ToolFixture, command: &str| {
            let input = json!({"command": command});
            let output = world.call("bash", input).await.unwrap();
            assert!(output.is_error, "{output:?}");
            text(&output)
        };
        let world = ToolFixture::with(|spec| spec.limits.disk = 8 << 20).await;
        let fill = "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/zero > $i; done; sleep 1000";
        let says = run(&world, fill).await;
        let expect = "killed by signal 9 (SIGKILL): the sandbox's disk limit of 8M was reached";
        assert!(says.ends_with(expect), "{says}");
        world.end().await;

        let world = ToolFixture::with(|spec| spec.limits.memory = 256 << 20).await;
        let says = run(&world, "head -c 1000000000 /dev/zero | tail -n 1; exit 1").await;
        let limits = world.sandbox.limits();
        let memory = limits
            .iter()
            .find(|one| one.limit == LimitKind::Memory)
            .unwrap();
        match memory.enforcer {
            // Applies to each process: `tail` gets an error and reports it.
            LimitEnforcer::Rlimit => assert!(says.contains("memory exhausted"), "{says}"),
            _ => assert!(
                says.ends_with("exit code: 1: the sandbox's memory limit of 256M was reached"),
                "{says}"
            ),
        }
        world.end().await;
    });
}

#[test]
fn failures_caused_by_isolation_are_explained() {
    run_test(async {
        let world = ToolFixture::new().await;
        assert!(matches!(world.sandbox.network(), Network::Off));
        let check = async |command: &str, says: &str| {
            let output = world
                .call("bash", json!({"command": command}))
                .await
                .unwrap();
            assert!(text(&output).contains(says), "{}", text(&output));
        };
        check(
            ": < /dev/tcp/192.0.2.1/80",
            "[the network of this sandbox is off",
        )
        .await;
        check("echo x > /usr/bin/x", "is read-only]").await;
        let too_long = format!("echo {}", "x".repeat(5 << 20));
        let why = world.refused("bash", json!({"command": too_long})).await;
        assert!(why.contains("too long"), "{why}");
        assert_eq!(
            world.call_text("bash", json!({"command": "echo on"})).await,
            "on\nexit code: 0"
        );
        world.end().await;
    });
}

#[test]
fn every_tool_reports_a_sandbox_that_is_gone() {
    run_test(async {
        let world = ToolFixture::with(|spec| spec.limits.wall = Some(Duration::from_secs(3))).await;
        // Ends when the sandbox does.
        let _ = world.call("bash", json!({"command": "sleep 1000"})).await;
        for (tool, input) in [
            ("bash", json!({"command": "echo on"})),
            ("read_file", json!({"path": "a"})),
            ("write_file", json!({"path": "a", "content": ""})),
            (
                "edit_file",
                json!({"path": "a", "edits": [{"old": "a", "new": "b"}]}),
            ),
            ("list_files", json!({})),
            ("search_files", json!({"pattern": "a"})),
            ("bash_job", json!({"job": 1, "action": "poll"})),
        ] {
            crate::fixture::eventually("the sandbox is gone", async || {
                matches!(
                    world.call(tool, input.clone()).await,
                    Err(ToolError::Broken(_))
                )
            })
            .await;
        }
    });
}
