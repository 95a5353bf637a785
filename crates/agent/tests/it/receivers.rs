//! Receivers of a session's events: slow ones, none at all, and empty prompts.

use llm::script::ScriptedReply;
use protocol::{AgentCommand, Block, Event, EventKind, Outcome};
use testkit::ModelServer;
use tokio::sync::mpsc;

use crate::harness::{SessionFixture, assert_contains, run_with_timeout};
use crate::models::{Wire, bash, done};

/// Runs one prompt with a channel of the given capacity, and returns the events received.
async fn run_prompt(world: &SessionFixture, server: &ModelServer, room: usize) -> Vec<Event> {
    let setup = world.setup(Wire::Anthropic.client(server)).await;
    let (commands, command_receiver) = mpsc::channel(4);
    let (event_sender, mut events) = mpsc::channel(room);
    let running = tokio::spawn(agent::run(setup, command_receiver, event_sender));
    commands.send(AgentCommand::prompt("Speak.")).await.unwrap();
    drop(commands);
    let mut received = Vec::new();
    while let Some(event) = events.recv().await {
        received.push(event);
    }
    running.await.unwrap().unwrap();
    received
}

#[test]
fn a_slow_receiver_misses_no_text() {
    run_with_timeout(async {
        let words: String = (0..500).map(|number| format!("word{number} ")).collect();
        let server = ModelServer::start([bash("seq 1 30000"), ScriptedReply::text(words.clone())]);
        let world = SessionFixture::new().await;
        let received = run_prompt(&world, &server, 1).await;
        let said: String = received
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::TextDelta { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(said, words);
        let lasting: Vec<Event> = received
            .into_iter()
            .filter(|event| event.kind.is_lasting())
            .collect();
        assert_eq!(lasting, world.events().await);
    });
}

#[test]
fn a_session_works_without_a_receiver() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo done > file"), done()]);
        let world = SessionFixture::new().await;
        let setup = world.setup(Wire::Anthropic.client(&server)).await;
        let (commands, command_receiver) = mpsc::channel(4);
        let (event_sender, events) = mpsc::channel(1);
        drop(events);
        commands.send(AgentCommand::prompt("Work.")).await.unwrap();
        drop(commands);
        agent::run(setup, command_receiver, event_sender)
            .await
            .unwrap();
        assert_eq!(world.read("file"), "done\n");
        let events = world.events().await;
        let ended = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::TurnEnded {
                    outcome: Outcome::Done,
                    ..
                }
            )
        };
        assert!(events.iter().any(|event| ended(&event.kind)));
    });
}

#[test]
fn an_empty_prompt_is_refused() {
    run_with_timeout(async {
        let server = ModelServer::start([done(), done()]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let empty = [vec![], vec![Block::text("")], vec![Block::text(" \n")]];
        for is_first in [true, false] {
            for content in empty.clone() {
                agent.send(AgentCommand::Prompt { content }).await;
                let refused = |kind: &EventKind| matches!(kind, EventKind::CommandRefused { .. });
                match agent.until(refused).await {
                    EventKind::CommandRefused { reason } => assert_contains(&reason, "empty"),
                    _ => unreachable!(),
                }
            }
            assert_eq!(agent.prompt("Words.").await, Outcome::Done, "{is_first}");
        }
        agent.end().await;
        server.finish();
    });
}
