//! Changing the model during a session.

use std::collections::HashMap;
use std::sync::Arc;

use agent::{Chosen, Models, Price, Setup};
use futures_util::future::BoxFuture;
use llm::script::{Script, ScriptedReply};
use llm::{Model, ModelError, Piece, Reply, Request, Scripted};
use protocol::{Command, EventKind, Outcome};
use store::StoreError;
use tools::{Access, ToolSet};

use crate::harness::{World, assert_says, within};
use crate::models::{done, scripted};
use crate::stubs;

/// A model with its own name.
#[derive(Debug)]
struct Named(&'static str, Scripted);

impl Model for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn reply<'a>(
        &'a self,
        request: Request<'a>,
        hear: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.1.reply(request, hear)
    }

    fn count<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.1.count(request)
    }
}

/// Models that reply with their own names.
#[derive(Debug, Default)]
struct Shelf(HashMap<&'static str, Chosen>);

impl Shelf {
    fn with(mut self, name: &'static str, price: Option<f64>) -> Self {
        let script = Script {
            title: String::new(),
            replies: vec![ScriptedReply::text(format!("I am {name}.")); 9],
        };
        let chosen = Chosen {
            model: Arc::new(Named(name, Scripted::new(script))),
            price: Price(Arc::new(move |_| price)),
            window: Some(1000),
        };
        self.0.insert(name, chosen);
        self
    }
}

impl Models for Shelf {
    fn choose(&self, name: &str, _: usize) -> Result<Chosen, String> {
        let found = self.0.get(name).cloned();
        found.ok_or_else(|| "nobody has heard of it".to_owned())
    }
}

fn shelf() -> Arc<dyn Models> {
    Arc::new(Shelf::default().with("dear", Some(1.0)).with("odd", None))
}

fn use_model(name: &str) -> Command {
    Command::UseModel { name: name.into() }
}

#[test]
fn the_next_turn_is_the_other_models() {
    within(async {
        let world = World::new().await;
        let change = |setup: &mut Setup| setup.models = shelf();
        let mut agent = world.start_with(scripted(vec![done()]), change).await;
        assert_eq!(agent.prompt("Hello.").await, Outcome::Done);
        agent.send(use_model("dear")).await;
        let changed = |kind: &EventKind| matches!(kind, EventKind::ModelChanged { .. });
        let expect = EventKind::ModelChanged {
            model: "dear".into(),
            window: Some(1000),
        };
        assert_eq!(agent.until(changed).await, expect);
        assert_eq!(agent.prompt("Who is it?").await, Outcome::Done);
        let reason = agent.refused(use_model("none")).await;
        assert_says(&reason, "`none`");
        assert_says(&reason, "nobody has heard of it");
        assert_eq!(agent.prompt("And now?").await, Outcome::Done);
        let events = agent.end().await;
        let said = events.iter().filter_map(|event| match &event.kind {
            EventKind::Replied { content, cost, .. } => {
                Some((crate::harness::text(content), *cost))
            }
            _ => None,
        });
        let said: Vec<(String, Option<f64>)> = said.collect();
        let dear = ("I am dear.".to_owned(), Some(1.0));
        assert_eq!(said[1..], [dear.clone(), dear]);
    });
}

/// Nothing is stored yet.
#[test]
fn before_the_first_turn_the_session_begins_with_it() {
    within(async {
        let world = World::new().await;
        let change = |setup: &mut Setup| setup.models = shelf();
        let mut agent = world.start_with(scripted(vec![done()]), change).await;
        agent.send(use_model("odd")).await;
        let is_odd = |kind: &EventKind| {
            matches!(kind, EventKind::Ready { model, window, .. }
                if model == "odd" && *window == Some(1000))
        };
        agent.until(is_odd).await;
        let summary = world.store.summary(&world.session).await;
        assert!(
            matches!(summary, Err(StoreError::Unknown(_))),
            "{summary:?}"
        );
        assert_eq!(agent.prompt("Hello.").await, Outcome::Done);
        let events = agent.end().await;
        let is_changed = |kind: &EventKind| matches!(kind, EventKind::ModelChanged { .. });
        assert!(!events.iter().any(|event| is_changed(&event.kind)));
        assert_eq!(
            world.store.summary(&world.session).await.unwrap().model,
            "odd"
        );
    });
}

#[test]
fn a_ceiling_in_money_needs_a_price() {
    within(async {
        let world = World::new().await;
        let change = |setup: &mut Setup| {
            setup.models = shelf();
            setup.budget.cost = Some(1.5);
        };
        let mut agent = world.start_with(scripted(vec![done()]), change).await;
        assert_says(&agent.refused(use_model("odd")).await, "price is unknown");
        agent.send(use_model("dear")).await;
        assert_eq!(agent.prompt("One.").await, Outcome::Done);
        assert_eq!(agent.prompt("Two.").await, Outcome::Done);
        let outcome = agent.prompt("Three.").await;
        assert!(matches!(outcome, Outcome::Budget { .. }), "{outcome:?}");
        agent.end().await;
    });
}

#[test]
fn a_turn_under_way_keeps_its_model() {
    within(async {
        let world = World::new().await;
        let (wait, mut log, go) = stubs::held("wait", Access::Reads);
        let change = |setup: &mut Setup| {
            setup.models = shelf();
            setup.tools = ToolSet::new(vec![wait]);
        };
        let replies = vec![
            ScriptedReply::call("wait", serde_json::json!({"name": "it"})),
            done(),
        ];
        let mut agent = world.start_with(scripted(replies), change).await;
        agent.send(Command::prompt("Wait.")).await;
        assert_eq!(log.next().await, "begin it");
        agent.send(use_model("dear")).await;
        go.notify_one();
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_eq!(agent.prompt("And now?").await, Outcome::Done);
        let events = agent.end().await;
        let happened = events.iter().filter_map(|event| match &event.kind {
            EventKind::Replied { content, .. } => Some(crate::harness::text(content)),
            EventKind::ModelChanged { .. } => Some("changed".to_owned()),
            EventKind::TurnEnded { .. } => Some("ended".to_owned()),
            _ => None,
        });
        let happened: Vec<String> = happened.collect();
        let expect = ["", "Done.", "ended", "changed", "I am dear.", "ended"];
        assert_eq!(happened, expect);
    });
}
