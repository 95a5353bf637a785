//! Lists of jobs by owner, status, words and age, in all combinations.

use protocol::job::{Cause, Job, JobRequest, Status};
use store::jobs::JobQuery;

use super::{JobState, JobsFixture, failed, id, new, numbers};

const OWNERS: [&str; 3] = ["one", "two", "Three \"quoted\" '"];
const TASKS: [&str; 4] = [
    "Build me a todo app",
    "Résumé parser in C++",
    "build a PARSER for todo lists",
    "日本語 \"x\" OR y* NEAR(z)",
];

/// Schedules two hundred jobs of all kinds.
async fn fill(world: &JobsFixture) -> Vec<Job> {
    let mut all = Vec::new();
    for number in 1..=200_u128 {
        let job = Job {
            owner: OWNERS[number as usize % 3].into(),
            request: JobRequest {
                task: format!("{} {number}", TASKS[number as usize / 2 % 4]),
                ..JobRequest::default()
            },
            ..new(number)
        };
        world.jobs.schedule(job.clone(), None).await.unwrap();
        let state = match number % 7 {
            0 => JobState::Running,
            1 => JobState::Waiting,
            2 => JobState::Complete,
            3 => failed(Cause::Agent),
            _ => JobState::Queued,
        };
        all.push(match state {
            JobState::Queued => job,
            state => world.set_state(number, state).await,
        });
    }
    all.reverse();
    all
}

#[tokio::test]
async fn filters_work_together_and_pages_are_whole() {
    let world = JobsFixture::new().await;
    let all = fill(&world).await;
    let owners = OWNERS.iter().map(|owner| Some((*owner).to_owned()));
    let owners: Vec<_> = owners.chain([None, Some("nobody".into())]).collect();
    let statuses = [
        Status::Pending,
        Status::Running,
        Status::Complete,
        Status::Error,
    ];
    let statuses: Vec<_> = statuses.into_iter().map(Some).chain([None]).collect();
    // Each query with a check of whether a task matches.
    type Has = fn(&str) -> bool;
    let words: [(Option<&str>, Has); 8] = [
        (None, |_| true),
        (Some("  "), |_| true),
        (Some("todo"), |task| task.contains("todo")),
        (Some("Parse"), |task| task.to_lowercase().contains("parser")),
        (Some("app BUILD"), |task| task.contains("todo app")),
        (Some("resume"), |task| task.contains("Résumé")),
        (Some("\"x\" OR y* NEAR(z)"), |task| task.contains("NEAR")),
        (Some("?!"), |_| false),
    ];
    let mut found = 0;
    for owner in &owners {
        for status in &statuses {
            for (words, has) in &words {
                let expect: Vec<Job> = all
                    .iter()
                    .filter(|job| owner.as_ref().is_none_or(|owner| *owner == job.owner))
                    .filter(|job| status.is_none_or(|status| status == job.state.status()))
                    .filter(|job| has(&job.request.task))
                    .cloned()
                    .collect();
                let query = JobQuery {
                    owner: owner.clone(),
                    status: *status,
                    words: words.map(str::to_owned),
                    before: None,
                    limit: 0,
                };
                assert_eq!(world.jobs.list(&query).await.unwrap(), expect, "{query:?}");
                assert_eq!(pages(&world, query, 7).await, expect);
                found += expect.len();
            }
        }
    }
    assert!(found > 1000, "{found}");
}

async fn pages(world: &JobsFixture, mut query: JobQuery, limit: u32) -> Vec<Job> {
    query.limit = limit;
    let mut all = Vec::new();
    loop {
        let page = world.jobs.list(&query).await.unwrap();
        assert!(page.len() <= limit as usize);
        let Some(last) = page.last() else { return all };
        query.before = Some(last.id);
        all.extend(page);
    }
}

#[tokio::test]
async fn a_page_goes_on_though_its_last_job_is_gone() {
    let world = JobsFixture::new().await;
    for number in 1..=6 {
        world.schedule(number).await;
    }
    let job = world.set_state(4, JobState::Complete).await;
    let mut query = JobQuery {
        limit: 3,
        ..JobQuery::default()
    };
    let page = world.jobs.list(&query).await.unwrap();
    assert_eq!(numbers(&page), [6, 5, 4]);
    assert!(world.jobs.forget(id(4), job.revision).await.unwrap());
    world.schedule(7).await;
    query.before = Some(id(4));
    let page = world.jobs.list(&query).await.unwrap();
    assert_eq!(numbers(&page), [3, 2, 1]);
}

#[tokio::test]
async fn a_job_is_found_by_its_session() {
    let world = JobsFixture::new().await;
    for number in 1..=3_u32 {
        let mut job = world.schedule(number.into()).await;
        job.session = (number != 2).then(|| crate::id(number));
        let change = world.jobs.change(job, store::jobs::ChangeExtras::default());
        super::saved(change.await.unwrap());
    }
    let find = async |session| {
        let found = world
            .jobs
            .job_of_session(&crate::id(session))
            .await
            .unwrap();
        found.map(|job| job.id)
    };
    assert_eq!(find(1).await, Some(id(1)));
    assert_eq!(find(2).await, None);
    assert_eq!(find(3).await, Some(id(3)));
}
