//! `write_file`: creates or replaces a whole file atomically.

use protocol::{CallKind, CallSummary, Change, ShownInput, ShownOutput};
use sandbox::request::{RefusalKind, WriteMode};
use sandbox::{Sandbox, SandboxError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::is_text;
use crate::diff;
use crate::display::{self, count, to_tool_error, to_write_error};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

#[derive(Debug)]
pub(crate) struct WriteFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: String,
    content: String,
}

impl TypedTool for WriteFileTool {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Creates a file, with its parent folders, or replaces it whole.";
    const ACCESS: ToolAccess = ToolAccess::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let path = display::path(&arguments.path);
        CallSummary::new(CallKind::Write, "write", &path)
            .show_input(ShownInput::Argument {
                name: "content".to_owned(),
                language: path,
            })
            .show_output(ShownOutput::Diff)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { path, content } = arguments;
        let before = read_previous(context.sandbox, &path).await?;
        let lines = count(content.lines().count() as u64, "line", "lines");
        let size = count(content.len() as u64, "byte", "bytes");
        let diff = match &before {
            PreviousContent::Text(old) => diff::unified(old, &content, diff::MAX_USER_DIFF_BYTES),
            PreviousContent::Nothing => diff::unified("", &content, diff::MAX_USER_DIFF_BYTES),
            PreviousContent::Other => None,
        };
        let write = context
            .sandbox
            .write_file(&path, content, WriteMode::Replace);
        write.await.map_err(to_write_error)?;
        let done = match before {
            PreviousContent::Nothing => "created",
            _ => "replaced",
        };
        Ok(ToolOutput {
            detail: diff::count_changes(diff.as_deref()),
            changes: vec![Change {
                path: path.clone(),
                diff,
            }],
            ..ToolOutput::text(format!(
                "{done} `{}`: {lines}, {size}",
                display::path(&path)
            ))
        })
    }
}

/// The content of the file before the write.
enum PreviousContent {
    Nothing,
    Text(String),
    /// Too long to compare, or not text.
    Other,
}

async fn read_previous(sandbox: &Sandbox, path: &str) -> Result<PreviousContent, ToolError> {
    let most = diff::MAX_COMPARED_BYTES as u64;
    match sandbox.read_file(path, 0, Some(most)).await {
        Ok((metadata, content)) if metadata.size <= most && is_text(&content) => {
            Ok(String::from_utf8(content).map_or(PreviousContent::Other, PreviousContent::Text))
        }
        Ok(_) => Ok(PreviousContent::Other),
        Err(SandboxError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
            Ok(PreviousContent::Nothing)
        }
        // It cannot be read but may still be replaceable. If not, the write reports the error.
        Err(SandboxError::Refused(_)) => Ok(PreviousContent::Other),
        Err(error) => Err(to_tool_error(error)),
    }
}
