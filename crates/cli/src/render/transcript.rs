//! A stored session as readable text. Pure.

use std::collections::HashMap;

use protocol::{Block, CallId, CallSummary, Event, EventKind, Outcome};

use super::text::{clean, first_line};

/// Lines of a tool's result that are shown.
const MAX_QUOTED_LINES: usize = 12;

pub(crate) fn transcript(events: &[Event]) -> String {
    let summaries = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded {
            call,
            summary: Some(summary),
            ..
        } => Some((call, summary.as_ref())),
        _ => None,
    });
    let summaries = summaries.collect();
    let mut text = String::new();
    for event in events {
        if let Some(event_text) = event_text(&event.kind, &summaries) {
            text.push_str(event_text.trim_end());
            text.push_str("\n\n");
        }
    }
    text
}

/// What the tools said of the calls that have ended.
type Summaries<'a> = HashMap<&'a CallId, &'a CallSummary>;

fn event_text(kind: &EventKind, summaries: &Summaries<'_>) -> Option<String> {
    Some(match kind {
        EventKind::TurnStarted { turn, prompt } => {
            format!("## {turn}. user\n\n{}", content_text(prompt))
        }
        EventKind::TurnContinued { turn } => format!("## {turn}. continued"),
        EventKind::Replied { content, .. } => content
            .iter()
            .filter_map(|block| said(block, summaries))
            .collect::<Vec<_>>()
            .join("\n\n"),
        EventKind::ToolEnded { content, .. } => quoted(&content_text(content)),
        EventKind::Decided {
            question,
            decision: Some(decision),
        } => {
            let answer = if decision.is_allowed {
                "allowed"
            } else {
                "denied"
            };
            format!("(the user {answer}: {})", first_line(&question.what, 200))
        }
        EventKind::Noted { text } => format!("(note to the model: {})", clean(text)),
        EventKind::SandboxStarted {
            replaces: Some(why),
            ..
        } => format!("(a new sandbox: {})", clean(why)),
        EventKind::Undone { turn, .. } => format!("(turn {turn} was undone)"),
        EventKind::Redone { turn, .. } => format!("(turn {turn} was redone)"),
        EventKind::ModelChanged { model, .. } => format!("(the model is now {})", clean(model)),
        EventKind::Compacted { summary, .. } => format!(
            "(the model continues with this summary)\n\n{}",
            quoted(&clean(summary))
        ),
        EventKind::TurnEnded { outcome, .. } => match outcome {
            Outcome::Done => return None,
            Outcome::Interrupted => "(interrupted)".to_owned(),
            Outcome::Failed { reason }
            | Outcome::Provider { reason, .. }
            | Outcome::Budget { reason, .. } => format!("(ended: {})", clean(reason)),
        },
        _ => return None,
    })
}

fn said(block: &Block, summaries: &Summaries<'_>) -> Option<String> {
    match block {
        Block::Text { text, .. } => Some(clean(text)),
        Block::ToolUse { id, name, input } => {
            let line = match summaries.get(id) {
                Some(summary) => summary.to_string(),
                None => CallSummary::generic(name, input).to_string(),
            };
            Some(format!("● {}", first_line(&line, 200)))
        }
        _ => None,
    }
}

fn content_text(content: &[Block]) -> String {
    let texts: Vec<String> = content
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => clean(text),
            Block::Image { .. } => "(an image)".to_owned(),
            _ => "(something else)".to_owned(),
        })
        .collect();
    texts.join("\n")
}

fn quoted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut quoted: Vec<String> = lines
        .iter()
        .take(MAX_QUOTED_LINES)
        .map(|line| format!("  │ {line}"))
        .collect();
    if lines.len() > MAX_QUOTED_LINES {
        quoted.push(format!(
            "  │ … {} more lines",
            lines.len() - MAX_QUOTED_LINES
        ));
    }
    quoted.join("\n")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{CallKind, EVENT_VERSION, Stop, Usage};
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind) -> Event {
        Event {
            v: EVENT_VERSION,
            session: "20260315-120000-k3fd".parse().unwrap(),
            seq: None,
            time: Timestamp::UNIX_EPOCH,
            kind,
        }
    }

    #[test]
    fn a_tool_that_nobody_knows_looks_right() {
        let check = |summary: Option<Box<CallSummary>>, expect: &str| {
            let events = [
                event(EventKind::Replied {
                    turn: 1,
                    content: vec![Block::ToolUse {
                        id: "a".into(),
                        name: "oracle".into(),
                        input: json!({"name": "Delphi"}),
                    }],
                    stop: Stop::ToolUse,
                    broken_calls: Default::default(),
                    usage: Usage::default(),
                    cost: None,
                    model: String::new(),
                }),
                event(EventKind::ToolEnded {
                    call: "a".into(),
                    name: "oracle".into(),
                    content: vec![Block::text("It depends.")],
                    is_error: false,
                    kept: None,
                    changes: Vec::new(),
                    millis: 1,
                    denied: Some(false),
                    summary,
                }),
            ];
            assert_eq!(
                transcript(&events),
                format!("{expect}\n\n  │ It depends.\n\n")
            );
        };
        let summary = CallSummary::new(CallKind::Other, "ask", "the oracle");
        check(Some(Box::new(summary)), "● ask the oracle");
        // A session of an older release.
        check(None, "● oracle Delphi");
    }
}
