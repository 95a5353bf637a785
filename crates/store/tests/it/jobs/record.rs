//! Any job's record is read back as it was written.

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use protocol::job::{
    Artifact, Cause, Failure, Job, JobInput, JobRequest, JobState, LeftOut, Parked, Webhook,
};
use protocol::{Backend, Budget, Limits, Spending, Strength, Usage};
use store::jobs::{ChangeExtras, ChangeResult, JobQuery, ScheduleResult};

use super::{JobsFixture, id};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,30}",
        Just(String::new()),
        Just("nul \0 and \"quotes\" and 'more' -- ; \u{10ffff}\n".to_owned()),
        Just("long ".repeat(3000)),
    ]
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000_u64, Just(i64::MAX as u64)]
}

fn any_fraction() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("not JSON", |number| number.is_finite())
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(|nanos| Timestamp::from_nanosecond(nanos.into()).unwrap())
}

fn any_request() -> impl Strategy<Value = JobRequest> {
    let limits = (
        option::of(any::<u64>()),
        option::of(any_fraction()),
        option::of(any::<u32>()),
    );
    let limits = limits.prop_map(|(memory, cpus, pids)| Limits {
        memory,
        cpus,
        pids,
        disk: memory,
        open_files: None,
    });
    let input = prop_oneof![
        (any_text(), option::of(any_text()))
            .prop_map(|(url, branch)| JobInput::Git { url, branch }),
        any::<u64>().prop_map(|bytes| JobInput::Upload { bytes }),
    ];
    let backend = prop_oneof![
        Just(Backend::Auto),
        Just(Backend::Native),
        Just(Backend::Podman),
        Just(Backend::Docker),
        Just(Backend::Gvisor),
        Just(Backend::Microvm),
        Just(Backend::Firecracker),
        Just(Backend::Microsandbox),
    ];
    let require = prop_oneof![
        Just(Strength::Namespaces),
        Just(Strength::Kernel),
        Just(Strength::Vm),
    ];
    let webhook = (any_text(), option::of(any_text()));
    let webhook = webhook.prop_map(|(url, secret)| Webhook { url, secret });
    let words = (any_text(), option::of(any_text()), vec(any_text(), 0..3));
    let rest = (
        (option::of(backend), option::of(require)),
        option::of(any::<u64>()),
        option::of(input),
        option::of(webhook),
        any::<bool>(),
        option::of(any_fraction()),
    );
    (words, limits, rest).prop_map(|((task, model, network), limits, rest)| {
        let ((backend, require), timeout, input, webhook, interactive, cost) = rest;
        JobRequest {
            task,
            model,
            backend,
            require,
            limits,
            network,
            budget: Budget {
                cost,
                tokens: timeout,
                turns: None,
            },
            timeout,
            input,
            webhook,
            interactive,
        }
    })
}

fn any_state() -> impl Strategy<Value = JobState> {
    prop_oneof![
        Just(JobState::Queued),
        Just(JobState::Running),
        Just(JobState::Waiting),
        Just(JobState::Complete),
        any_text().prop_map(|message| JobState::Failed {
            failure: Failure {
                cause: Cause::Deadline,
                message
            }
        }),
    ]
}

fn any_artifact() -> impl Strategy<Value = Artifact> {
    let left_out = (any_text(), any_text());
    let left_out = left_out.prop_map(|(path, reason)| LeftOut { path, reason });
    (any_number(), any::<u64>(), any_text(), vec(left_out, 0..3)).prop_map(
        |(bytes, files, sha256, left_out)| Artifact {
            bytes,
            files,
            sha256,
            left_out,
        },
    )
}

fn any_parked() -> impl Strategy<Value = Parked> {
    let times = (any_time(), any_time());
    (any_text(), times, any::<u32>(), any_number()).prop_map(
        |(reason, (since, not_before), failures, waited_millis)| Parked {
            cause: Cause::Provider,
            reason,
            since,
            not_before,
            failures,
            waited_millis,
        },
    )
}

fn any_spending() -> impl Strategy<Value = Spending> {
    let numbers = (any::<u64>(), any::<u32>(), any_fraction());
    (numbers, option::of(any_fraction())).prop_map(|((tokens, requests, seconds), cost)| Spending {
        usage: Usage {
            input_tokens: tokens,
            output_tokens: tokens / 2,
            ..Usage::default()
        },
        cost,
        requests,
        seconds,
        max_cost: cost,
        max_tokens: Some(tokens),
        ..Spending::default()
    })
}

prop_compose! {
    fn any_job()(
        (number, owner, request, state) in (any::<u128>(), any_text(), any_request(), any_state()),
        (epoch, revision, crashes, ran_millis) in
            (any::<u32>(), 0..1_u64 << 62, any::<u32>(), any_number()),
        (created, started, ended) in
            (any_time(), option::of(any_time()), option::of(any_time())),
        session in option::of(0..1000_u32),
        result in option::of(any_text()),
        artifact in option::of(any_artifact()),
        spending in any_spending(),
        parked in option::of(any_parked()),
    ) -> Job {
        Job {
            id: id(number),
            owner,
            request,
            state,
            epoch,
            revision,
            created,
            started,
            ended,
            ran_millis,
            session: session.map(crate::id),
            messages: 1,
            crashes,
            parked,
            answer: result,
            artifact,
            spending,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_record_is_read_back_as_it_was(first in any_job(), second in any_job()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = JobsFixture::new().await;
            let jobs = &world.jobs;
            // A new job was never tried.
            let first = Job { parked: None, ..first };
            prop_assert_eq!(jobs.schedule(first.clone(), None).await.unwrap(), ScheduleResult::New);
            prop_assert_eq!(jobs.job(first.id).await.unwrap(), Some(first.clone()));
            prop_assert_eq!(jobs.list(&JobQuery::default()).await.unwrap(), vec![first.clone()]);

            // Everything else can change.
            let second = Job {
                id: first.id,
                owner: first.owner.clone(),
                request: first.request.clone(),
                created: first.created,
                revision: first.revision,
                ran_millis: second.ran_millis.max(first.ran_millis),
                ..second
            };
            let changed = jobs.change(second.clone(), ChangeExtras::default()).await.unwrap();
            let expect = Job { revision: first.revision + 1, ..second };
            prop_assert_eq!(changed, ChangeResult::Saved(Box::new(expect.clone())));
            prop_assert_eq!(jobs.job(first.id).await.unwrap(), Some(expect.clone()));
            if let Some(session) = &expect.session {
                prop_assert_eq!(jobs.job_of_session(session).await.unwrap(), Some(expect.clone()));
            }
            let messages = jobs.messages(first.id, 1).await.unwrap();
            prop_assert_eq!(&messages[0].text, &first.request.task);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn what_was_asked_stays_as_it_was() {
    let world = JobsFixture::new().await;
    let job = world.schedule(1).await;
    let other = Job {
        owner: "else".into(),
        request: JobRequest {
            task: "something else".into(),
            ..JobRequest::default()
        },
        epoch: 7,
        ..job.clone()
    };
    let changed = world
        .jobs
        .change(other, ChangeExtras::default())
        .await
        .unwrap();
    let expect = Job {
        epoch: 7,
        revision: 1,
        ..job
    };
    assert_eq!(changed, ChangeResult::Saved(Box::new(expect.clone())));
    assert_eq!(world.job(1).await, expect);
}
