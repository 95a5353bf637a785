//! Background commands: their output and their end are reported as they happen.

use llm::script::ScriptedReply;
use nix::sys::signal::{Signal, kill};
use protocol::{AgentCommand, BackgroundJob, Event, EventKind, Outcome};
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::loss::guest_of;
use crate::models::{bash, done, scripted};
use crate::processes::marker;

fn start(command: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({"command": command, "background": true}))
}

fn job_call(job: u32, action: &str) -> ScriptedReply {
    ScriptedReply::call("bash_job", json!({"job": job, "action": action}))
}

/// Waits for a list in which a job meets the condition.
async fn wait_for_job(
    agent: &mut TestAgent,
    is_it: impl Fn(&BackgroundJob) -> bool,
) -> BackgroundJob {
    let has_it = |kind: &EventKind| matches!(kind, EventKind::Background { jobs } if jobs.iter().any(&is_it));
    match agent.until(has_it).await {
        EventKind::Background { jobs } => jobs.into_iter().find(|job| is_it(job)).unwrap(),
        _ => unreachable!(),
    }
}

fn lists(events: &[Event]) -> Vec<Vec<BackgroundJob>> {
    let list = |event: &Event| match &event.kind {
        EventKind::Background { jobs } => Some(jobs.clone()),
        _ => None,
    };
    events.iter().filter_map(list).collect()
}

/// The endings of a job in all lists.
fn endings(events: &[Event], job: u32) -> Vec<String> {
    let lists = lists(events).into_iter().flatten();
    let own = lists.filter(|one| one.job == job);
    own.filter_map(|one| one.ending).collect()
}

#[test]
fn a_job_is_listed_from_start_to_end() {
    run_with_timeout(async {
        let command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 3";
        let world = SessionFixture::new().await;
        let replies = vec![start(command), done(), job_call(1, "poll"), done()];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Start.").await, Outcome::Done);
        let job = match lists(&agent.seen).pop() {
            // It may have been reported before the turn ended.
            Some(jobs) if jobs[0].tail == "one\n" => jobs[0].clone(),
            _ => wait_for_job(&mut agent, |job| job.tail == "one\n").await,
        };
        assert_eq!((job.job, job.command.as_str()), (1, command));
        assert_eq!(job.ending, None);
        let call = agent.kinds().find_map(|kind| match kind {
            EventKind::ToolEnded { call, .. } => Some(call.clone()),
            _ => None,
        });
        assert_eq!(Some(job.call), call);
        world.write("go", "");
        let ended = wait_for_job(&mut agent, |job| job.ending.is_some()).await;
        assert_eq!(ended.ending.as_deref(), Some("exit code: 3"));
        assert_eq!(ended.tail, "one\ntwo\n");
        assert_eq!(ended.since, job.since);
        // Watching the job has not consumed its output.
        assert_eq!(agent.prompt("Look.").await, Outcome::Done);
        let (result, _) = agent.results().pop().unwrap();
        assert_contains(&result, "two\nexit code: 3");
        let events = agent.end().await;
        assert_eq!(endings(&events, 1).len(), 1);
    });
}

#[test]
fn a_silent_job_is_reported_at_start_and_end_only() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let silent = "until [ -e go ]; do sleep 0.01; done";
        let mut agent = world.start(scripted(vec![start(silent), done()])).await;
        assert_eq!(agent.prompt("Start.").await, Outcome::Done);
        world.write("go", "");
        wait_for_job(&mut agent, |job| job.ending.is_some()).await;
        let events = agent.end().await;
        let lists = lists(&events);
        assert_eq!(lists.len(), 2, "{lists:?}");
        assert_eq!((lists[0].len(), lists[1].len()), (1, 1));
    });
}

