//! Records that are changed by compare and swap, and rows that are added with them.

use futures_util::future::join_all;
use protocol::job::{Cause, Job};
use store::StoreError;
use store::jobs::{ChangeExtras, ChangeResult, Heartbeat, JobMessage};

use super::{JobState, JobsFixture, failed, id, new, saved};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_change_a_revision_one_wins() {
    const CHANGERS: u32 = 50;
    const CHANGES_PER_TASK: u32 = 10;
    let world = JobsFixture::new().await;
    world.schedule(1).await;
    let others = world.again().await;
    // Each task repeats reading, deciding and writing until all its changes are saved.
    let tasks = (0..CHANGERS).map(|number| {
        let jobs = match number % 2 {
            0 => world.jobs.clone(),
            _ => others.clone(),
        };
        tokio::spawn(async move {
            let mut won = Vec::new();
            while won.len() < CHANGES_PER_TASK as usize {
                let mut job = jobs.job(id(1)).await.unwrap().unwrap();
                job.crashes += 1;
                match jobs.change(job, ChangeExtras::default()).await.unwrap() {
                    ChangeResult::Saved(job) => won.push((job.revision, job.crashes)),
                    ChangeResult::Stale => {}
                }
            }
            won
        })
    });
    let mut won: Vec<_> = join_all(tasks)
        .await
        .into_iter()
        .flat_map(Result::unwrap)
        .collect();
    won.sort_unstable();
    let expect: Vec<_> = (1..=CHANGERS * CHANGES_PER_TASK)
        .map(|count| (u64::from(count), count))
        .collect();
    assert_eq!(won, expect, "each revision once, and no count lost");
}

