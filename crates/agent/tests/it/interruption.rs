//! Interruption in every phase of a turn. What was done stays done, and the next request is one that
//! a provider accepts.

use std::time::Duration;

use llm::script::ScriptedReply;
use protocol::{AgentCommand, Block, EventKind, Outcome, Stop};
use testkit::{ModelServer, Replies, ScriptedAnswer, StreamGate};

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, done};

/// A session whose first prompt is running.
pub(crate) struct PromptInProgress {
    server: ModelServer,
    world: SessionFixture,
    pub(crate) agent: TestAgent,
}

impl PromptInProgress {
    pub(crate) async fn begin(wire: Wire, answers: Vec<ScriptedAnswer>) -> Self {
        Self::begin_with(wire, answers, |_| {}).await
    }

    pub(crate) async fn begin_with(
        wire: Wire,
        answers: Vec<ScriptedAnswer>,
        change: impl FnOnce(&mut agent::SessionSetup),
    ) -> Self {
        let server = ModelServer::start(Replies::list(answers));
        let world = SessionFixture::new().await;
        let agent = world.start_with(wire.client(&server), change).await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        Self {
            server,
            world,
            agent,
        }
    }

    /// Interrupts, and checks that the session continues with the next answer.
    pub(crate) async fn interrupt(mut self) -> (SessionFixture, Vec<protocol::Event>, ModelServer) {
        self.agent.send(AgentCommand::Interrupt).await;
        assert_eq!(self.agent.ended().await, Outcome::Interrupted);
        assert_eq!(self.agent.prompt("Go another way.").await, Outcome::Done);
        let events = self.agent.end().await;
        assert!(self.server.violations().is_empty());
        (self.world, events, self.server)
    }
}

/// Recorded content of replies that were stopped.
fn kept(events: &[protocol::Event]) -> Vec<Vec<Block>> {
    let kept = events.iter().filter_map(|event| match &event.kind {
        EventKind::Replied {
            content,
            stop: Stop::Interrupted,
            ..
        } => Some(content.clone()),
        _ => None,
    });
    kept.collect()
}

#[test]
fn before_the_first_text() {
    run_with_timeout(async {
        for wire in WIRES {
            let gate = StreamGate::new();
            let silent = ScriptedAnswer::reply(done()).hold(0, &gate);
            let scene = PromptInProgress::begin(wire, vec![silent, done().into()]).await;
            gate.reached().await;
            let (_, events, server) = scene.interrupt().await;
            server.hung_up(1).await;
            assert!(kept(&events).is_empty());
        }
    });
}

#[test]
fn during_the_text_which_is_kept() {
    run_with_timeout(async {
        for wire in WIRES {
            let gate = StreamGate::new();
            let long = ScriptedAnswer::reply(ScriptedReply::text("one two three four five six"));
            let answers = vec![long.hold(5, &gate), done().into()];
            let mut scene = PromptInProgress::begin(wire, answers).await;
            let has_two =
                |kind: &EventKind| matches!(kind, EventKind::TextDelta { text } if text == "two ");
            scene.agent.until(has_two).await;
            gate.reached().await;
            let (_, events, server) = scene.interrupt().await;
            server.hung_up(1).await;
            let kept = kept(&events);
            let [content] = &kept[..] else {
                panic!("{kept:?}");
            };
            assert!(crate::harness::text(content).starts_with("one two "));
            // This provider bills the input, and reports it at the beginning.
            let counted = |event: &protocol::Event| match &event.kind {
                EventKind::TurnEnded { spending, .. } => Some(spending.usage.input()),
                _ => None,
            };
            let billed = events.iter().find_map(counted).unwrap();
            assert_eq!(
                billed > 0,
                matches!(wire, Wire::Anthropic),
                "{wire:?}: {billed}"
            );
            let next = String::from_utf8(server.requests()[1].body.to_vec()).unwrap();
            assert_contains(&next, "one two ");
        }
    });
}

