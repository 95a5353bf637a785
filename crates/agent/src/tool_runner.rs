//! Runs tool calls: those that only read run concurrently, those that change things one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use protocol::{BackgroundJob, Block, CallId, CallSummary, EventKind, ShownOutput};
use sandbox::{Sandbox, SandboxError};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::{OutputStore, PreparedCall, ToolAccess, ToolContext, ToolError, ToolOutput, ToolSet};

use crate::approval_broker::ApprovalBroker;
use crate::background::BackgroundWatcher;
use crate::event_log::EventSender;
use crate::live_output::LiveOutput;
use crate::outputs::StoredOutputs;
use crate::permission::{check_call, is_denial};
use crate::step::ToolCall;

/// How long a tool may take to return its partial result after it was told to stop.
const STOP_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct EndedCall {
    pub(crate) call: CallId,
    pub(crate) output: ToolOutput,
    pub(crate) millis: u64,
    /// Whether a rule or the user denied it, so that it was not run.
    pub(crate) denied: bool,
    pub(crate) summary: CallSummary,
    /// The sandbox failed while it ran.
    pub(crate) sandbox_error: Option<SandboxError>,
}

/// The tools of a session, and what their calls need.
#[derive(Debug)]
pub(crate) struct SessionTools {
    /// The tools of the current turn.
    pub(crate) set: ToolSet,
    pub(crate) latest: watch::Receiver<ToolSet>,
    pub(crate) outputs: StoredOutputs,
    pub(crate) background: BackgroundWatcher,
    pub(crate) broker: Arc<ApprovalBroker>,
}

impl SessionTools {
    /// Takes over the latest tools, before a turn.
    pub(crate) fn update(&mut self) -> &ToolSet {
        self.set = self.latest.borrow().clone();
        &self.set
    }

    pub(crate) fn runner<'a>(
        &'a self,
        sandbox: Arc<Sandbox>,
        sender: &'a EventSender,
        stop: &'a CancellationToken,
    ) -> ToolRunner<'a> {
        ToolRunner {
            tools: &self.set,
            sandbox,
            outputs: &self.outputs,
            sender,
            background: Some(&self.background),
            broker: Some(&self.broker),
            stop,
        }
    }
}

/// What calls are run with.
pub(crate) struct ToolRunner<'a> {
    pub(crate) tools: &'a ToolSet,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) outputs: &'a dyn OutputStore,
    pub(crate) sender: &'a EventSender,
    /// Watches background commands; `None` in a replay.
    pub(crate) background: Option<&'a BackgroundWatcher>,
    /// Applies the rules; `None` in a replay.
    pub(crate) broker: Option<&'a Arc<ApprovalBroker>>,
    pub(crate) stop: &'a CancellationToken,
}

/// Splits calls into batches that may run concurrently: adjacent calls that only read, or one other.
pub(crate) fn split_into_batches<'a>(
    tools: &ToolSet,
    calls: &'a [ToolCall],
) -> Vec<&'a [ToolCall]> {
    calls
        .chunk_by(|one, other| !changes(tools, one) && !changes(tools, other))
        .collect()
}

/// Whether a call may change anything.
pub(crate) fn changes(tools: &ToolSet, call: &ToolCall) -> bool {
    let tool = tools.find(&call.name).filter(|_| call.broken.is_none());
    tool.is_some_and(|tool| tool.access() == ToolAccess::Changes)
}

