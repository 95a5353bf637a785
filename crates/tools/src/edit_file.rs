//! `edit_file`: exact replacements in a text file, all of them or none.

use protocol::{CallKind, CallSummary, Change, ShownOutput};
use sandbox::Sandbox;
use sandbox::request::WriteMode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::{FileContent, SNIFF_BYTES, content_of};
use crate::diff;
use crate::display::{self, to_tool_error, to_write_error};
use crate::edits::{Edit, apply_edits};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

const MAX_FILE_BYTES: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct EditFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: String,
    /// Applied in this order, all or none.
    edits: Vec<Edit>,
}

impl TypedTool for EditFileTool {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str =
        "Replaces exact text in a file. Line numbers of `read_file` are not part of the text.";
    const ACCESS: ToolAccess = ToolAccess::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        CallSummary::new(CallKind::Edit, "edit", &display::path(&arguments.path))
            .show_output(ShownOutput::Diff)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { path, edits } = arguments;
        let sandbox = context.sandbox;
        let refuse = |why: &str| {
            let path = display::path(&path);
            ToolError::Refused(format!("cannot edit `{path}`: {why}"))
        };
        let before = read_whole(sandbox, &path).await?;
        let start = &before[..before.len().min(SNIFF_BYTES)];
        if content_of(start) != FileContent::Text && !start.is_empty() {
            return Err(refuse("it is not text"));
        }
        let Ok(old) = std::str::from_utf8(&before) else {
            return Err(refuse("it is not UTF-8 text"));
        };
        let new = apply_edits(old, &edits).map_err(|why| refuse(&why))?;
        let shown = diff::unified(old, &new, diff::MAX_MODEL_DIFF_BYTES);
        let diff = diff::unified(old, &new, diff::MAX_USER_DIFF_BYTES);
        // The file is not locked. Reading it again here keeps the window for a lost update small.
        if read_whole(sandbox, &path).await? != before {
            return Err(refuse("it changed meanwhile; read it again"));
        }
        let write = sandbox.write_file(&path, new, WriteMode::Replace);
        write.await.map_err(to_write_error)?;
        let text = format!(
            "edited `{}`\n{}",
            display::path(&path),
            shown.unwrap_or_default()
        );
        Ok(ToolOutput {
            detail: diff::count_changes(diff.as_deref()),
            changes: vec![Change {
                path: path.clone(),
                diff,
            }],
            ..ToolOutput::text(text)
        })
    }
}

async fn read_whole(sandbox: &Sandbox, path: &str) -> Result<Vec<u8>, ToolError> {
    let read = sandbox.read_file(path, 0, Some(MAX_FILE_BYTES + 1)).await;
    let (_, content) = read.map_err(to_tool_error)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(ToolError::Refused(format!(
            "cannot edit `{}`: it is larger than {}",
            display::path(path),
            display::size(MAX_FILE_BYTES)
        )));
    }
    Ok(content)
}