#[test]
fn during_a_tool_input_which_is_not_run() {
    run_with_timeout(async {
        for wire in WIRES {
            let gate = StreamGate::new();
            let call = ScriptedAnswer::reply(bash("touch never; echo some more words"));
            let answers = vec![call.hold(4, &gate), done().into()];
            let mut scene = PromptInProgress::begin(wire, answers).await;
            let started = |kind: &EventKind| matches!(kind, EventKind::InputDelta { .. });
            scene.agent.until(started).await;
            gate.reached().await;
            let (world, events, _) = scene.interrupt().await;
            assert!(kept(&events).iter().all(Vec::is_empty));
            assert!(!world.path("never").exists());
        }
    });
}

#[test]
fn while_waiting_for_a_retry() {
    run_with_timeout(async {
        let busy = ScriptedReply::error(529, "overloaded_error", "busy");
        let server = ModelServer::start([busy, done()]);
        let world = SessionFixture::new().await;
        let model = Wire::Anthropic.client_with_retry_delay(&server, Duration::from_secs(3600));
        let mut agent = world.start(model).await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let retrying = |kind: &EventKind| matches!(kind, EventKind::Retrying { .. });
        agent.until(retrying).await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        assert_eq!(agent.prompt("Again.").await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

/// The checkpoint comes between the reply and its first change. An interruption that arrives with the
/// reply comes before it.
#[test]
fn while_a_checkpoint_is_made() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("touch never"), done()]);
        let world = SessionFixture::new().await;
        for number in 0..2000 {
            world.write(&format!("folder/{number}"), "some content");
        }
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let replied = |kind: &EventKind| matches!(kind, EventKind::Replied { .. });
        agent.until(replied).await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        // Whether or not the change was made, there is a checkpoint if it was.
        let made = agent
            .kinds()
            .any(|kind| matches!(kind, EventKind::CheckpointMade { .. }));
        assert!(made || !world.path("never").exists());
        assert_eq!(agent.prompt("Another.").await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn while_idle() {
    run_with_timeout(async {
        let server = ModelServer::start([done(), done()]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        agent.send(AgentCommand::Interrupt).await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.prompt("Again.").await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn before_the_sandbox_has_started() {
    run_with_timeout(async {
        let server = ModelServer::start([done()]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        assert_eq!(agent.prompt("Again.").await, Outcome::Done);
        agent.end().await;
        let requests = server.finish();
        let body = requests.last().unwrap().json();
        let content = body["messages"][0]["content"].to_string();
        assert_contains(&content, "Begin.");
        assert_contains(&content, "Again.");
    });
}

#[test]
fn queued_prompts_run_after_it() {
    run_with_timeout(async {
        let gate = StreamGate::new();
        let silent = ScriptedAnswer::reply(done()).hold(0, &gate);
        let mut scene = PromptInProgress::begin(Wire::Anthropic, vec![silent, done().into()]).await;
        gate.reached().await;
        scene.agent.send(AgentCommand::prompt("Next.")).await;
        scene.agent.send(AgentCommand::Interrupt).await;
        assert_eq!(scene.agent.ended().await, Outcome::Interrupted);
        assert_eq!(scene.agent.ended().await, Outcome::Done);
        scene.agent.end().await;
        scene.server.finish();
    });
}

#[test]
fn an_interrupted_turn_can_be_continued_in_every_state() {
    run_with_timeout(async {
        let gates: Vec<StreamGate> = (0..8).map(|_| StreamGate::new()).collect();
        let reply = || ScriptedReply {
            text: Some("one two".to_owned()),
            ..bash("echo hi")
        };
        let held = gates
            .iter()
            .enumerate()
            .map(|(after, gate)| ScriptedAnswer::reply(reply()).hold(after, gate));
        let answers = held.chain([done().into()]).collect();
        let mut scene = PromptInProgress::begin(Wire::Anthropic, answers).await;
        for gate in &gates {
            gate.reached().await;
            scene.agent.send(AgentCommand::Interrupt).await;
            assert_eq!(scene.agent.ended().await, Outcome::Interrupted);
            scene.agent.send(AgentCommand::Continue).await;
        }
        assert_eq!(scene.agent.ended().await, Outcome::Done);
        scene.agent.end().await;
        scene.server.finish();
    });
}