impl ToolRunner<'_> {
    /// Runs a batch. Yields calls as they end, in any order.
    pub(crate) fn run<'b>(
        &'b self,
        batch: &'b [ToolCall],
    ) -> impl futures_util::Stream<Item = EndedCall> + 'b {
        let running: FuturesUnordered<_> = batch.iter().map(|call| self.call(call)).collect();
        running.map(|ended| ended)
    }

    async fn call(&self, call: &ToolCall) -> EndedCall {
        let prepared = self.prepare(call);
        let summary = match &prepared {
            Ok(prepared) => prepared.summary(),
            Err(_) => CallSummary::generic(&call.name, &call.input),
        };
        let (permitted, denied) = match prepared {
            Ok(prepared) => match self.check_permission(call, prepared.arguments()).await {
                Ok(()) => (Ok(prepared), false),
                Err(why) => {
                    let denied = is_denial(&why);
                    (Err(ToolError::Refused(why)), denied)
                }
            },
            Err(error) => (Err(error), false),
        };
        // The time that a user takes to answer does not count as the call's.
        let started = Instant::now();
        let outcome = match permitted {
            Ok(prepared) => self.execute(call, prepared, &summary).await,
            Err(error) => Err(error),
        };
        // A text that is not the tool's own is shown as it is.
        let shown = outcome
            .as_ref()
            .map_or(ShownOutput::Text, |_| summary.output);
        let (output, sandbox_error) = match outcome {
            Ok(output) => (output, None),
            Err(ToolError::Broken(error)) => (ToolOutput::default(), Some(error)),
            Err(error) => (error_output(error.to_string()), None),
        };
        let detail = if denied { "denied" } else { &output.detail };
        EndedCall {
            call: call.id.clone(),
            summary: CallSummary {
                job: output.job,
                output: shown,
                ..summary.with_detail(detail)
            },
            output,
            millis: started.elapsed().as_millis() as u64,
            denied,
            sandbox_error,
        }
    }

    /// The call, ready to be run, or why it cannot be.
    fn prepare(&self, call: &ToolCall) -> Result<Box<dyn PreparedCall + '_>, ToolError> {
        if let Some(why) = &call.broken {
            return Err(ToolError::Refused(format!("Not run: {why}")));
        }
        let Some(tool) = self.tools.find(&call.name) else {
            let names: Vec<&str> = self.tools.names().collect();
            let text = format!(
                "there is no tool `{}`; there are {}",
                call.name,
                names.join(", ")
            );
            return Err(ToolError::Refused(text));
        };
        tool.prepare(&call.input)
    }

    /// Checks a call against the rules. A replay has none.
    async fn check_permission(&self, call: &ToolCall, arguments: &Value) -> Result<(), String> {
        match self.broker {
            Some(broker) => check_call(broker, &call.name, arguments, self.stop).await,
            None => Ok(()),
        }
    }

    async fn execute(
        &self,
        call: &ToolCall,
        prepared: Box<dyn PreparedCall + '_>,
        summary: &CallSummary,
    ) -> Result<ToolOutput, ToolError> {
        if self.stop.is_cancelled() {
            return Err(refused("Not run: the user interrupted the turn."));
        }
        self.sender
            .send(EventKind::ToolStarted {
                call: call.id.clone(),
                name: call.name.clone(),
                input: call.input.clone(),
                summary: Box::new(summary.clone()),
            })
            .await;
        let live = LiveOutput::new(self.sender, &call.id);
        let print = |bytes: &[u8], is_error: bool| live.print(bytes, is_error);
        let since = Timestamp::now();
        let background = |job: u32, command: &str| {
            if let Some(background) = self.background {
                background.watch(BackgroundJob {
                    job,
                    call: call.id.clone(),
                    command: command.to_owned(),
                    since,
                    tail: String::new(),
                    ending: None,
                });
            }
        };
        let context = ToolContext {
            sandbox: &self.sandbox,
            cancel: self.stop,
            print: &print,
            background: &background,
            outputs: self.outputs,
        };
        let stopped = async {
            self.stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE_PERIOD).await;
        };
        tokio::select! {
            biased;
            outcome = prepared.run(context) => outcome,
            () = stopped => Err(refused("Interrupted by the user before it ended.")),
            never = live.send_pending() => match never {},
        }
    }
}

fn refused(text: &str) -> ToolError {
    ToolError::Refused(text.to_owned())
}

pub(crate) fn error_output(text: impl Into<String>) -> ToolOutput {
    ToolOutput {
        content: vec![Block::text(text)],
        is_error: true,
        ..ToolOutput::default()
    }
}
