//! `write_file`: creates or replaces a whole file atomically.

use protocol::Change;
use sandbox::request::{RefusalKind, WriteMode};
use sandbox::{Sandbox, SandboxError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::is_text;
use crate::diff;
use crate::shown::{self, change_failure, count, failure};
use crate::tool::{Access, Context, ToolError, ToolOutput};
use crate::typed::Typed;

#[derive(Debug)]
pub(crate) struct WriteFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: String,
    content: String,
}

impl Typed for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Creates a file, with its parent folders, or replaces it whole.";
    const ACCESS: Access = Access::Changes;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> String {
        format!("write {}", shown::path(&arguments.path))
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { path, content } = arguments;
        let before = read_before(context.sandbox, &path).await?;
        let lines = count(content.lines().count() as u64, "line", "lines");
        let size = count(content.len() as u64, "byte", "bytes");
        let diff = match &before {
            Before::Text(old) => diff::unified(old, &content, diff::FOR_PEOPLE),
            Before::Nothing => diff::unified("", &content, diff::FOR_PEOPLE),
            Before::Other => None,
        };
        let write = context
            .sandbox
            .write_file(&path, content, WriteMode::Replace);
        write.await.map_err(change_failure)?;
        let done = match before {
            Before::Nothing => "created",
            _ => "replaced",
        };
        Ok(ToolOutput {
            changes: vec![Change {
                path: path.clone(),
                diff,
            }],
            ..ToolOutput::text(format!("{done} `{}`: {lines}, {size}", shown::path(&path)))
        })
    }
}

/// The content of the file before the write.
enum Before {
    Nothing,
    Text(String),
    /// Too long to compare, or not text.
    Other,
}

async fn read_before(sandbox: &Sandbox, path: &str) -> Result<Before, ToolError> {
    let most = diff::LONGEST as u64;
    match sandbox.read_file(path, 0, Some(most)).await {
        Ok((metadata, content)) if metadata.size <= most && is_text(&content) => {
            Ok(String::from_utf8(content).map_or(Before::Other, Before::Text))
        }
        Ok(_) => Ok(Before::Other),
        Err(SandboxError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
            Ok(Before::Nothing)
        }
        // It cannot be read but may still be replaceable. If not, the write reports the error.
        Err(SandboxError::Refused(_)) => Ok(Before::Other),
        Err(error) => Err(failure(error)),
    }
}
