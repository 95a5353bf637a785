//! Applies events to the status. Their texts are cleaned here, once.

use std::time::Duration;

use protocol::{Event, EventKind, SandboxInfo};

use super::{TurnActivity, TurnPhase, UiStatus};
use crate::text::clean;

impl UiStatus {
    pub(crate) fn apply(&mut self, event: &Event) {
        let now = self.now;
        if self.is_busy {
            self.activity.touch(now, event.time);
        }
        match &event.kind {
            EventKind::Ready {
                model,
                window,
                sandbox,
                asks,
                // Already known, or that of another machine.
                workspace: _,
            } => {
                self.model = line(model);
                self.window = *window;
                self.sandbox = Some(clean_info(sandbox));
                self.asks = *asks;
            }
            EventKind::SessionStarted {
                workspace, model, ..
            } => {
                self.session = Some(event.session.clone());
                self.workspace = line(workspace);
                self.model = line(model);
            }
            EventKind::SandboxStarted { sandbox, .. } => {
                self.sandbox = Some(clean_info(sandbox));
                self.background = 0;
            }
            EventKind::NetworkChanged { network } => {
                if let Some(sandbox) = &mut self.sandbox {
                    sandbox.network = single_lines(network);
                }
            }
            EventKind::ModelChanged { model, window } => {
                self.model = line(model);
                self.window = *window;
            }
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => {
                self.is_busy = true;
                self.activity = TurnActivity::begin(now, event.time);
            }
            EventKind::TurnEnded { spending, .. } => {
                self.is_busy = false;
                self.activity = TurnActivity::default();
                self.spending = spending.clone();
            }
            EventKind::Spent { spending } => self.spending = spending.clone(),
            EventKind::Replied {
                usage, cost, model, ..
            } => {
                self.ledger.add(&line(model), *usage, *cost);
                self.activity.usage += *usage;
                self.activity.phase = TurnPhase::Waiting;
                self.context = usage.total();
            }
            EventKind::Compacted {
                usage, cost, model, ..
            } => {
                self.ledger.add(&line(model), *usage, *cost);
                // Only the summary is left in the context.
                self.context = usage.output_tokens;
            }
            EventKind::Background { jobs } => {
                self.background = jobs.iter().filter(|job| job.ending.is_none()).count();
            }
            EventKind::RequestStarted { .. } => self.activity.phase = TurnPhase::Waiting,
            EventKind::ThinkingDelta { .. } => self.activity.phase = TurnPhase::Thinking,
            EventKind::TextDelta { .. } => self.activity.phase = TurnPhase::Writing,
            EventKind::InputDelta { name, .. } => {
                self.activity.phase = TurnPhase::Calling(line(name))
            }
            EventKind::Retrying {
                wait_ms, reason, ..
            } => {
                self.activity.phase = TurnPhase::Retrying {
                    until: now.saturating_add(Duration::from_millis(*wait_ms)),
                    reason: line(reason),
                };
            }
            EventKind::ToolStarted { call, summary, .. } => {
                self.activity.start_call(call, &summary.to_string());
            }
            EventKind::ToolEnded { call, .. } => self.activity.end_call(call),
            EventKind::ToolOutput { .. }
            | EventKind::Noted { .. }
            | EventKind::CheckpointMade { .. }
            | EventKind::Asked { .. }
            | EventKind::Decided { .. }
            | EventKind::Files { .. }
            | EventKind::Differs { .. }
            | EventKind::CommandRefused { .. }
            | EventKind::Undone { .. }
            | EventKind::Redone { .. } => {}
        }
    }
}

/// One line without control sequences.
pub(super) fn line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

fn clean_info(info: &SandboxInfo) -> SandboxInfo {
    let limits = info.limits.iter();
    SandboxInfo {
        reason: line(&info.reason),
        walls: single_lines(&info.walls),
        network: single_lines(&info.network),
        limits: limits
            .map(|(name, value)| (line(name), line(value)))
            .collect(),
        ..*info
    }
}

fn single_lines(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| line(text)).collect()
}
