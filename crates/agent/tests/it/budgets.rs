//! Budgets end a turn before the next request, and spending is reported as it grows.

use std::sync::Arc;
use std::time::Duration;

use agent::{Budget, Price, Setup};
use llm::script::ScriptedReply;
use protocol::{BudgetKind, Command, EventKind, Outcome, Spending, Usage};
use testkit::{Answer, Gate, ModelServer, Replies};
use tools::{Access, ToolSet};

use crate::harness::{Agent, World, within};
use crate::models::{Wire, bash};
use crate::stubs;

const USAGE: Usage = Usage {
    input_tokens: 80,
    cache_creation_input_tokens: 10,
    cache_read_input_tokens: 5,
    output_tokens: 5,
};

fn with_usage(reply: ScriptedReply) -> ScriptedReply {
    ScriptedReply {
        usage: Some(USAGE),
        ..reply
    }
}

/// Every request costs 100 tokens and a quarter of a dollar.
fn busy() -> Replies {
    Replies::decide(|request| with_usage(bash(&format!("echo {}", request.number))))
}

fn spent(agent: &Agent) -> Vec<Spending> {
    agent
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::Spent { spending } | EventKind::TurnEnded { spending, .. } => {
                Some(spending.clone())
            }
            _ => None,
        })
        .collect()
}

fn kind_of(outcome: &Outcome) -> BudgetKind {
    match outcome {
        Outcome::Budget { budget, reason } => {
            assert!(!reason.is_empty());
            *budget
        }
        other => panic!("{other:?}"),
    }
}

fn quarter(setup: &mut Setup) {
    setup.model.price = Price(Arc::new(|usage| Some(usage.total() as f64 / 400.0)));
}

#[test]
fn a_ceiling_ends_the_turn_before_the_next_request() {
    within(async {
        let check = async |budget: Budget, expect: BudgetKind, requests: usize| {
            let server = ModelServer::start(busy());
            let world = World::new().await;
            let change = |setup: &mut Setup| {
                setup.budget = budget;
                quarter(setup);
            };
            let model = Wire::Anthropic.client(&server);
            let mut agent = world.start_with(model, change).await;
            let outcome = agent.prompt("Work.").await;
            assert_eq!(kind_of(&outcome), expect);
            assert_eq!(server.request_count(), requests, "{budget:?}");
            // What is used up stays used up.
            let outcome = agent.prompt("More.").await;
            assert_eq!(kind_of(&outcome), expect);
            assert_eq!(server.request_count(), requests, "{budget:?}");
            agent.end().await;
            server.finish();
        };
        let none = Budget::default();
        let cost = |dollars| Budget {
            cost: Some(dollars),
            ..none
        };
        let tokens = |tokens| Budget {
            tokens: Some(tokens),
            ..none
        };
        let turns = |turns| Budget {
            turns: Some(turns),
            ..none
        };
        check(cost(0.6), BudgetKind::Cost, 3).await;
        check(cost(0.0), BudgetKind::Cost, 0).await;
        check(tokens(200), BudgetKind::Tokens, 2).await;
        check(tokens(201), BudgetKind::Tokens, 3).await;
        check(turns(4), BudgetKind::Turns, 4).await;
        let both = Budget {
            turns: Some(5),
            ..tokens(100)
        };
        check(both, BudgetKind::Tokens, 1).await;
    });
}

#[test]
fn a_turn_that_a_budget_ended_goes_on_with_a_new_one() {
    within(async {
        let server =
            ModelServer::start([bash("echo one"), bash("echo two"), crate::models::done()]);
        let world = World::new().await;
        let one = |setup: &mut Setup| setup.budget.turns = Some(1);
        let mut agent = world.start_with(Wire::OpenAi.client(&server), one).await;
        let outcome = agent.prompt("Work.").await;
        assert_eq!(kind_of(&outcome), BudgetKind::Turns);
        agent.end().await;
        let mut agent = world.start(Wire::OpenAi.client(&server)).await;
        agent.send(Command::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn time_ends_a_reply_and_a_tool_under_way() {
    within(async {
        let soon = |setup: &mut Setup| setup.budget.time = Some(Duration::from_secs(1));
        let gate = Gate::new();
        let silent = Answer::reply(crate::models::done()).hold(1, &gate);
        let server = ModelServer::start(silent);
        let world = World::new().await;
        let mut agent = world
            .start_with(Wire::Anthropic.client(&server), soon)
            .await;
        let outcome = agent.prompt("Work.").await;
        assert_eq!(kind_of(&outcome), BudgetKind::Time);
        let asked = server.request_count();
        assert!(asked <= 1, "{asked}");
        let outcome = agent.prompt("More.").await;
        assert_eq!(kind_of(&outcome), BudgetKind::Time);
        assert_eq!(server.request_count(), asked);
        agent.end().await;

        let server = ModelServer::start(ScriptedReply::call("stare", serde_json::json!({})));
        let world = World::new().await;
        let (stare, _) = stubs::forever("stare", Access::Changes);
        let change = |setup: &mut Setup| {
            soon(setup);
            setup.tools = ToolSet::new(vec![stare]);
        };
        let model = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(model, change).await;
        let outcome = agent.prompt("Work.").await;
        assert_eq!(kind_of(&outcome), BudgetKind::Time);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn spending_only_grows_and_says_its_ceilings() {
    within(async {
        let server = ModelServer::start(busy());
        let world = World::new().await;
        let change = |setup: &mut Setup| {
            setup.budget.turns = Some(5);
            setup.budget.cost = Some(100.0);
            quarter(setup);
        };
        let model = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(model, change).await;
        agent.prompt("Work.").await;
        let spent = spent(&agent);
        assert_eq!(spent.len(), 6);
        for (place, pair) in spent.windows(2).enumerate() {
            assert!(pair[0].requests <= pair[1].requests, "{place}");
            assert!(pair[0].usage.total() <= pair[1].usage.total(), "{place}");
            assert!(pair[0].cost <= pair[1].cost, "{place}");
            assert!(pair[0].seconds <= pair[1].seconds, "{place}");
        }
        let last = spent.last().unwrap();
        assert_eq!((last.requests, last.usage.total()), (5, 500));
        assert_eq!(last.cost, Some(1.25));
        assert_eq!((last.max_requests, last.max_cost), (Some(5), Some(100.0)));
        assert_eq!((last.max_tokens, last.max_seconds), (None, None));
        agent.end().await;
        let summary = world.store.summary(&world.session).await.unwrap();
        assert_eq!((summary.cost, summary.usage.total()), (Some(1.25), 500));
    });
}

#[test]
fn an_unknown_price_is_told_as_unknown_and_ends_nothing() {
    within(async {
        let server = ModelServer::start([bash("true"), crate::models::done()]);
        let world = World::new().await;
        let change = |setup: &mut Setup| setup.budget.cost = Some(0.01);
        let model = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(model, change).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert!(spent(&agent).iter().all(|spent| spent.cost.is_none()));
        agent.end().await;
    });
}
