//! The tail of background output, read without consuming it.

use std::time::Duration;

use sandbox::request::{CommandStatus, JobTail, MAX_TAIL_BYTES, RefusalKind};

use crate::world::{TestSandbox, assert_refused, text, within};

/// Longer than any command that ends by itself.
const LONG_WAIT: Duration = Duration::from_secs(60);
/// Shorter than any command that does not end by itself.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// Waits for a file, and then runs a script.
async fn start(world: &TestSandbox, script: &str) -> u32 {
    let script = format!("until [ -e go ]; do sleep 0.01; done; {script}");
    let progress = world.shell("main", &script, SHORT_WAIT, |_, _| {}).await;
    progress.unwrap().job
}

fn go(world: &TestSandbox) {
    std::fs::write(world.path("go"), "").unwrap();
}

/// Polls until a command has ended.
async fn last(world: &TestSandbox, job: u32) -> JobTail {
    let mut seen = 0;
    loop {
        let tail = world.tail(job, seen).await.unwrap();
        assert!(tail.printed >= seen);
        if tail.ended.is_some() {
            return tail;
        }
        assert!(tail.printed > seen, "woken by nothing: {tail:?}");
        seen = tail.printed;
    }
}

#[test]
fn a_look_waits_for_news_and_takes_nothing_away() {
    within(async {
        let world = TestSandbox::new().await;
        // The order across the two streams is kept if the command waits in between.
        let script = "echo one; until [ -e more ]; do sleep 0.01; done; echo two >&2; \
                      until [ -e on ]; do sleep 0.01; done; echo three";
        let job = start(&world, script).await;
        // There is no output yet, so it waits.
        let first = world.tail(job, 0);
        go(&world);
        let mut tail = first.await.unwrap();
        std::fs::write(world.path("more"), "").unwrap();
        while tail.printed < 8 {
            tail = world.tail(job, tail.printed).await.unwrap();
        }
        assert_eq!(text(&tail.bytes), "one\ntwo\n");
        assert_eq!(tail.ended, None);
        // Earlier output is returned again if requested.
        assert_eq!(world.tail(job, 0).await.unwrap(), tail);
        std::fs::write(world.path("on"), "").unwrap();
        let tail = last(&world, job).await;
        assert_eq!(text(&tail.bytes), "one\ntwo\nthree\n");
        assert_eq!(tail.ended.unwrap().status, CommandStatus::Code(0));

        let mut printed = Vec::new();
        let print = |bytes: bytes::Bytes, _| printed.extend_from_slice(&bytes);
        let progress = world.poll(job, LONG_WAIT, print).await.unwrap();
        assert_eq!(progress.dropped, 0);
        assert_eq!(text(&printed), "one\ntwo\nthree\n");
        world.end().await;
    });
}

#[test]
fn of_much_only_the_end_is_seen_and_all_is_counted() {
    within(async {
        let world = TestSandbox::new().await;
        let job = start(&world, "seq 1 500000; exit 7").await;
        go(&world);
        let tail = last(&world, job).await;
        let all: String = (1..=500_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail.printed, all.len() as u64);
        assert_eq!(tail.bytes.len(), MAX_TAIL_BYTES);
        assert!(all.as_bytes().ends_with(&tail.bytes));
        assert_eq!(tail.ended.unwrap().status, CommandStatus::Code(7));
        world.end().await;
    });
}

/// The end may have been reported to another caller before.
#[test]
fn the_last_words_are_there_after_the_end_was_polled() {
    within(async {
        let world = TestSandbox::new().await;
        let job = start(&world, "echo bye; kill -TERM $$").await;
        go(&world);
        let progress = world.poll(job, LONG_WAIT, |_, _| {}).await.unwrap();
        assert!(progress.exit.is_some() && !progress.output_open);
        let tail = world.tail(job, 0).await.unwrap();
        assert_eq!(text(&tail.bytes), "bye\n");
        assert_eq!(tail.ended.unwrap().status, CommandStatus::Signal(15));
        let none = world.tail(job + 1, 0).await;
        assert_refused(
            none,
            RefusalKind::NotFound,
            "there is no background command",
        );
        world.end().await;
    });
}

#[test]
fn what_a_command_left_behind_is_looked_at_until_it_is_gone() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "(until [ -e go ]; do sleep 0.01; done; echo left) & echo begun";
        let progress = world
            .shell("main", script, LONG_WAIT, |_, _| {})
            .await
            .unwrap();
        assert!(progress.exit.is_some() && progress.output_open);
        let tail = world.tail(progress.job, 0).await.unwrap();
        assert_eq!(tail.ended, None);
        go(&world);
        let tail = last(&world, progress.job).await;
        assert_eq!(text(&tail.bytes), "begun\nleft\n");
        world.end().await;
    });
}

#[test]
fn whoever_leaves_holds_up_nobody() {
    within(async {
        let world = TestSandbox::new().await;
        let job = start(&world, "echo done").await;
        for _ in 0..100 {
            let look = world.tail(job, 0);
            let left = tokio::time::timeout(Duration::from_millis(1), look).await;
            assert!(left.is_err());
        }
        go(&world);
        assert_eq!(text(&last(&world, job).await.bytes), "done\n");
        world.end().await;
    });
}
