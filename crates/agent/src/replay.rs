//! Runs the recorded calls of a session again, in a fresh sandbox on a folder of its own, and
//! tells where the results differ. The model is not asked.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use protocol::{Block, CallId, Event, EventKind, SessionId};
use sandbox::{Sandbox, SandboxSpec};
use store::Store;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tools::ToolSet;

use crate::checkpoint;
use crate::error::AgentError;
use crate::outputs::StoredOutputs;
use crate::scribe::Teller;
use crate::step::Call;
use crate::toolbox::Toolbox;

/// What came of one recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    pub turn: u32,
    pub call: CallId,
    pub name: String,
    /// One line for a person.
    pub summary: String,
    /// `None` when the result is the same.
    pub difference: Option<Difference>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub recorded: String,
    pub replayed: String,
}

/// Replays a session. `spec` names an empty folder as workspace; files that were there before
/// the session's first change are put into it, as far as they are on record. `report` hears of
/// each call as it ends.
pub async fn replay(
    store: &Store,
    session: &SessionId,
    events: &[Event],
    tools: &ToolSet,
    spec: SandboxSpec,
    mut report: impl FnMut(Replayed),
) -> Result<(), AgentError> {
    let sandbox = Arc::new(Sandbox::start(spec).await?);
    let first = events.iter().find_map(|event| match &event.kind {
        EventKind::CheckpointMade { checkpoint, .. } => Some(checkpoint),
        _ => None,
    });
    if let Some(first) = first
        && let Some(files) = store.checkpoint(session, first.number).await?
    {
        checkpoint::restore(&sandbox, store, &files, &first.skipped).await?;
    }
    let outputs = StoredOutputs {
        store: store.clone(),
        session: session.clone(),
    };
    let (silent, _) = mpsc::channel(1);
    let teller = Teller::new(session.clone(), silent);
    let stop = CancellationToken::new();
    {
        let toolbox = Toolbox {
            tools,
            sandbox: sandbox.clone(),
            outputs: &outputs,
            teller: &teller,
            stop: &stop,
        };
        let results = results(events);
        for (turn, call) in calls(events) {
            let Some(recorded) = results.get(&call.id) else {
                continue;
            };
            let summary = tools
                .find(&call.name)
                .map_or_else(|| call.name.clone(), |tool| tool.summary(&call.input));
            let batch = [call];
            let mut running = std::pin::pin!(toolbox.run(&batch));
            while let Some(ended) = running.next().await {
                if let Some(error) = ended.broke {
                    return Err(error.into());
                }
                let (recorded, replayed) = (text(recorded), text(&ended.output.content));
                report(Replayed {
                    turn,
                    call: ended.call,
                    name: batch[0].name.clone(),
                    summary: summary.clone(),
                    difference: (recorded != replayed).then_some(Difference { recorded, replayed }),
                });
            }
        }
    }
    if let Ok(sandbox) = Arc::try_unwrap(sandbox) {
        sandbox.end().await;
    }
    Ok(())
}

/// Calls that were run, in order, with their turns.
fn calls(events: &[Event]) -> Vec<(u32, Call)> {
    let mut calls = Vec::new();
    for event in events {
        let EventKind::Replied {
            turn,
            content,
            broken_calls,
            ..
        } = &event.kind
        else {
            continue;
        };
        for block in content {
            if let Block::ToolUse { id, name, input } = block
                && !broken_calls.contains_key(id)
            {
                let call = Call {
                    id: id.clone(),
                    name: name.clone(),
                    input: input.clone(),
                    broken: None,
                };
                calls.push((*turn, call));
            }
        }
    }
    calls
}

fn results<'a>(events: &'a [Event]) -> HashMap<&'a CallId, &'a [Block]> {
    let result = |event: &'a Event| match &event.kind {
        EventKind::ToolEnded { call, content, .. } => Some((call, content.as_slice())),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

fn text(content: &[Block]) -> String {
    let part = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    content.iter().map(part).collect::<Vec<_>>().join("\n")
}