#[test]
fn several_jobs_share_a_list_and_each_leaves_it_at_its_end() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let job = |name: &str| {
            start(&format!(
                "until [ -e {name} ]; do sleep 0.01; done; echo {name}"
            ))
        };
        let replies = vec![job("a"), job("b"), done(), job_call(2, "kill"), done()];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Start.").await, Outcome::Done);
        world.write("a", "");
        let ended = wait_for_job(&mut agent, |job| job.job == 1 && job.ending.is_some()).await;
        assert_eq!(ended.tail, "a\n");
        assert_eq!(agent.prompt("Kill.").await, Outcome::Done);
        if endings(&agent.seen, 2).is_empty() {
            wait_for_job(&mut agent, |job| job.job == 2 && job.ending.is_some()).await;
        }
        let events = agent.end().await;
        let lists = lists(&events);
        let first = lists
            .iter()
            .position(|jobs| jobs.iter().any(|job| job.ending.is_some()));
        for later in &lists[first.unwrap() + 1..] {
            assert!(later.iter().all(|job| job.job == 2), "{later:?}");
        }
        assert_contains(&endings(&events, 2)[0], "SIGTERM");
    });
}

#[test]
fn leftover_processes_are_a_job_and_ended_ones_are_not() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let left = "(until [ -e go ]; do sleep 0.01; done; echo left) & echo begun";
        let mut agent = world
            .start(scripted(vec![bash("echo over"), bash(left), done()]))
            .await;
        assert_eq!(agent.prompt("Start.").await, Outcome::Done);
        world.write("go", "");
        let ended = wait_for_job(&mut agent, |job| job.ending.is_some()).await;
        assert_eq!(ended.command, left);
        assert_contains(&ended.tail, "left\n");
        let events = agent.end().await;
        assert!(
            lists(&events)
                .iter()
                .flatten()
                .all(|job| job.command == left)
        );
    });
}

#[test]
fn a_slow_receiver_gets_the_final_list() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let chatty = "until [ -e go ]; do sleep 0.01; done
            for i in $(seq 1 3000); do echo line $i; done; echo the end";
        let setup = world.setup(scripted(vec![start(chatty), done()])).await;
        let (commands, command_receiver) = mpsc::channel(4);
        let (event_sender, mut events) = mpsc::channel(1);
        let running = tokio::spawn(agent::run(setup, command_receiver, event_sender));
        commands.send(AgentCommand::prompt("Start.")).await.unwrap();
        let mut received = Vec::new();
        while endings(&received, 1).is_empty() {
            let event = events.recv().await.unwrap();
            if matches!(event.kind, EventKind::TurnEnded { .. }) {
                world.write("go", "");
            }
            received.push(event);
        }
        let last = lists(&received).pop().unwrap();
        assert!(last[0].tail.ends_with("line 3000\nthe end\n"), "{last:?}");
        assert!(last[0].tail.len() <= 4096);
        assert!(last[0].tail.starts_with("line "), "{last:?}");
        drop((commands, events));
        running.await.unwrap().unwrap();
    });
}

#[test]
fn jobs_end_with_their_sandbox() {
    run_with_timeout(async {
        let marker = marker("background");
        let world = SessionFixture::new().await;
        let replies = vec![
            start(&format!("bash -c 'echo up; sleep 1000; true' {marker}")),
            done(),
            bash("echo noticed"),
            start("echo in the new one; sleep 1000"),
            done(),
        ];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Start.").await, Outcome::Done);
        kill(guest_of(&marker).await, Signal::SIGKILL).unwrap();
        // The watcher notices that the guest does not answer any more.
        let lost = wait_for_job(&mut agent, |job| job.ending.is_some()).await;
        assert_contains(&lost.command, &marker);
        assert_eq!(agent.prompt("Go on.").await, Outcome::Done);
        if !lists(&agent.seen)
            .iter()
            .flatten()
            .any(|job| job.tail == "in the new one\n")
        {
            wait_for_job(&mut agent, |job| job.tail == "in the new one\n").await;
        }
        let events = agent.end().await;
        assert_eq!(endings(&events, 1).len(), 1);
    });
}
