//! `bash_job`: polls, writes to or kills a command that runs in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::{CallKind, CallSummary, ShownInput, ShownOutput};
use sandbox::SandboxError;
use sandbox::request::{RefusalKind, ShellProgress};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bash::{MAX_WAIT_SECONDS, report};
use crate::bounded::BoundedOutput;
use crate::display::to_tool_error;
use crate::shells::{ShellJob, ShellRegistry};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

/// Default seconds to wait for the end of a job, and for its output after a write.
const DEFAULT_POLL_SECONDS: u64 = 5;
const DEFAULT_WRITE_WAIT_SECONDS: u64 = 1;

/// How long a command may take to read its input, and to exit after a signal.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Poll interval for processes that a command left behind, whose exit is not reported.
const KILL_POLL_INTERVAL: Duration = Duration::from_millis(50);

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

#[derive(Debug)]
pub(crate) struct BashJobTool {
    pub(crate) shells: Arc<ShellRegistry>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    job: u32,
    action: BashJobAction,
    /// Text to write, newline included.
    text: Option<String>,
    /// Close standard input, after `text`.
    end: Option<bool>,
    /// Seconds to wait for the end: 5 by default, 1 after a write.
    wait: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BashJobAction {
    Poll,
    Write,
    Kill,
}

impl TypedTool for BashJobTool {
    const NAME: &'static str = "bash_job";
    const DESCRIPTION: &'static str = "A background job of `bash`. Every action returns the new \
        output.";
    const ACCESS: ToolAccess = ToolAccess::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let Arguments { job, text, .. } = arguments;
        let (verb, subject) = match arguments.action {
            BashJobAction::Poll => ("look at", format!("job {job}")),
            BashJobAction::Write => {
                let text = text.as_deref().unwrap_or_default();
                ("write to", format!("job {job}: {text}"))
            }
            BashJobAction::Kill => ("kill", format!("job {job}")),
        };
        CallSummary::new(CallKind::Command, verb, &subject)
            .show_input(ShownInput::Nothing)
            .show_output(ShownOutput::Command)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let number = arguments.job;
        let job = self
            .shells
            .job(context.sandbox, number)
            .unwrap_or(ShellJob {
                started: Instant::now(),
                memory_kills: context.sandbox.memory_kills().await,
            });
        let mut call = JobCall {
            number,
            context,
            printed: BoundedOutput::default(),
        };
        let seconds =
            |default| Duration::from_secs(arguments.wait.unwrap_or(default).min(MAX_WAIT_SECONDS));
        let outcome = match arguments.action {
            BashJobAction::Poll => call.poll(seconds(DEFAULT_POLL_SECONDS)).await,
            BashJobAction::Write => {
                let text = arguments.text.unwrap_or_default();
                let is_last = arguments.end.unwrap_or(false);
                match call.write(text, is_last).await {
                    Ok(()) => call.poll(seconds(DEFAULT_WRITE_WAIT_SECONDS)).await,
                    Err(error) => Err(error),
                }
            }
            BashJobAction::Kill => call.kill().await,
        };
        let progress = outcome.map_err(|error| self.explain(error, number, context))?;
        self.shells.record_progress(context.sandbox, &progress, job);
        let mut report = report(call.printed, &progress, job, context).await;
        if arguments.action == BashJobAction::Kill {
            // A job that was killed has ended as it was asked to.
            report.output.is_error = false;
        }
        Ok(report.into_output())
    }
}

impl BashJobTool {
    fn explain(&self, error: JobCallError, number: u32, context: ToolContext<'_>) -> ToolError {
        match error {
            JobCallError::Sandbox(SandboxError::Refused(refusal))
                if refusal.kind == RefusalKind::NotFound =>
            {
                self.shells.forget(context.sandbox, number);
                let jobs = self.shells.jobs(context.sandbox);
                let jobs: Vec<String> = jobs.iter().map(u32::to_string).collect();
                ToolError::Refused(if jobs.is_empty() {
                    format!("there is no job {number}, nor any other")
                } else {
                    format!("there is no job {number}; jobs: {}", jobs.join(", "))
                })
            }
            JobCallError::Sandbox(error) => to_tool_error(error),
            JobCallError::InputFull => ToolError::Refused(format!(
                "job {number} does not read its standard input; a part may have been written"
            )),
        }
    }
}

enum JobCallError {
    Sandbox(SandboxError),
    /// The job's standard input is full and is not being read.
    InputFull,
}

impl From<SandboxError> for JobCallError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

/// One tool call, and the output that arrived during it.
struct JobCall<'a> {
    number: u32,
    context: ToolContext<'a>,
    printed: BoundedOutput,
}

impl JobCall<'_> {
    async fn poll(&mut self, wait: Duration) -> Result<ShellProgress, JobCallError> {
        let context = self.context;
        let mut print = |bytes: Bytes, is_error| {
            (context.print)(&bytes, is_error);
            self.printed.push(&bytes, is_error);
        };
        let (job, sandbox) = (self.number, context.sandbox);
        tokio::select! {
            progress = sandbox.poll(job, wait, &mut print) => return Ok(progress?),
            () = context.cancel.cancelled() => {}
        }
        // A cancelled call returns at once; the job keeps running.
        Ok(sandbox.poll(job, Duration::ZERO, print).await?)
    }

    async fn write(&mut self, text: String, is_last: bool) -> Result<(), JobCallError> {
        let feed = self.context.sandbox.feed(self.number, text.into(), is_last);
        tokio::select! {
            outcome = feed => Ok(outcome?),
            () = tokio::time::sleep(RESPONSE_TIMEOUT) => Err(JobCallError::InputFull),
            () = self.context.cancel.cancelled() => Ok(()),
        }
    }

    /// Sends SIGTERM, and SIGKILL to the whole process group if that is not enough.
    async fn kill(&mut self) -> Result<ShellProgress, JobCallError> {
        for signal in [SIGTERM, SIGKILL] {
            self.context.sandbox.kill(self.number, signal).await?;
            let deadline = Instant::now() + RESPONSE_TIMEOUT;
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let progress = self.poll(left).await?;
                let has_ended = progress.exit.is_some() && !progress.output_open;
                let is_last = signal == SIGKILL && progress.exit.is_some();
                let is_timed_out = left.is_zero() || self.context.cancel.is_cancelled();
                if has_ended || (is_last && is_timed_out) {
                    return Ok(progress);
                }
                if is_timed_out {
                    break;
                }
                tokio::time::sleep(KILL_POLL_INTERVAL).await;
            }
        }
        self.poll(Duration::ZERO).await
    }
}
