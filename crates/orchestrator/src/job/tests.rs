//! The life cycle of a job, for any order of changes.

#![allow(clippy::unwrap_used)]

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::job::{JobId, JobRequest};
use uuid::Uuid;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn new_job() -> Job {
    Job::new(
        JobId(Uuid::nil()),
        "ada".to_owned(),
        JobRequest::default(),
        NOW,
    )
}

fn session(number: u32) -> SessionId {
    SessionId::new(&jiff::civil::datetime(2026, 1, 31, 17, 45, 2, 0), number)
}

fn finish(epoch: u32, end: JobEnd) -> JobChange {
    JobChange::Finish(Box::new(FinishedJob {
        epoch,
        ran_millis: 0,
        end,
        answer: Some("said".to_owned()),
        artifact: None,
        spending: Spending::none(),
    }))
}

fn claim() -> JobChange {
    JobChange::Claim {
        session: session(1),
    }
}

/// The job after all changes, or the first refusal and its position.
fn apply_all(changes: impl IntoIterator<Item = JobChange>) -> Result<Job, (usize, ChangeRefused)> {
    let mut job = new_job();
    for (place, change) in changes.into_iter().enumerate() {
        job = transition(&job, change, NOW).map_err(|refused| (place, refused))?;
    }
    Ok(job)
}

#[test]
fn a_change_is_possible_or_refused_by_the_state() {
    let running = || vec![claim()];
    let waiting = || {
        vec![
            claim(),
            JobChange::Wait {
                epoch: 1,
                ran_millis: 5,
            },
        ]
    };
    let ended = || vec![claim(), finish(1, JobEnd::Complete)];
    let park = |epoch| JobChange::Park {
        epoch,
        ran_millis: 9,
        parked: None,
    };
    let check =
        |before: Vec<JobChange>, change: JobChange, expect: Result<JobState, ChangeRefused>| {
            let place = before.len();
            let found = apply_all(before.into_iter().chain([change.clone()]));
            let found = found.map(|job| job.state).map_err(|(at, refused)| {
                assert_eq!(at, place, "{change:?}");
                refused
            });
            assert_eq!(found, expect, "{change:?}");
        };
    let failed = |end: JobEnd| Ok(JobState::from(end));

    check(vec![], claim(), Ok(JobState::Running));
    check(running(), claim(), Err(ChangeRefused::Claimed));
    check(ended(), claim(), Err(ChangeRefused::Ended));

    check(vec![], JobChange::Crash, Err(ChangeRefused::NotClaimed));
    check(running(), JobChange::Crash, Ok(JobState::Queued));
    check(waiting(), JobChange::Crash, Ok(JobState::Queued));
    check(ended(), JobChange::Crash, Err(ChangeRefused::Ended));

    check(vec![], park(0), Err(ChangeRefused::NotClaimed));
    check(running(), park(1), Ok(JobState::Queued));
    check(running(), park(0), Err(ChangeRefused::Fenced));
    check(ended(), park(1), Err(ChangeRefused::Ended));

    check(
        waiting(),
        JobChange::Resume { epoch: 1 },
        Ok(JobState::Running),
    );
    check(
        waiting(),
        JobChange::Resume { epoch: 2 },
        Err(ChangeRefused::Fenced),
    );
    check(
        vec![],
        JobChange::Resume { epoch: 0 },
        Err(ChangeRefused::NotClaimed),
    );

    check(
        running(),
        finish(1, JobEnd::Complete),
        Ok(JobState::Complete),
    );
    check(
        waiting(),
        finish(1, JobEnd::Complete),
        Ok(JobState::Complete),
    );
    check(
        ended(),
        finish(1, JobEnd::Complete),
        Err(ChangeRefused::Ended),
    );
    check(
        running(),
        finish(0, JobEnd::Complete),
        Err(ChangeRefused::Fenced),
    );

    check(vec![], JobChange::Cancel, failed(cancelled()));
    check(running(), JobChange::Cancel, Err(ChangeRefused::Claimed));
    check(waiting(), JobChange::Cancel, Err(ChangeRefused::Claimed));
    check(ended(), JobChange::Cancel, Err(ChangeRefused::Ended));

    check(vec![], JobChange::AddMessage, Ok(JobState::Queued));
    check(running(), JobChange::AddMessage, Ok(JobState::Running));
    check(waiting(), JobChange::AddMessage, Ok(JobState::Waiting));
    check(ended(), JobChange::AddMessage, Ok(JobState::Queued));
}

