//! Other processes that use the same store, are killed, or run out of disk space.

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use protocol::EventKind;
use store::StoreError;

use crate::{StoreFixture, append, end, id, prompt};

/// The path of an example program, in the folder of this test's executable.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    folder.join("examples").join(name)
}

pub(crate) struct TestProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl TestProcess {
    pub(crate) fn start(command: &mut Command) -> TestProcess {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        TestProcess { child, lines }
    }

    fn appender(world: &StoreFixture, work: &str, session: u32) -> TestProcess {
        TestProcess::start(
            Command::new(example("appender"))
                .arg(work)
                .arg(&world.folder)
                .arg(id(session).as_str()),
        )
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The remaining lines until its end, which must be successful.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success(), "{lines:?}");
        lines
    }

    /// Kills it, and returns the remaining lines that it had written.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let rest = self.lines.map(Result::unwrap).collect();
        self.child.wait().unwrap();
        rest
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_it_acknowledged() {
    let world = StoreFixture::new().await;
    let mut acknowledged = 0;
    for round in 0..40 {
        let mut process = TestProcess::appender(&world, "append", 1);
        // How far it gets after the last line that the test waits for is random.
        for _ in 0..round % 7 {
            acknowledged = process.line().parse().unwrap();
        }
        if let Some(last) = process.kill().last() {
            acknowledged = last.parse().unwrap_or(acknowledged);
        }
        let store = world.again().await;
        let events = match store.claim(&id(1)).await {
            Ok((_, events)) => events,
            // It was killed before that.
            Err(StoreError::Unknown(_)) if acknowledged == 0 => continue,
            Err(error) => panic!("{error:?}"),
        };
        assert!(events.len() as u64 >= acknowledged, "round {round}");
        let in_order = (1..)
            .zip(&events)
            .all(|(seq, event)| event.seq == Some(seq));
        assert!(in_order, "round {round}");
        assert_eq!(
            store.summary(&id(1)).await.unwrap().events,
            events.len() as u64
        );
        acknowledged = events.len() as u64;
    }
    assert!(acknowledged > 40);
    let mut connection = world.sql("sessions.db").await;
    let check: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(check, "ok");
    let words = "SELECT count(*) FROM words WHERE words MATCH 'words'";
    let prompts = "SELECT count(*) FROM events WHERE kind = 'turn_started'";
    assert_eq!(
        world.number("sessions.db", words).await,
        world.number("sessions.db", prompts).await
    );
}

#[tokio::test]
async fn one_process_at_a_time_writes_to_a_session() {
    let world = StoreFixture::new().await;
    world.session(1, &[]).await;
    let mut holder = TestProcess::appender(&world, "hold", 1);
    assert_eq!(holder.line(), "held");
    for error in [
        world.store.claim(&id(1)).await.unwrap_err(),
        world.store.begin(id(1)).await.unwrap_err(),
        world.store.delete(&id(1)).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    }
    // Other processes can read it, and write to other sessions.
    assert_eq!(world.store.events(&id(1)).await.unwrap().len(), 1);
    world.session(2, &[prompt(1, "x")]).await;

    // The lock ends with the process, even if it is killed.
    holder.kill();
    let (journal, _) = world.store.claim(&id(1)).await.unwrap();
    let error = world.again().await.claim(&id(1)).await.unwrap_err();
    assert!(
        matches!(error, StoreError::InUse(_)),
        "also in one process: {error:?}"
    );
    drop(journal);
    let mut holder = TestProcess::appender(&world, "hold", 1);
    assert_eq!(holder.line(), "held");
    drop(holder.child.stdin.take());
    assert!(holder.child.wait().unwrap().success());
    drop(world.store.claim(&id(1)).await.unwrap());
    let locks = std::fs::read_dir(world.folder.join("locks")).unwrap();
    assert_eq!(locks.count(), 1, "only that of the migration");
}

#[tokio::test]
async fn two_processes_write_at_once() {
    let world = StoreFixture::new().await;
    let mut journal = world.begin(2).await;
    let mut process = TestProcess::appender(&world, "append", 1);
    let mut acknowledged = 0;
    for turn in 1..=100 {
        append(&mut journal, prompt(turn, "mine")).await;
        append(&mut journal, end(turn)).await;
        acknowledged = process.line().parse().unwrap();
    }
    process.kill();
    assert_eq!(world.store.events(&id(2)).await.unwrap().len(), 201);
    let (_, events) = world.store.claim(&id(1)).await.unwrap();
    assert!(events.len() as u64 >= acknowledged && acknowledged >= 100);
}

#[tokio::test]
async fn a_full_disk_is_said_and_got_over() {
    let world = StoreFixture::new().await;
    let mut process = TestProcess::start(
        Command::new("sh")
            // A write past the limit must fail instead of killing the process.
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(example("appender"))
            .arg("fill")
            .arg(&world.folder)
            .arg(id(1).as_str()),
    );
    let lines = process.rest();
    let full = lines
        .iter()
        .position(|line| line.starts_with("full: "))
        .unwrap();
    assert!(full > 3, "{lines:?}");
    assert_eq!(lines[full], "full: cannot write an event in the store");
    // The next event gets the number of the one that failed.
    let last: u64 = lines[full + 1].parse().unwrap();
    assert_eq!(last, lines[full - 1].parse::<u64>().unwrap() + 1);
    let (_, events) = world.store.claim(&id(1)).await.unwrap();
    assert_eq!(events.len() as u64, last);
    assert!(matches!(events[0].kind, EventKind::SessionStarted { .. }));
}
