//! `search_files`: lines that match a pattern, or files that match a glob.

use std::fmt::Write;

use protocol::{CallKind, CallSummary, ShownOutput};
use sandbox::request::{ByteString, ListRequest, SearchMatch, SearchRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::display::{self, count, name, to_tool_error};
use crate::list_files::collect_entries;
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

const DEFAULT_MATCHES: u64 = 100;
const MAX_MATCHES: u64 = 1000;
const MAX_CONTEXT_LINES: u32 = 20;
const DEFAULT_FILES: u64 = 500;

/// Longer lines are cut to this many bytes.
const MAX_LINE_BYTES: usize = 300;

/// Maximum size of a result, in bytes.
const MAX_RESULT_BYTES: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct SearchFilesTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Regular expression (Rust syntax) for a line. Without it, `glob` lists files.
    pattern: Option<String>,
    /// Folder or file, /workspace by default.
    path: Option<String>,
    /// Such as `*.rs`; a leading `!` excludes files.
    glob: Option<Vec<String>>,
    /// Lines around each match.
    context: Option<u32>,
    case_insensitive: Option<bool>,
    /// Include .git and ignored files.
    all: Option<bool>,
    /// Maximum matches, 100 by default.
    limit: Option<u64>,
}

impl TypedTool for SearchFilesTool {
    const NAME: &'static str = "search_files";
    const DESCRIPTION: &'static str = "Searches the lines of text files, or finds files by name.";
    const ACCESS: ToolAccess = ToolAccess::Reads;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let globs = arguments.glob.as_deref().unwrap_or_default().join(" ");
        let what = arguments.pattern.as_deref().unwrap_or(&globs);
        let subject = match &arguments.path {
            Some(path) => format!("{what} in {}", display::path(path)),
            None => what.to_owned(),
        };
        CallSummary::new(CallKind::Search, "search", &subject).show_output(ShownOutput::Nothing)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let has_globs = arguments
            .glob
            .as_ref()
            .is_some_and(|globs| !globs.is_empty());
        match &arguments.pattern {
            Some(pattern) if !pattern.is_empty() => {
                search_lines(pattern, &arguments, context).await
            }
            _ if has_globs => find_files(arguments, context).await,
            _ => Err(ToolError::Arguments {
                tool: Self::NAME.to_owned(),
                why: "missing field `pattern`: expected that or `glob`".to_owned(),
            }),
        }
    }
}

async fn search_lines(
    pattern: &str,
    arguments: &Arguments,
    context: ToolContext<'_>,
) -> Result<ToolOutput, ToolError> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let all = arguments.all.unwrap_or(false);
    let request = SearchRequest {
        path: ByteString::from(path),
        pattern: pattern.to_owned(),
        case_insensitive: arguments.case_insensitive.unwrap_or(false),
        globs: arguments.glob.clone().unwrap_or_default(),
        ignore: !all,
        hidden: true,
        context: arguments.context.unwrap_or(0).min(MAX_CONTEXT_LINES),
        limit: arguments
            .limit
            .unwrap_or(DEFAULT_MATCHES)
            .clamp(1, MAX_MATCHES),
    };
    let mut found = MatchListing::new(path, request.context > 0);
    let mut batches = context
        .sandbox
        .search(request)
        .await
        .map_err(to_tool_error)?;
    'all: while let Some(batch) = batches.next().await.map_err(to_tool_error)? {
        for one in &batch {
            if !found.push(one) {
                break 'all;
            }
        }
    }
    let is_cut = found.is_cut || batches.is_truncated();
    if found.matches == 0 {
        let ignored = if all {
            ""
        } else {
            "; ignored files were not searched, `all` includes them"
        };
        let text = format!("no line matches `{pattern}`{ignored}");
        return Ok(ToolOutput::text(text));
    }
    let mut text = found.text;
    if is_cut {
        let shown = count(found.matches, "match", "matches");
        let _ = writeln!(text, "[{shown} shown, there are more: narrow the search]");
    }
    Ok(ToolOutput::text(text))
}

async fn find_files(
    arguments: Arguments,
    context: ToolContext<'_>,
) -> Result<ToolOutput, ToolError> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let all = arguments.all.unwrap_or(false);
    let request = ListRequest {
        path: ByteString::from(path),
        depth: u32::MAX,
        ignore: !all,
        hidden: true,
        globs: arguments.glob.unwrap_or_default(),
        limit: arguments
            .limit
            .unwrap_or(DEFAULT_FILES)
            .clamp(1, MAX_MATCHES),
    };
    let (entries, mut is_cut) = collect_entries(context, request).await?;
    let mut text = String::new();
    for (at, entry) in entries.iter().enumerate() {
        if text.len() > MAX_RESULT_BYTES {
            is_cut = true;
            let _ = writeln!(
                text,
                "[{} not shown]",
                count((entries.len() - at) as u64, "file", "files")
            );
            break;
        }
        let _ = writeln!(text, "{}", name(&join_root(path, &entry.path)));
    }
    if entries.is_empty() {
        let ignored = if all {
            ""
        } else {
            "; ignored files were left out, `all` includes them"
        };
        text = format!("no file matches{ignored}");
    } else if is_cut {
        text.push_str("[there are more: narrow the glob]\n");
    }
    Ok(ToolOutput::text(text))
}

/// Matches grouped by file, as text of bounded length.
struct MatchListing<'a> {
    root: &'a str,
    has_context: bool,
    text: String,
    file: Option<ByteString>,
    last_line: u64,
    matches: u64,
    is_cut: bool,
}

impl<'a> MatchListing<'a> {
    fn new(root: &'a str, has_context: bool) -> Self {
        Self {
            root,
            has_context,
            text: String::new(),
            file: None,
            last_line: 0,
            matches: 0,
            is_cut: false,
        }
    }

    /// Returns whether there is room for more.
    fn push(&mut self, one: &SearchMatch) -> bool {
        if self.text.len() > MAX_RESULT_BYTES {
            self.is_cut = true;
            return false;
        }
        if self.file.as_ref() != Some(&one.path) {
            let blank = if self.file.is_some() { "\n" } else { "" };
            let _ = writeln!(
                self.text,
                "{blank}{}",
                name(&join_root(self.root, &one.path))
            );
            self.file = Some(one.path.clone());
            self.last_line = one.line.saturating_sub(1);
        } else if self.has_context && self.last_line + 1 != one.line {
            self.text.push_str("--\n");
        }
        self.last_line = one.line;
        self.matches += u64::from(!one.is_context);
        let mark = if one.is_context { '-' } else { ':' };
        let line = String::from_utf8_lossy(&one.text.0);
        let end = line.floor_char_boundary(MAX_LINE_BYTES);
        let more = if end < line.len() { "…" } else { "" };
        let _ = writeln!(self.text, "{}{mark}{}{more}", one.line, &line[..end]);
        true
    }
}

/// A path that `read_file` accepts.
fn join_root(root: &str, path: &ByteString) -> ByteString {
    match root {
        "." | "./" | "" => path.clone(),
        _ => ByteString::from(std::path::Path::new(root).join(path.as_path())),
    }
}
