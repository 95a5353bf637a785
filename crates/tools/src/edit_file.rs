//! `edit_file`: exact replacements in a text file, all of them or none.

use protocol::Change;
use sandbox::Sandbox;
use sandbox::request::WriteMode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::{Content, START, content_of};
use crate::diff;
use crate::edits::{Edit, apply};
use crate::shown::{self, change_failure, failure};
use crate::tool::{Access, Context, ToolError, ToolOutput};
use crate::typed::Typed;

const LARGEST: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct EditFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: String,
    /// Applied in this order, all or none.
    edits: Vec<Edit>,
}

impl Typed for EditFile {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str =
        "Replaces exact text in a file. Line numbers of `read_file` are not part of the text.";
    const ACCESS: Access = Access::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> String {
        format!("edit {}", shown::path(&arguments.path))
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { path, edits } = arguments;
        let sandbox = context.sandbox;
        let refuse = |why: &str| {
            let path = shown::path(&path);
            ToolError::Refused(format!("cannot edit `{path}`: {why}"))
        };
        let before = read_whole(sandbox, &path).await?;
        let start = &before[..before.len().min(START)];
        if content_of(start) != Content::Text && !start.is_empty() {
            return Err(refuse("it is not text"));
        }
        let Ok(old) = std::str::from_utf8(&before) else {
            return Err(refuse("it is not UTF-8 text"));
        };
        let new = apply(old, &edits).map_err(|why| refuse(&why))?;
        let shown = diff::unified(old, &new, diff::FOR_THE_MODEL);
        let diff = diff::unified(old, &new, diff::FOR_PEOPLE);
        // The file is not locked. Reading it again here keeps the window for a lost update small.
        if read_whole(sandbox, &path).await? != before {
            return Err(refuse("it changed meanwhile; read it again"));
        }
        let write = sandbox.write_file(&path, new, WriteMode::Replace);
        write.await.map_err(change_failure)?;
        let text = format!(
            "edited `{}`\n{}",
            shown::path(&path),
            shown.unwrap_or_default()
        );
        Ok(ToolOutput {
            changes: vec![Change {
                path: path.clone(),
                diff,
            }],
            ..ToolOutput::text(text)
        })
    }
}

async fn read_whole(sandbox: &Sandbox, path: &str) -> Result<Vec<u8>, ToolError> {
    let read = sandbox.read_file(path, 0, Some(LARGEST + 1)).await;
    let (_, content) = read.map_err(failure)?;
    if content.len() as u64 > LARGEST {
        return Err(ToolError::Refused(format!(
            "cannot edit `{}`: it is larger than {}",
            shown::path(path),
            shown::size(LARGEST)
        )));
    }
    Ok(content)
}
