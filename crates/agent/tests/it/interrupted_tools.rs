//! Interruption while tools run: their effects and output so far are kept.

use protocol::EventKind;
use serde_json::json;
use tools::ToolAccess;

use crate::harness::{assert_contains, fixed_tools, run_with_timeout};
use crate::interruption::PromptInProgress;
use crate::models::{Wire, bash, calls, done};
use crate::processes::{eventually, marker, processes_with};
use crate::stubs;

#[test]
fn while_a_command_runs() {
    run_with_timeout(async {
        let marker = marker("foreground");
        let command = format!("echo so far; bash -c 'sleep 1000; true' {marker}; echo never");
        let answers = vec![bash(&command).into(), done().into()];
        let mut scene = PromptInProgress::begin(Wire::Anthropic, answers).await;
        let printed = |kind: &EventKind| matches!(kind, EventKind::ToolOutput { .. });
        scene.agent.until(printed).await;
        eventually("the command runs", || !processes_with(&marker).is_empty()).await;
        let (_, events, server) = scene.interrupt().await;
        eventually("the command is gone", || processes_with(&marker).is_empty()).await;
        let results = crate::harness::results(&events);
        assert_eq!(results.len(), 1);
        assert_contains(&results[0].0, "so far");
        assert_contains(&results[0].0, "interrupted");
        assert!(!results[0].0.contains("never") && results[0].1);
        server.finish();
    });
}

#[test]
fn calls_after_the_interrupted_one_are_not_run() {
    run_with_timeout(async {
        let both = calls(&[
            ("bash", json!({"command": "echo started; sleep 1000"})),
            ("bash", json!({"command": "touch never"})),
            ("read_file", json!({"path": "never"})),
        ]);
        let mut scene =
            PromptInProgress::begin(Wire::OpenAi, vec![both.into(), done().into()]).await;
        let printed = |kind: &EventKind| matches!(kind, EventKind::ToolOutput { .. });
        scene.agent.until(printed).await;
        let (world, events, server) = scene.interrupt().await;
        assert!(!world.path("never").exists());
        let results = crate::harness::results(&events);
        assert_eq!(results.len(), 3);
        for (text, is_error) in &results[1..] {
            assert!(is_error);
            assert_contains(text, "Not run");
        }
        server.finish();
    });
}

#[test]
fn while_several_read_only_tools_ignore_the_cancellation() {
    run_with_timeout(async {
        let names: Vec<_> = ["a", "b", "c"]
            .map(|name| ("stare", json!({"name": name})))
            .to_vec();
        let (stare, mut log) = stubs::endless_tool("stare", ToolAccess::Reads);
        let change = |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![stare]);
        let answers = vec![calls(&names).into(), done().into()];
        let scene = PromptInProgress::begin_with(Wire::Anthropic, answers, change).await;
        for _ in 0..3 {
            assert_contains(&log.next().await, "begin");
        }
        let (_, events, server) = scene.interrupt().await;
        let results = crate::harness::results(&events);
        assert_eq!(results.len(), 3);
        for (text, is_error) in results {
            assert!(is_error);
            assert_contains(&text, "Interrupted");
        }
        server.finish();
    });
}

#[test]
fn the_result_of_a_call_that_has_ended_is_kept() {
    run_with_timeout(async {
        let both = calls(&[
            ("stare", json!({"name": "s"})),
            ("quick", json!({"name": "q"})),
        ]);
        let (stare, _) = stubs::endless_tool("stare", ToolAccess::Reads);
        let (quick, _) = stubs::barrier_tool("quick", ToolAccess::Reads, 1);
        let change =
            |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![stare, quick]);
        let answers = vec![both.into(), done().into()];
        let mut scene = PromptInProgress::begin_with(Wire::Anthropic, answers, change).await;
        let quick_ended =
            |kind: &EventKind| matches!(kind, EventKind::ToolEnded { name, .. } if name == "quick");
        scene.agent.until(quick_ended).await;
        let (_, events, server) = scene.interrupt().await;
        let results = crate::harness::results(&events);
        assert_eq!(results[0], ("did q".to_owned(), false));
        assert_contains(&results[1].0, "Interrupted");
        server.finish();
    });
}
