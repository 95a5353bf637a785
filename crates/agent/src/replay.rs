//! Runs the recorded calls of a session again, in a new sandbox on a separate folder, and reports
//! where the results differ. The model is not asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use protocol::{Block, CallId, Checkpoint, Event, EventKind, Kept, SessionId};
use sandbox::{Sandbox, SandboxSpec};
use store::SessionStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tools::ToolSet;

use crate::checkpoint::{self, RestoreTarget};
use crate::error::AgentError;
use crate::event_log::EventSender;
use crate::outputs::{ReplayedOutputs, StoredOutputs};
use crate::permission::is_denial;
use crate::step::{ToolCall, calls};
use crate::tool_runner::ToolRunner;

/// Result of replaying one call.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedCall {
    pub turn: u32,
    pub call: CallId,
    pub name: String,
    /// One line for the user.
    pub summary: String,
    /// `None` when the result is the same.
    pub difference: Option<ReplayDifference>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReplayDifference {
    pub recorded: String,
    pub replayed: String,
}

/// Replays a session. `spec` names an empty folder as workspace. The recorded files from before the
/// session's first change are put into it, and turns that were undone are undone again. `report` is
/// called after each call.
pub async fn replay(
    store: &SessionStore,
    session: &SessionId,
    events: &[Event],
    tools: &ToolSet,
    spec: SandboxSpec,
    mut report: impl FnMut(ReplayedCall),
) -> Result<(), AgentError> {
    let sandbox = Arc::new(Sandbox::start(spec).await?);
    let first = events.iter().find_map(|event| match &event.kind {
        EventKind::CheckpointMade { checkpoint, .. } => Some(checkpoint),
        _ => None,
    });
    if let Some(first) = first {
        restore_checkpoint(&sandbox, store, session, first).await?;
    }
    let outputs = ReplayedOutputs::new(StoredOutputs {
        store: store.clone(),
        session: session.clone(),
    });
    let (silent, _) = mpsc::channel(1);
    let sender = EventSender::new(session.clone(), silent);
    let stop = CancellationToken::new();
    {
        let runner = ToolRunner {
            tools,
            sandbox: sandbox.clone(),
            outputs: &outputs,
            sender: &sender,
            background: None,
            broker: None,
            stop: &stop,
        };
        for step in steps(events) {
            let RecordedCall { turn, call, result } = match step {
                ReplayStep::Call(recorded) => recorded,
                ReplayStep::Restore(checkpoint) => {
                    restore_checkpoint(&sandbox, store, session, checkpoint).await?;
                    continue;
                }
            };
            let Some(RecordedResult {
                content,
                kept,
                denied,
            }) = result
            else {
                continue;
            };
            // A call that was denied is not run. Older releases record that in the text alone.
            if denied.unwrap_or_else(|| is_denial(&content_text(content))) {
                continue;
            }
            outputs.expect(kept.map(|kept| kept.handle.clone()));
            let batch = [call];
            let mut running = std::pin::pin!(runner.run(&batch));
            while let Some(ended) = running.next().await {
                if let Some(error) = ended.sandbox_error {
                    return Err(error.into());
                }
                let (recorded, replayed) =
                    (content_text(content), content_text(&ended.output.content));
                report(ReplayedCall {
                    turn,
                    call: ended.call,
                    name: batch[0].name.clone(),
                    summary: ended.summary.to_string(),
                    difference: (recorded != replayed)
                        .then_some(ReplayDifference { recorded, replayed }),
                });
            }
        }
    }
    if let Ok(sandbox) = Arc::try_unwrap(sandbox) {
        sandbox.end().await;
    }
    Ok(())
}

/// Restores the workspace to a checkpoint, if that still exists.
async fn restore_checkpoint(
    sandbox: &Sandbox,
    store: &SessionStore,
    session: &SessionId,
    checkpoint: &Checkpoint,
) -> Result<(), AgentError> {
    let Some(files) = store.checkpoint(session, checkpoint.number).await? else {
        return Ok(());
    };
    let target = RestoreTarget {
        before: &files,
        skipped: &checkpoint.skipped,
        after: None,
        now: None,
    };
    checkpoint::restore(sandbox, store, target).await?;
    Ok(())
}

/// What happened to the workspace, in order.
enum ReplayStep<'a> {
    Call(RecordedCall<'a>),
    /// An undo or a redo went back to this checkpoint.
    Restore(&'a Checkpoint),
}

/// A call with its recorded result.
struct RecordedCall<'a> {
    turn: u32,
    call: ToolCall,
    result: Option<RecordedResult<'a>>,
}

/// The recorded end of a call.
struct RecordedResult<'a> {
    content: &'a [Block],
    kept: Option<&'a Kept>,
    denied: Option<bool>,
}

/// The calls that were run, in the order of the replies. A provider may reuse an id in a later reply,
/// so a result belongs to the last call with its id that has none.
fn steps(events: &[Event]) -> Vec<ReplayStep<'_>> {
    let mut steps = Vec::new();
    let mut turn_starts: BTreeMap<u32, &Checkpoint> = BTreeMap::new();
    // The checkpoint that each undo was started from, while it can be redone.
    let mut undone: Vec<Option<&Checkpoint>> = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::Replied {
                turn,
                content,
                broken_calls,
                ..
            } => {
                let calls = calls(content, broken_calls).into_iter();
                let whole = calls.filter(|call| call.broken.is_none());
                steps.extend(whole.map(|call| {
                    ReplayStep::Call(RecordedCall {
                        turn: *turn,
                        call,
                        result: None,
                    })
                }));
            }
            EventKind::ToolEnded {
                call,
                content,
                kept,
                denied,
                ..
            } => {
                let mut latest = steps.iter_mut().rev().filter_map(|step| match step {
                    ReplayStep::Call(recorded) => Some(recorded),
                    ReplayStep::Restore(_) => None,
                });
                if let Some(recorded) =
                    latest.find(|one| one.call.id == *call && one.result.is_none())
                {
                    recorded.result = Some(RecordedResult {
                        content,
                        kept: kept.as_ref(),
                        denied: *denied,
                    });
                }
            }
            EventKind::CheckpointMade {
                turn, checkpoint, ..
            } => {
                turn_starts.entry(*turn).or_insert(checkpoint);
            }
            EventKind::Undone {
                turn, checkpoint, ..
            } => {
                let start = turn_starts.get(turn).copied();
                steps.extend(start.map(ReplayStep::Restore));
                undone.push(start.map(|_| checkpoint));
            }
            // A turn that changed nothing has nothing to restore.
            EventKind::Redone { .. } => {
                steps.extend(undone.pop().flatten().map(ReplayStep::Restore));
            }
            EventKind::TurnStarted { .. }
            | EventKind::TurnContinued { .. }
            | EventKind::Compacted { .. } => undone.clear(),
            _ => {}
        }
    }
    steps
}

fn content_text(content: &[Block]) -> String {
    let part = |block: &Block| match block {
        Block::Text { text, .. } => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    content.iter().map(part).collect::<Vec<_>>().join("\n")
}
