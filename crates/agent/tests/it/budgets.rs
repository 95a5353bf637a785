//! Budgets end a turn before the next request, and spending is reported as it grows.

use std::sync::Arc;
use std::time::Duration;

use agent::{SessionSetup, UsagePricing};
use llm::script::ScriptedReply;
use protocol::{AgentCommand, Budget, BudgetKind, EventKind, Outcome, Spending, Usage};
use testkit::{ModelServer, Replies, ScriptedAnswer, StreamGate};
use tools::ToolAccess;

use crate::harness::{SessionFixture, TestAgent, fixed_tools, run_with_timeout};
use crate::models::{Wire, bash};
use crate::stubs;

const USAGE_PER_REQUEST: Usage = Usage {
    input_tokens: 80,
    cache_creation_input_tokens: 10,
    cache_read_input_tokens: 5,
    output_tokens: 5,
};

fn with_usage(reply: ScriptedReply) -> ScriptedReply {
    ScriptedReply {
        usage: Some(USAGE_PER_REQUEST),
        ..reply
    }
}

/// Every request costs 100 tokens and a quarter of a dollar.
fn costly_replies() -> Replies {
    Replies::decide(|request| with_usage(bash(&format!("echo {}", request.number))))
}

fn spent(agent: &TestAgent) -> Vec<Spending> {
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

fn set_price(setup: &mut SessionSetup) {
    setup.model.price = UsagePricing(Arc::new(|usage| Some(usage.total() as f64 / 400.0)));
}

#[test]
fn a_reached_limit_ends_the_turn_before_the_next_request() {
    run_with_timeout(async {
        let check = async |budget: Budget, expect: BudgetKind, requests: usize| {
            let server = ModelServer::start(costly_replies());
            let world = SessionFixture::new().await;
            let change = |setup: &mut SessionSetup| {
                setup.budget = budget;
                set_price(setup);
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
fn a_turn_ended_by_a_budget_continues_with_a_new_budget() {
    run_with_timeout(async {
        let server =
            ModelServer::start([bash("echo one"), bash("echo two"), crate::models::done()]);
        let world = SessionFixture::new().await;
        let one = |setup: &mut SessionSetup| setup.budget.turns = Some(1);
        let mut agent = world.start_with(Wire::OpenAi.client(&server), one).await;
        let outcome = agent.prompt("Work.").await;
        assert_eq!(kind_of(&outcome), BudgetKind::Turns);
        agent.end().await;
        let mut agent = world.start(Wire::OpenAi.client(&server)).await;
        agent.send(AgentCommand::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn the_time_limit_ends_a_running_reply_and_tool() {
    run_with_timeout(async {
        let soon = |setup: &mut SessionSetup| setup.time_limit = Some(Duration::from_secs(1));
        let gate = StreamGate::new();
        let silent = ScriptedAnswer::reply(crate::models::done()).hold(1, &gate);
        let server = ModelServer::start(silent);
        let world = SessionFixture::new().await;
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
        let world = SessionFixture::new().await;
        let (stare, _) = stubs::endless_tool("stare", ToolAccess::Changes);
        let change = |setup: &mut SessionSetup| {
            soon(setup);
            setup.tools = fixed_tools(vec![stare]);
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
fn spending_only_grows_and_includes_its_limits() {
    run_with_timeout(async {
        let server = ModelServer::start(costly_replies());
        let world = SessionFixture::new().await;
        let change = |setup: &mut SessionSetup| {
            setup.budget.turns = Some(5);
            setup.budget.cost = Some(100.0);
            set_price(setup);
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
fn an_unknown_price_is_reported_as_unknown_and_ends_nothing() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("true"), crate::models::done()]);
        let world = SessionFixture::new().await;
        let change = |setup: &mut SessionSetup| setup.budget.cost = Some(0.01);
        let model = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(model, change).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert!(spent(&agent).iter().all(|spent| spent.cost.is_none()));
        agent.end().await;
    });
}
