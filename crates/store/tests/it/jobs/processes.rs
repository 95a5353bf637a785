//! Processes that schedule, die, or run out of disk space.

use std::collections::HashSet;
use std::process::Command;

use protocol::job::Status;
use store::jobs::JobQuery;

use super::JobsFixture;
use crate::processes::{TestProcess, example};

fn scheduler(world: &JobsFixture, work: &str) -> Command {
    // A write past a limit must fail instead of killing the process.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(example("scheduler"))
        .arg(work)
        .arg(&world.folder);
    command
}

#[tokio::test]
async fn a_killed_process_loses_no_job_it_acknowledged() {
    let world = JobsFixture::new().await;
    let mut acknowledged = HashSet::new();
    for round in 0..25 {
        let mut process = TestProcess::start(&mut scheduler(&world, "schedule"));
        // How far it gets after the last line that the test waits for is random.
        for _ in 0..1 + round * 7 % 60 {
            acknowledged.insert(process.line());
        }
        for line in process.kill() {
            // The last line may be cut off.
            if line.len() == 41 && line.ends_with(" done") {
                acknowledged.insert(line);
            }
        }
        let jobs = world.again().await;
        let all = jobs.list(&JobQuery::default()).await.unwrap();
        let kept: HashSet<String> = all.iter().map(|job| format!("{} done", job.id)).collect();
        assert_eq!(kept.len(), all.len());
        let lost: Vec<_> = acknowledged.difference(&kept).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        // A job that was not acknowledged is stored completely or not at all.
        for job in all
            .iter()
            .filter(|job| job.state.status() == Status::Complete)
        {
            assert_eq!((job.messages, job.revision), (2, 1));
            assert_eq!(jobs.messages(job.id, 2).await.unwrap().len(), 1);
        }
    }
    assert!(acknowledged.len() > 300, "{}", acknowledged.len());
    for (sql, expect) in [
        (
            "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
            0,
        ),
        ("SELECT count(*) FROM pragma_foreign_key_check", 0),
        (
            "SELECT count(*) FROM jobs WHERE number NOT IN
            (SELECT rowid FROM words WHERE words MATCH 'todo')",
            0,
        ),
        (
            "SELECT count(*) FROM jobs WHERE status = 'complete'
            AND number NOT IN (SELECT job FROM deliveries)",
            0,
        ),
    ] {
        assert_eq!(world.number(sql).await, expect, "{sql}");
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_got_over() {
    let world = JobsFixture::new().await;
    let mut process = TestProcess::start(&mut scheduler(&world, "fill"));
    let lines = process.rest();
    let (full, done): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.contains("full"));
    assert!(done.len() > 20, "{done:?}");
    // All writes of one commit, the check after them, and nothing else.
    assert!(full.len() > 1);
    let (check, schedules) = full.split_last().unwrap();
    assert_eq!(check, "full: cannot write in the store");
    assert!(
        schedules
            .iter()
            .all(|line| line == "full: cannot schedule a job in the store")
    );
    let all = world.jobs.list(&JobQuery::default()).await.unwrap();
    let kept: HashSet<String> = all.iter().map(|job| format!("{} done", job.id)).collect();
    assert_eq!(kept, done.into_iter().collect());
    let check = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
    assert_eq!(world.number(check).await, 0);
}
