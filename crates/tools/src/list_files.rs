//! `list_files`: a folder as a tree, without ignored files.

use protocol::{CallKind, CallSummary, ShownInput, ShownOutput};
use sandbox::request::{ByteString, ListEntry, ListRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::display::{self, to_tool_error};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::tree::render_tree;
use crate::typed::TypedTool;

const DEFAULT_DEPTH: u32 = 3;

/// Maximum number of entries shown.
const MAX_SHOWN_ENTRIES: usize = 500;

/// Maximum number of entries scanned, to report how many are not shown.
const MAX_SCANNED_ENTRIES: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct ListFilesTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A folder, /workspace by default.
    path: Option<String>,
    /// Levels, 3 by default.
    depth: Option<u32>,
    /// Include .git and ignored files.
    all: Option<bool>,
}

impl TypedTool for ListFilesTool {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Shows a folder as a tree with sizes. Includes hidden \
        files, but not .git and what .gitignore excludes.";
    const ACCESS: ToolAccess = ToolAccess::Reads;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let path = display::path(arguments.path.as_deref().unwrap_or("."));
        CallSummary::new(CallKind::List, "list", &path)
            .show_input(ShownInput::Nothing)
            .show_output(ShownOutput::Nothing)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let path = arguments.path.as_deref().unwrap_or(".");
        let all = arguments.all.unwrap_or(false);
        let request = ListRequest {
            path: ByteString::from(path),
            depth: arguments.depth.unwrap_or(DEFAULT_DEPTH).max(1),
            ignore: !all,
            hidden: true,
            globs: Vec::new(),
            limit: MAX_SCANNED_ENTRIES,
        };
        let (entries, is_cut) = collect_entries(context, request).await?;
        let mut text = render_tree(&entries, MAX_SHOWN_ENTRIES);
        if entries.is_empty() {
            let all = if all {
                ""
            } else {
                ", apart from ignored files"
            };
            text = format!("`{}` is empty{all}\n", display::path(path));
        }
        if is_cut {
            text.push_str(&format!(
                "[only the first {MAX_SCANNED_ENTRIES} entries were looked at]\n"
            ));
        }
        Ok(ToolOutput::text(text))
    }
}

/// All entries, and whether the list is truncated.
pub(crate) async fn collect_entries(
    context: ToolContext<'_>,
    request: ListRequest,
) -> Result<(Vec<ListEntry>, bool), ToolError> {
    let batches = context.sandbox.list(request).await.map_err(to_tool_error)?;
    batches.collect().await.map_err(to_tool_error)
}
