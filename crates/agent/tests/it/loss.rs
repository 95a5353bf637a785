//! A sandbox that fails during a turn is replaced, and the model is told what is lost.

use llm::script::ScriptedReply;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{AgentCommand, EventKind, Outcome};
use serde_json::json;
use testkit::ModelServer;

use crate::harness::{
    SessionFixture, TestAgent, assert_contains, is_after_checkpoint, run_with_timeout,
};
use crate::models::{Wire, bash, calls, done};
use crate::processes::{eventually, marker, processes_with};

/// Process 1 of the sandbox in which a marked command runs, as a host pid.
pub(crate) async fn guest_of(marker: &str) -> Pid {
    eventually("the command runs", || !processes_with(marker).is_empty()).await;
    let mut pid = processes_with(marker)[0];
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().split_whitespace().last().unwrap().to_owned()
        };
        if field("NSpid:") == "1" {
            return Pid::from_raw(pid);
        }
        pid = field("PPid:").parse().unwrap();
    }
}

fn replacements(agent: &TestAgent) -> Vec<Option<String>> {
    agent
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::SandboxStarted { replaces, .. } => Some(replaces.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_sandbox_that_is_killed_is_replaced_and_the_turn_goes_on() {
    run_with_timeout(async {
        let marker = marker("lost");
        let sleep = format!("cd /tmp; echo here > kept; bash -c 'sleep 1000; true' {marker}");
        let server = ModelServer::start([
            bash("echo work > file; cd /tmp; touch gone"),
            calls(&[
                ("bash", json!({"command": sleep})),
                ("bash", json!({"command": "echo after"})),
            ]),
            bash("cat /workspace/file; pwd; ls /tmp"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::prompt("Work.")).await;
        kill(guest_of(&marker).await, Signal::SIGKILL).unwrap();
        assert_eq!(agent.ended().await, Outcome::Done);
        let results = agent.results();
        assert_eq!(results.len(), 4, "{results:?}");
        assert!(results[1].1);
        assert_contains(&results[1].0, "The sandbox was lost while this ran");
        assert_contains(&results[2].0, "after\n");
        assert_contains(&results[3].0, "work\n/workspace\n");
        assert!(!results[3].0.contains("gone"), "{results:?}");
        let started = replacements(&agent);
        assert_eq!(started.len(), 2);
        assert!(started[0].is_none() && started[1].is_some());
        agent.end().await;
        server.finish();
    });
}

/// Whichever call notices the loss, a change after it has its checkpoint.
#[test]
fn a_sandbox_that_is_killed_between_turns_is_replaced_by_the_next() {
    run_with_timeout(async {
        let noticed = [
            bash("echo once"),
            ScriptedReply::call("read_file", json!({"path": "file"})),
        ];
        for (number, notice) in noticed.into_iter().enumerate() {
            let marker = marker(&format!("lost-idle-{number}"));
            let start = format!("bash -c 'sleep 1000; true' {marker} &");
            let server = ModelServer::start([
                bash(&start),
                done(),
                notice,
                bash("echo again > file"),
                done(),
            ]);
            let world = SessionFixture::new().await;
            world.write("file", "old\n");
            let mut agent = world.start(Wire::OpenAi.client(&server)).await;
            assert_eq!(agent.prompt("Work.").await, Outcome::Done);
            kill(guest_of(&marker).await, Signal::SIGKILL).unwrap();
            eventually("it is gone", || processes_with(&marker).is_empty()).await;
            assert_eq!(agent.prompt("More.").await, Outcome::Done);
            assert_eq!(world.read("file"), "again\n");
            assert_eq!(replacements(&agent).len(), 2);
            assert_contains(&agent.results()[1].0, "The sandbox was lost");
            assert!(matches!(agent.undo().await, EventKind::Undone { .. }));
            assert_eq!(world.read("file"), "old\n");
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn an_undo_survives_the_loss_of_the_sandbox() {
    run_with_timeout(async {
        let marker = marker("lost-undo");
        let start = format!("echo new > file; bash -c 'sleep 1000; true' {marker} &");
        let server = ModelServer::start([bash(&start), done(), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.until(is_after_checkpoint).await;
        kill(guest_of(&marker).await, Signal::SIGKILL).unwrap();
        eventually("it is gone", || processes_with(&marker).is_empty()).await;
        let undone = agent.undo().await;
        assert!(matches!(undone, EventKind::Undone { .. }), "{undone:?}");
        assert_eq!(world.read("file"), "old\n");
        assert_eq!(agent.prompt("Go on.").await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

/// As root, a control group kills the command; otherwise its allocation fails.
#[test]
fn a_command_that_exceeds_the_memory_limit_ends_alone() {
    run_with_timeout(async {
        let hungry = "perl -e '$x = \"x\" x (400 << 20); print length $x'";
        let server = ModelServer::start([bash(hungry), bash("echo still here"), done()]);
        let world = SessionFixture::new().await;
        let change = |setup: &mut agent::SessionSetup| setup.sandbox.limits.memory = 96 << 20;
        let model = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(model, change).await;
        assert_eq!(agent.prompt("Eat.").await, Outcome::Done);
        let results = agent.results();
        assert!(
            results[0].1 && !results[0].0.contains("419430400"),
            "{results:?}"
        );
        if nix::unistd::geteuid().is_root() {
            assert_contains(&results[0].0, "memory limit of 96M");
        } else {
            assert_contains(&results[0].0, "emory");
        }
        assert_contains(&results[1].0, "still here");
        agent.end().await;
        server.finish();
    });
}