#[tokio::test]
async fn what_is_gone_or_changed_is_stale() {
    let world = JobsFixture::new().await;
    let job = world.schedule(1).await;
    let unknown = world
        .jobs
        .change(new(2), ChangeExtras::default())
        .await
        .unwrap();
    assert_eq!(unknown, ChangeResult::Stale);
    let ended = world.set_state(1, JobState::Complete).await;
    let stale = world
        .jobs
        .change(job.clone(), ChangeExtras::default())
        .await
        .unwrap();
    assert_eq!(stale, ChangeResult::Stale);
    let future = Job {
        revision: 2,
        ..job.clone()
    };
    let stale = world
        .jobs
        .change(future, ChangeExtras::default())
        .await
        .unwrap();
    assert_eq!(stale, ChangeResult::Stale);
    assert!(!world.jobs.forget(id(1), 0).await.unwrap());
    assert!(world.jobs.forget(id(1), ended.revision).await.unwrap());
    assert!(!world.jobs.forget(id(1), ended.revision).await.unwrap());
    let stale = world
        .jobs
        .change(ended, ChangeExtras::default())
        .await
        .unwrap();
    assert_eq!(stale, ChangeResult::Stale);
    assert_eq!(world.jobs.job(id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn messages_are_numbered_from_the_task_on() {
    let world = JobsFixture::new().await;
    let mut job = world.schedule(1).await;
    world.schedule(2).await;
    for text in ["two", "", "four \0 \u{1f600}"] {
        job.messages += 1;
        let along = ChangeExtras {
            message: Some(text.into()),
            delivery: None,
        };
        job = saved(world.jobs.change(job, along).await.unwrap());
    }
    let texts = async |job, from| -> Vec<(u32, String)> {
        let messages: Vec<JobMessage> = world.jobs.messages(id(job), from).await.unwrap();
        let text = |message: JobMessage| (message.number, message.text);
        messages.into_iter().map(text).collect()
    };
    let all: Vec<(u32, String)> = (1..)
        .zip(["Build me todo app 1", "two", "", "four \0 \u{1f600}"].map(String::from))
        .collect();
    for from in 0..=6 {
        let expect = &all[all.len().min(from.max(1) as usize - 1)..];
        assert_eq!(texts(1, from).await, expect, "from {from}");
    }
    assert_eq!(texts(2, 1).await, [(1, "Build me todo app 2".to_owned())]);
    assert_eq!(texts(3, 1).await, []);
    let first = &world.jobs.messages(id(1), 1).await.unwrap()[0];
    assert_eq!(first.time, job.created);

    // A wrong count would lose a message, or wait for one that never comes.
    let said = || ChangeExtras {
        message: Some("five".into()),
        delivery: None,
    };
    for (messages, along) in [
        (4, said()),
        (6, said()),
        (5, ChangeExtras::default()),
        (0, said()),
    ] {
        let wrong = Job {
            messages,
            ..job.clone()
        };
        let error = world.jobs.change(wrong, along).await.unwrap_err();
        assert!(matches!(error, StoreError::MessageCount(_)), "{error:?}");
    }
    assert_eq!(world.job(1).await, job);
}

#[tokio::test]
async fn a_beat_counts_for_its_own_claim_only() {
    let world = JobsFixture::new().await;
    for number in 1..=3 {
        world.schedule(number).await;
    }
    let beat = async |job, epoch, ran_millis| {
        let beats = vec![Heartbeat {
            job: id(job),
            epoch,
            ran_millis,
        }];
        world.jobs.beat(beats).await.unwrap();
        world.job(job).await.ran_millis
    };
    assert_eq!(beat(1, 0, 5).await, 0, "nobody has it");
    let claim = async |job, epoch| {
        let mut job = world.job(job).await;
        (job.state, job.epoch) = (JobState::Running, epoch);
        saved(
            world
                .jobs
                .change(job, ChangeExtras::default())
                .await
                .unwrap(),
        )
    };
    claim(1, 1).await;
    let claimed = claim(2, 5).await;
    assert_eq!(beat(1, 0, 5).await, 0, "an older claim");
    assert_eq!(beat(1, 2, 5).await, 0, "a claim that never was");
    assert_eq!(beat(1, 1, 5).await, 5);
    assert_eq!(beat(1, 1, 4).await, 5, "it came late");
    assert_eq!(beat(2, 5, 70).await, 70);
    assert_eq!(world.job(2).await.revision, claimed.revision);
    assert_eq!(world.job(3).await.ran_millis, 0);

    // A change by a caller that read the record before the heartbeat does not undo the heartbeat.
    let waiting = Job {
        state: JobState::Waiting,
        ..claimed
    };
    let waiting = saved(
        world
            .jobs
            .change(waiting, ChangeExtras::default())
            .await
            .unwrap(),
    );
    assert_eq!(
        (waiting.ran_millis, world.job(2).await.ran_millis),
        (70, 70)
    );
    assert_eq!(beat(2, 5, 80).await, 80, "it waits for a message");
    world.set_state(2, failed(Cause::Cancelled)).await;
    assert_eq!(beat(2, 5, 90).await, 80, "it has ended");
    world.jobs.beat(vec![]).await.unwrap();
}

#[tokio::test]
async fn a_forgotten_job_leaves_nothing() {
    const SECRET: &str = "xyzzyplugh";
    let world = JobsFixture::new().await;
    let mut job = new(1);
    job.request.task = format!("{SECRET} {}", "and more ".repeat(2000));
    job.request.webhook = Some(protocol::job::Webhook {
        url: "https://example.com".into(),
        secret: Some(SECRET.into()),
    });
    world.jobs.schedule(job.clone(), None).await.unwrap();
    job.messages += 1;
    job.state = JobState::Complete;
    job.answer = Some(SECRET.into());
    let along = ChangeExtras {
        message: Some(SECRET.repeat(3000)),
        delivery: Some(SECRET.into()),
    };
    let job = saved(world.jobs.change(job, along).await.unwrap());
    world.schedule(2).await;
    let mentions = || {
        let entries = std::fs::read_dir(&world.folder).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        files.filter(|path| path.is_file()).any(|path| {
            let content = std::fs::read(path).unwrap();
            let mut windows = content.windows(SECRET.len());
            windows.any(|window| window == SECRET.as_bytes())
        })
    };
    assert!(mentions());
    assert!(world.jobs.forget(id(1), job.revision).await.unwrap());
    for table in [
        "SELECT count(*) FROM jobs WHERE number <> 2",
        "SELECT count(*) FROM messages",
        "SELECT count(*) FROM deliveries",
        "SELECT count(*) FROM words WHERE words MATCH 'xyzzyplugh'",
    ] {
        assert_eq!(world.number(table).await, 0, "{table}");
    }
    world.jobs.shrink().await.unwrap();
    assert!(!mentions(), "in no file of the store");
    assert_eq!(world.job(2).await, new(2));
}
