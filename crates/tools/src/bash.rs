//! `bash`: runs a command in the sandbox's only shell session, which keeps its folder and
//! variables.
//!
//! A command that exceeds its wait continues in the background as a job. Cancelling the call kills
//! the command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::{CallKind, CallSummary, ShownInput, ShownOutput};
use sandbox::Sandbox;
use sandbox::request::ShellProgress;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bounded::BoundedOutput;
use crate::display::{name, to_tool_error};
use crate::ending::{describe, describe_status, exceeded_limit, isolation_note};
use crate::shells::{ShellJob, ShellRegistry};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

/// A command up to this length is seen whole in its summary.
const MAX_WHOLE_COMMAND_BYTES: usize = 60;

/// Name of the shell session.
const SESSION_NAME: &str = "main";

const DEFAULT_WAIT_SECONDS: u64 = 120;
pub(crate) const MAX_WAIT_SECONDS: u64 = 600;

/// How long to wait for a background command: enough to see it fail immediately.
const BACKGROUND_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct BashTool {
    pub(crate) shells: Arc<ShellRegistry>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    command: String,
    /// Seconds to wait, 120 by default, at most 600; then it continues as a job.
    timeout: Option<u64>,
    /// Do not wait, e.g. for servers.
    background: Option<bool>,
}

impl TypedTool for BashTool {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Runs a command in a persistent bash session in the \
        sandbox: folder and variables persist. `bash_job` writes to its standard input.";
    const ACCESS: ToolAccess = ToolAccess::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let command = &arguments.command;
        // Nothing of a short command is lost in one line.
        let is_whole = command.len() <= MAX_WHOLE_COMMAND_BYTES
            && !command.trim_end().contains('\n')
            && arguments.timeout.is_none()
            && arguments.background.is_none();
        CallSummary::new(CallKind::Command, "$", command)
            .show_input(if is_whole {
                ShownInput::Nothing
            } else {
                ShownInput::Argument {
                    name: "command".to_owned(),
                    language: "bash".to_owned(),
                }
            })
            .show_output(ShownOutput::Command)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let sandbox = context.sandbox;
        let wait = match arguments.background {
            Some(true) => BACKGROUND_WAIT,
            _ => Duration::from_secs(
                arguments
                    .timeout
                    .unwrap_or(DEFAULT_WAIT_SECONDS)
                    .min(MAX_WAIT_SECONDS),
            ),
        };
        let job = ShellJob {
            started: Instant::now(),
            memory_kills: sandbox.memory_kills().await,
        };
        let mut printed = BoundedOutput::default();
        let print = |bytes: bytes::Bytes, is_error| {
            (context.print)(&bytes, is_error);
            printed.push(&bytes, is_error);
        };
        let progress = tokio::select! {
            progress = sandbox.shell(SESSION_NAME, &arguments.command, wait, print) => {
                Some(progress.map_err(to_tool_error)?)
            }
            // Dropping the future of `shell` kills the command.
            () = context.cancel.cancelled() => None,
        };
        let Some(progress) = progress else {
            return report_interrupted(printed, context).await;
        };
        self.shells.record_progress(sandbox, &progress, job);
        if progress.exit.is_none() || progress.output_open {
            (context.background)(progress.job, &arguments.command);
        }
        let mut result = report(printed, &progress, job, context).await;
        if let Some(cwd) = &progress.cwd
            && self.shells.update_cwd(sandbox, cwd)
        {
            let cwd = name(cwd);
            result.notes.push(format!("[the folder is now {cwd}]"));
        }
        Ok(result.into_output())
    }
}

async fn report_interrupted(
    printed: BoundedOutput,
    context: ToolContext<'_>,
) -> Result<ToolOutput, ToolError> {
    let (text, kept) = printed.render(context.outputs).await;
    let result = CommandReport {
        text,
        notes: Vec::new(),
        state: "interrupted: the command was ended".to_owned(),
        output: ToolOutput {
            is_error: true,
            kept,
            detail: "interrupted".to_owned(),
            ..ToolOutput::default()
        },
    };
    Ok(result.into_output())
}

/// A result under construction: the output, then notes, then the state as the last line.
pub(crate) struct CommandReport {
    pub(crate) text: String,
    pub(crate) notes: Vec<String>,
    pub(crate) state: String,
    pub(crate) output: ToolOutput,
}

impl CommandReport {
    pub(crate) fn into_output(self) -> ToolOutput {
        let mut text = self.text;
        for line in self.notes.iter().chain([&self.state]) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(line);
        }
        ToolOutput {
            content: ToolOutput::text(text).content,
            ..self.output
        }
    }
}

/// Describes the progress of a command for the model.
pub(crate) async fn report(
    printed: BoundedOutput,
    progress: &ShellProgress,
    job: ShellJob,
    context: ToolContext<'_>,
) -> CommandReport {
    let sandbox: &Sandbox = context.sandbox;
    let (text, kept) = printed.render(context.outputs).await;
    let mut notes = Vec::new();
    if progress.dropped > 0 {
        notes.push(format!(
            "[{} bytes of older output were dropped: they were not polled in time]",
            progress.dropped
        ));
    }
    let number = progress.job;
    let seconds = job.started.elapsed().as_secs();
    let mut is_error = false;
    let mut detail = String::new();
    let state = match &progress.exit {
        None => {
            detail = format!("goes on as job {number}");
            format!(
                "running in the background as job {number} for {seconds} s: `bash_job` polls it, \
                 writes to it or kills it"
            )
        }
        Some(exit) => {
            let kills = match exit.status {
                sandbox::request::CommandStatus::Code(0) => 0,
                _ => sandbox
                    .memory_kills()
                    .await
                    .saturating_sub(job.memory_kills),
            };
            is_error = exit.status != sandbox::request::CommandStatus::Code(0);
            if is_error {
                detail = describe_status(exit.status);
                notes.extend(isolation_note(&text, sandbox.network()));
            }
            if progress.output_open {
                notes.push(format!(
                    "[what it started still runs, as job {number}: `bash_job` polls or kills it]"
                ));
            }
            describe(exit, exceeded_limit(exit, kills), sandbox)
        }
    };
    CommandReport {
        text,
        notes,
        state,
        output: ToolOutput {
            is_error,
            kept,
            detail,
            job: progress.exit.is_none().then_some(number),
            ..ToolOutput::default()
        },
    }
}
