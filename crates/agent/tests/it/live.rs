//! Live output of a running command: sent soon, and at a limited rate.

use protocol::{AgentCommand, EventKind, Outcome};

use crate::harness::{SessionFixture, run_with_timeout};
use crate::models::{bash, done, scripted};

#[test]
fn much_output_is_sent_in_few_events() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let flood = "timeout 1 yes 'a line of the flood'; true";
        let mut agent = world.start(scripted(vec![bash(flood), done()])).await;
        assert_eq!(agent.prompt("Flood.").await, Outcome::Done);
        let events = agent.end().await;
        let millis = events.iter().find_map(|event| match event.kind {
            EventKind::ToolEnded { millis, .. } => Some(millis),
            _ => None,
        });
        let texts = events.iter().filter_map(|event| match &event.kind {
            EventKind::ToolOutput { text, .. } => Some(text),
            _ => None,
        });
        let texts: Vec<&String> = texts.collect();
        assert!(texts.len() > 2, "{}", texts.len());
        let most = millis.unwrap() / 33 + 2;
        assert!(
            texts.len() as u64 <= most,
            "{} in {millis:?} ms",
            texts.len()
        );
        for text in &texts[1..] {
            assert!(text.len() <= 4096);
            assert!(text.starts_with("a line of the flood\n"), "{text:.40}");
        }
    });
}

/// Both are printed at once, and nothing follows that would trigger another event.
#[test]
fn the_last_output_before_a_pause_is_sent() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let command = "echo first; echo second >&2; echo third
            until [ -e go ]; do sleep 0.01; done; echo fourth";
        let mut agent = world.start(scripted(vec![bash(command), done()])).await;
        agent.send(AgentCommand::prompt("Speak.")).await;
        // Stdout and stderr take separate paths and arrive in any order.
        for word in ["third", "second"] {
            let says_it = |kind: &EventKind| matches!(kind, EventKind::ToolOutput { text, .. } if text.contains(word));
            if !agent.kinds().any(says_it) {
                agent.until(says_it).await;
            }
        }
        world.write("go", "");
        assert_eq!(agent.ended().await, Outcome::Done);
        let events = agent.end().await;
        let said = |wanted: bool| -> String {
            let texts = events.iter().filter_map(|event| match &event.kind {
                EventKind::ToolOutput { text, is_error, .. } if *is_error == wanted => {
                    Some(text.as_str())
                }
                _ => None,
            });
            texts.collect()
        };
        assert!(said(false).starts_with("first\nthird\n"), "{}", said(false));
        assert_eq!(said(true), "second\n");
    });
}
