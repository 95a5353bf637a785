//! `bash_job`: polls, writes to or kills a command that runs in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sandbox::SandboxError;
use sandbox::request::{Progress, RefusalKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bash::{LONGEST_WAIT, report};
use crate::bounded::Bounded;
use crate::shells::{Job, Shells};
use crate::shown::failure;
use crate::tool::{Access, Context, ToolError, ToolOutput};
use crate::typed::Typed;

/// Default seconds to wait for the end of a job, and for its output after a write.
const POLL: u64 = 5;
const ANSWER: u64 = 1;

/// How long a command may take to read its input, and to exit after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// Poll interval for processes that a command left behind, whose exit is not reported.
const PAUSE: Duration = Duration::from_millis(50);

const TERMINATE: i32 = 15;
const KILL: i32 = 9;

#[derive(Debug)]
pub(crate) struct BashJob {
    pub(crate) shells: Arc<Shells>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    job: u32,
    action: Action,
    /// Text to write, newline included.
    text: Option<String>,
    /// Close standard input, after `text`.
    end: Option<bool>,
    /// Seconds to wait for the end: 5 by default, 1 after a write.
    wait: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Poll,
    Write,
    Kill,
}

impl Typed for BashJob {
    const NAME: &'static str = "bash_job";
    const DESCRIPTION: &'static str = "A background job of `bash`. Every action returns the new \
        output.";
    const ACCESS: Access = Access::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> String {
        let Arguments { job, text, .. } = arguments;
        match arguments.action {
            Action::Poll => format!("look at job {job}"),
            Action::Write => format!(
                "write to job {job}: {}",
                text.as_deref().unwrap_or_default()
            ),
            Action::Kill => format!("kill job {job}"),
        }
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let number = arguments.job;
        let job = self.shells.job(context.sandbox, number).unwrap_or(Job {
            started: Instant::now(),
            memory_kills: context.sandbox.memory_kills().await,
        });
        let mut look = Look {
            number,
            context,
            printed: Bounded::default(),
        };
        let seconds =
            |default| Duration::from_secs(arguments.wait.unwrap_or(default).min(LONGEST_WAIT));
        let outcome = match arguments.action {
            Action::Poll => look.poll(seconds(POLL)).await,
            Action::Write => {
                let text = arguments.text.unwrap_or_default();
                let is_last = arguments.end.unwrap_or(false);
                match look.write(text, is_last).await {
                    Ok(()) => look.poll(seconds(ANSWER)).await,
                    Err(error) => Err(error),
                }
            }
            Action::Kill => look.kill().await,
        };
        let progress = outcome.map_err(|error| self.explain(error, number, context))?;
        self.shells.note(context.sandbox, &progress, job);
        let report = report(look.printed, &progress, job, context).await;
        Ok(report.into_output())
    }
}

impl BashJob {
    fn explain(&self, error: Failure, number: u32, context: Context<'_>) -> ToolError {
        match error {
            Failure::Sandbox(SandboxError::Refused(refusal))
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
            Failure::Sandbox(error) => failure(error),
            Failure::Deaf => ToolError::Refused(format!(
                "job {number} does not read its standard input; a part may have been written"
            )),
        }
    }
}

enum Failure {
    Sandbox(SandboxError),
    /// The job's standard input is full and is not being read.
    Deaf,
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

/// One tool call, and the output that arrived during it.
struct Look<'a> {
    number: u32,
    context: Context<'a>,
    printed: Bounded,
}

impl Look<'_> {
    async fn poll(&mut self, wait: Duration) -> Result<Progress, Failure> {
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

    async fn write(&mut self, text: String, is_last: bool) -> Result<(), Failure> {
        let feed = self.context.sandbox.feed(self.number, text.into(), is_last);
        tokio::select! {
            outcome = feed => Ok(outcome?),
            () = tokio::time::sleep(PATIENCE) => Err(Failure::Deaf),
            () = self.context.cancel.cancelled() => Ok(()),
        }
    }

    /// Sends SIGTERM, and SIGKILL to the whole process group if that is not enough.
    async fn kill(&mut self) -> Result<Progress, Failure> {
        for signal in [TERMINATE, KILL] {
            self.context.sandbox.kill(self.number, signal).await?;
            let patience = Instant::now() + PATIENCE;
            loop {
                let left = patience.saturating_duration_since(Instant::now());
                let progress = self.poll(left).await?;
                let is_over = progress.exit.is_some() && !progress.output_open;
                let is_last = signal == KILL && progress.exit.is_some();
                let is_time = left.is_zero() || self.context.cancel.is_cancelled();
                if is_over || (is_last && is_time) {
                    return Ok(progress);
                }
                if is_time {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        self.poll(Duration::ZERO).await
    }
}
