//! Output that is too long for a model: truncated, stored, and read in pieces, also later.

use llm::script::ScriptedReply;
use protocol::{EventKind, Outcome};
use serde_json::json;
use testkit::ModelServer;

use crate::harness::{SessionFixture, assert_contains, run_with_timeout};
use crate::models::{Wire, bash, done};

fn read(offset: u64) -> ScriptedReply {
    let input = json!({"path": "output:1", "offset": offset, "limit": 3});
    ScriptedReply::call("read_file", input)
}

#[test]
fn long_output_is_bounded_and_can_be_read_also_after_a_resume() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("seq 1 100000"),
            read(50_000),
            done(),
            read(70_000),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Count.").await, Outcome::Done);
        let results = agent.results();
        assert!(results[0].0.len() < 32 * 1024, "{}", results[0].0.len());
        assert_contains(&results[0].0, "output:1");
        assert_contains(&results[0].0, "\n100000\n");
        assert_contains(&results[1].0, "50000\t50000\n");
        assert!(!results[1].0.contains("50003\t"), "{}", results[1].0);
        let kept = agent.kinds().find_map(|kind| match kind {
            EventKind::ToolEnded { kept, .. } => kept.clone(),
            _ => None,
        });
        let kept = kept.unwrap();
        assert_eq!((kept.handle.as_str(), kept.bytes), ("output:1", 588_895));
        agent.end().await;

        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Read on.").await, Outcome::Done);
        assert_contains(&agent.results()[0].0, "70000\t70000\n");
        agent.end().await;
        for request in server.finish() {
            assert!(request.body.len() < 64 * 1024, "{}", request.body.len());
        }
    });
}

#[test]
fn a_fork_can_read_the_outputs_it_mentions() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("seq 1 100000"), done(), read(70_000), done()]);
        let mut world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Count.").await, Outcome::Done);
        let events = agent.end().await;
        let last = events.iter().filter_map(|event| event.seq).max().unwrap();
        world.fork(last).await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Read on.").await, Outcome::Done);
        assert_contains(&agent.results()[0].0, "70000\t70000\n");
        agent.end().await;
    });
}