#[test]
fn a_job_fails_after_too_many_crashes() {
    let mut job = new_job();
    for _ in 1..MAX_CRASHES {
        job = transition(&job, claim(), NOW).unwrap();
        job = transition(&job, JobChange::Crash, NOW).unwrap();
        assert_eq!(job.state, JobState::Queued);
    }
    job = transition(&job, claim(), NOW).unwrap();
    job = transition(&job, JobChange::Crash, NOW).unwrap();
    let JobState::Failed { failure } = &job.state else {
        panic!("{:?}", job.state);
    };
    assert_eq!(failure.cause, Cause::Crashes);
    assert!(job.ended.is_some());
    // A message resets the crash count.
    job = transition(&job, JobChange::AddMessage, NOW).unwrap();
    job = transition(&job, claim(), NOW).unwrap();
    job = transition(&job, JobChange::Crash, NOW).unwrap();
    assert_eq!(job.state, JobState::Queued);
}

fn any_change() -> impl Strategy<Value = JobChange> {
    let epoch = 0..6u32;
    let end = prop_oneof![
        Just(JobEnd::Complete),
        Just(JobEnd::failed(Cause::Agent, "broke"))
    ];
    prop_oneof![
        4 => (0..9u32).prop_map(|number| JobChange::Claim { session: session(number) }),
        1 => Just(JobChange::Crash),
        1 => (epoch.clone(), 0..99u64)
            .prop_map(|(epoch, ran_millis)| JobChange::Park { epoch, ran_millis, parked: None }),
        2 => (epoch.clone(), 0..99u64)
            .prop_map(|(epoch, ran_millis)| JobChange::Wait { epoch, ran_millis }),
        2 => epoch.clone().prop_map(|epoch| JobChange::Resume { epoch }),
        4 => (epoch, end).prop_map(|(epoch, end)| finish(epoch, end)),
        1 => Just(JobChange::Cancel),
        2 => Just(JobChange::AddMessage),
    ]
}

fn epoch_of(change: &JobChange) -> Option<u32> {
    match change {
        JobChange::Park { epoch, .. }
        | JobChange::Wait { epoch, .. }
        | JobChange::Resume { epoch } => Some(*epoch),
        JobChange::Finish(finish) => Some(finish.epoch),
        JobChange::Claim { .. } | JobChange::Crash | JobChange::Cancel | JobChange::AddMessage => {
            None
        }
    }
}

proptest! {
    #[test]
    fn any_changes_keep_the_invariants(
        changes in proptest::collection::vec(any_change(), 0..60)
    ) {
        let mut job = new_job();
        // Epochs of claims that have finished.
        let mut finished = Vec::new();
        for change in changes {
            let next = match transition(&job, change.clone(), NOW) {
                Ok(next) => next,
                Err(_) => continue,
            };
            prop_assert!(next.epoch >= job.epoch);
            prop_assert_eq!(next.epoch > job.epoch, matches!(change, JobChange::Claim { .. }));
            prop_assert!(next.ran_millis >= job.ran_millis);
            prop_assert!(next.messages >= job.messages);
            prop_assert_eq!(next.messages > job.messages, change == JobChange::AddMessage);
            prop_assert_eq!(next.ended.is_some(), next.state.has_ended());
            if job.session.is_some() {
                prop_assert_eq!(&next.session, &job.session);
                prop_assert_eq!(next.started, job.started);
            }
            if next.state == JobState::Running || next.state == JobState::Waiting {
                prop_assert!(next.session.is_some() && next.started.is_some());
            }
            if job.state.has_ended() {
                prop_assert_eq!(&change, &JobChange::AddMessage, "only words change what has ended");
                prop_assert_eq!(&next.state, &JobState::Queued);
            }
            if let Some(epoch) = epoch_of(&change) {
                prop_assert_eq!(epoch, job.epoch, "a fenced change is refused");
            }
            if let JobChange::Finish(finish) = &change {
                prop_assert!(!finished.contains(&finish.epoch), "a claim is finished once");
                finished.push(finish.epoch);
            }
            job = next;
        }
    }
}

#[test]
fn every_cause_is_documented() {
    let schema = <Cause as utoipa::PartialSchema>::schema();
    let schema = serde_json::to_value(schema).unwrap();
    let causes = schema["enum"].as_array().unwrap();
    let page = include_str!("../../../../docs/operations.md");
    let (_, table) = page.split_once("## Causes").unwrap();
    let explained: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let causes: Vec<&str> = causes.iter().filter_map(|cause| cause.as_str()).collect();
    assert_eq!(explained, causes);
}
