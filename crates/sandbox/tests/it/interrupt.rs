//! Dropping the wait for a shell command ends it; background commands continue.

use std::time::Duration;

use bytes::Bytes;
use sandbox::request::CommandStatus;
use tokio::sync::mpsc;

use crate::world::{TestSandbox, eventually, within};

/// Longer than any command that ends by itself.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// Starts a command, and stops waiting after its first output.
async fn interrupt(world: &TestSandbox, script: &str) {
    let (printed, mut is_printing) = mpsc::unbounded_channel();
    let print = |_: Bytes, _| printed.send(()).unwrap();
    tokio::select! {
        progress = world.shell("s", script, LONG_WAIT, print) => panic!("{script}: {progress:?}"),
        _ = is_printing.recv() => {}
    }
}

async fn all_are_gone(world: &TestSandbox) {
    eventually("all are gone", async || {
        world.stats().await.unwrap().processes == 1
    })
    .await;
}

#[test]
fn a_command_that_is_not_waited_for_ends_with_all_it_started() {
    within(async {
        let world = TestSandbox::new().await;
        for script in [
            "echo up; sleep 1000",
            "echo up; sleep 1000; sleep 1001",
            "trap '' INT; echo up; sleep 1000",
            "trap 'echo no' INT; echo up; while :; do sleep 1000; done",
            "sleep 1000 & echo up; wait",
            "(trap '' INT TERM HUP; sleep 1000) & echo up; sleep 1000 | cat",
            "echo up; kill -STOP $$",
            "yes",
        ] {
            interrupt(&world, script).await;
            all_are_gone(&world).await;
        }
        world.end().await;
    });
}

#[test]
fn an_interrupted_command_may_say_goodbye_and_the_session_goes_on() {
    within(async {
        let world = TestSandbox::new().await;
        world.shell("s", "x=1", LONG_WAIT, |_, _| {}).await.unwrap();
        // On a busy machine it may be killed before it gets the processor.
        eventually("it had the time", async || {
            let script = "trap ': > goodbye; exit 3' INT; echo up; sleep 1000";
            interrupt(&world, script).await;
            all_are_gone(&world).await;
            world.path("goodbye").exists()
        })
        .await;
        let progress = world.shell("s", "[ $x = 1 ]", LONG_WAIT, |_, _| {}).await;
        let exit = progress.unwrap().exit.unwrap();
        assert_eq!(exit.status, CommandStatus::Code(0));
        world.end().await;
    });
}

#[test]
fn what_is_in_the_background_stays_there() {
    within(async {
        let world = TestSandbox::new().await;
        let nothing = Duration::ZERO;
        let script = "while read line; do echo $line; done; exit 4";
        let progress = world.shell("s", script, nothing, |_, _| {}).await.unwrap();
        assert_eq!(progress.exit, None);
        interrupt(&world, "echo up; sleep 1000").await;
        // Dropping a poll does not affect it either.
        let feed = world.feed(progress.job, Bytes::from_static(b"hello\n"), false);
        feed.await.unwrap();
        let (printed, mut is_printing) = mpsc::unbounded_channel();
        tokio::select! {
            progress = world.poll(progress.job, LONG_WAIT, |_, _| printed.send(()).unwrap()) => {
                panic!("{progress:?}");
            }
            _ = is_printing.recv() => {}
        }
        let feed = world.feed(progress.job, Bytes::from_static(b"bye\n"), true);
        feed.await.unwrap();
        let mut seen = Vec::new();
        let print = |bytes: Bytes, _| seen.extend_from_slice(&bytes);
        let progress = world.poll(progress.job, LONG_WAIT, print).await.unwrap();
        assert_eq!(progress.exit.unwrap().status, CommandStatus::Code(4));
        assert_eq!(seen, b"bye\n");
        world.end().await;
    });
}

#[test]
fn who_leaves_at_the_last_moment_leaves_no_command_that_nobody_knows() {
    within(async {
        let world = TestSandbox::new().await;
        let moment = Duration::from_millis(3);
        let mut known = Vec::new();
        for _ in 0..60 {
            let shell = world.shell("s", "sleep 1000", moment, |_, _| {});
            if let Ok(progress) = tokio::time::timeout(moment, shell).await {
                known.push(progress.unwrap().job);
            }
        }
        eventually("only those that are known go on", async || {
            let there = world.stats().await.unwrap().processes as usize;
            // Each is a shell, with or without its `sleep`.
            there <= 1 + 2 * known.len()
        })
        .await;
        for job in known {
            world.kill(job, libc::SIGKILL).await.unwrap();
        }
        all_are_gone(&world).await;
        world.end().await;
    });
}
