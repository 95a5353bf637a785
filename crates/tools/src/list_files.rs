//! `list_files`: a folder as a tree, without ignored files.

use sandbox::request::{Entry, List, Raw};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::shown::{self, failure};
use crate::tool::{Access, Context, ToolError, ToolOutput};
use crate::tree::draw;
use crate::typed::Typed;

const DEPTH: u32 = 3;

/// Maximum number of entries shown.
const SHOWN: usize = 500;

/// Maximum number of entries scanned, to report how many are not shown.
const SEEN: u64 = 20_000;

#[derive(Debug)]
pub(crate) struct ListFiles;

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

impl Typed for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Shows a folder as a tree with sizes. Includes hidden \
        files, but not .git and what .gitignore excludes.";
    const ACCESS: Access = Access::Reads;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> String {
        format!(
            "list {}",
            shown::path(arguments.path.as_deref().unwrap_or("."))
        )
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let path = arguments.path.as_deref().unwrap_or(".");
        let all = arguments.all.unwrap_or(false);
        let request = List {
            path: Raw::from(path),
            depth: arguments.depth.unwrap_or(DEPTH).max(1),
            ignore: !all,
            hidden: true,
            globs: Vec::new(),
            limit: SEEN,
        };
        let (entries, is_cut) = collect(context, request).await?;
        let mut text = draw(&entries, SHOWN);
        if entries.is_empty() {
            let all = if all {
                ""
            } else {
                ", apart from ignored files"
            };
            text = format!("`{}` is empty{all}\n", shown::path(path));
        }
        if is_cut {
            text.push_str(&format!("[only the first {SEEN} entries were looked at]\n"));
        }
        Ok(ToolOutput::text(text))
    }
}

/// All entries, and whether the list is truncated.
pub(crate) async fn collect(
    context: Context<'_>,
    request: List,
) -> Result<(Vec<Entry>, bool), ToolError> {
    let batches = context.sandbox.list(request).await.map_err(failure)?;
    batches.collect().await.map_err(failure)
}
