//! Changing the model during a session.

use std::collections::HashMap;
use std::sync::Arc;

use agent::{ChosenModel, ModelCatalog, SessionSetup, UsagePricing};
use futures_util::future::BoxFuture;
use llm::script::{Script, ScriptedReply};
use llm::{Model, ModelError, ModelReply, ModelRequest, ReplyEvent, ScriptedModel};
use protocol::{AgentCommand, EventKind, Outcome};
use store::StoreError;
use tools::ToolAccess;

use crate::harness::{SessionFixture, assert_contains, fixed_tools, run_with_timeout};
use crate::models::{done, scripted};
use crate::stubs;

/// A model with its own name.
#[derive(Debug)]
struct NamedModel(&'static str, ScriptedModel);

impl Model for NamedModel {
    fn name(&self) -> &str {
        self.0
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_event: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.1.reply(request, on_event)
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.1.count(request)
    }
}

/// Models that reply with their own names.
#[derive(Debug, Default)]
struct NamedModels(HashMap<&'static str, ChosenModel>);

impl NamedModels {
    fn with(mut self, name: &'static str, price: Option<f64>) -> Self {
        let script = Script {
            title: String::new(),
            replies: vec![ScriptedReply::text(format!("I am {name}.")); 9],
        };
        let chosen = ChosenModel {
            model: Arc::new(NamedModel(name, ScriptedModel::new(script))),
            price: UsagePricing(Arc::new(move |_| price)),
            window: Some(1000),
        };
        self.0.insert(name, chosen);
        self
    }
}

impl ModelCatalog for NamedModels {
    fn choose(&self, name: &str, _: usize) -> Result<ChosenModel, String> {
        let found = self.0.get(name).cloned();
        found.ok_or_else(|| "nobody has heard of it".to_owned())
    }
}

fn named_models() -> Arc<dyn ModelCatalog> {
    Arc::new(
        NamedModels::default()
            .with("dear", Some(1.0))
            .with("odd", None),
    )
}

fn use_model(name: &str) -> AgentCommand {
    AgentCommand::UseModel { name: name.into() }
}

#[test]
fn the_next_turn_uses_the_other_model() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let change = |setup: &mut SessionSetup| setup.models = named_models();
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
        assert_contains(&reason, "`none`");
        assert_contains(&reason, "nobody has heard of it");
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
fn before_the_first_turn_the_session_starts_with_the_chosen_model() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let change = |setup: &mut SessionSetup| setup.models = named_models();
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
fn a_cost_limit_requires_a_price() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let change = |setup: &mut SessionSetup| {
            setup.models = named_models();
            setup.budget.cost = Some(1.5);
        };
        let mut agent = world.start_with(scripted(vec![done()]), change).await;
        assert_contains(&agent.refused(use_model("odd")).await, "price is unknown");
        agent.send(use_model("dear")).await;
        assert_eq!(agent.prompt("One.").await, Outcome::Done);
        assert_eq!(agent.prompt("Two.").await, Outcome::Done);
        let outcome = agent.prompt("Three.").await;
        assert!(matches!(outcome, Outcome::Budget { .. }), "{outcome:?}");
        agent.end().await;
    });
}

#[test]
fn a_running_turn_keeps_its_model() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (wait, mut log, go) = stubs::held_tool("wait", ToolAccess::Reads);
        let change = |setup: &mut SessionSetup| {
            setup.models = named_models();
            setup.tools = fixed_tools(vec![wait]);
        };
        let replies = vec![
            ScriptedReply::call("wait", serde_json::json!({"name": "it"})),
            done(),
        ];
        let mut agent = world.start_with(scripted(replies), change).await;
        agent.send(AgentCommand::prompt("Wait.")).await;
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
