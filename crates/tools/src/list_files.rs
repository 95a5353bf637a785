//! `list_files`: a folder as a tree, without what its ignore files name.

use sandbox::request::{Entry, List, Raw};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::shown::{self, failure};
use crate::tool::{Access, Context, ToolError, ToolOutput};
use crate::tree::draw;
use crate::typed::Typed;

const DEPTH: u32 = 3;

/// Entries that are shown.
const SHOWN: usize = 500;

/// Entries that are looked at, so that it can be said how many are not shown.
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
    /// Also what .gitignore names, and .git.
    all: Option<bool>,
}

impl Typed for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Shows a folder as a tree with sizes. Hidden files are \
        shown; .git and what .gitignore names are not.";
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
                ", except perhaps what is ignored"
            };
            text = format!("`{}` is empty{all}\n", shown::path(path));
        }
        if is_cut {
            text.push_str(&format!("[only the first {SEEN} entries were looked at]\n"));
        }
        Ok(ToolOutput::text(text))
    }
}

/// All entries, and whether there are more.
pub(crate) async fn collect(
    context: Context<'_>,
    request: List,
) -> Result<(Vec<Entry>, bool), ToolError> {
    let batches = context.sandbox.list(request).await.map_err(failure)?;
    batches.collect().await.map_err(failure)
}
