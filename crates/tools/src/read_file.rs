//! `read_file`: a page of a text file or of stored output, an image, or the type of another file.
//!
//! Streams the file: only the page is held in memory.

use base64::Engine;
use protocol::{Block, CallKind, CallSummary, Image, ShownInput, ShownOutput};
use sandbox::request::{ByteString, ListRequest, RefusalKind};
use sandbox::{FileReader, Sandbox, SandboxError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::{FileContent, SNIFF_BYTES, content_of, hex};
use crate::display::{self, to_tool_error};
use crate::page::{FinishedPage, LinePage};
use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

const DEFAULT_LINES: u64 = 2000;

/// The largest image that models accept, before encoding.
const MAX_IMAGE_BYTES: u64 = 3_750_000;

/// Lines are counted to the end of the file if no more than this remains.
const MAX_COUNTED_BYTES: u64 = 32 << 20;

/// Prefix of the handles of stored output.
const STORED_OUTPUT_PREFIX: &str = "output:";

#[derive(Debug)]
pub(crate) struct ReadFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A file, or `output:N` for stored output.
    path: String,
    /// First line, from 1 on.
    offset: Option<u64>,
    /// Number of lines, 2000 by default.
    limit: Option<u64>,
}

impl TypedTool for ReadFileTool {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file with line numbers, or an image. \
        Relative paths start at /workspace.";
    const ACCESS: ToolAccess = ToolAccess::Reads;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let path = display::path(&arguments.path);
        let subject = match arguments.offset {
            Some(offset) => format!("{path} from line {offset}"),
            None => path,
        };
        CallSummary::new(CallKind::Read, "read", &subject)
            .show_input(ShownInput::Nothing)
            .show_output(ShownOutput::Nothing)
    }

    async fn run(
        &self,
        arguments: Arguments,
        context: ToolContext<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let path = &arguments.path;
        let first = arguments.offset.unwrap_or(1).max(1);
        let page = LinePage::new(first, arguments.limit.unwrap_or(DEFAULT_LINES));
        if path.starts_with(STORED_OUTPUT_PREFIX) {
            return read_stored_output(path, page, context).await;
        }
        let mut reader = match context.sandbox.open_file(path, 0, None).await {
            Ok(reader) => reader,
            Err(error) => return Err(explain_open_error(path, error, context.sandbox).await),
        };
        let mut start = Vec::new();
        while start.len() < SNIFF_BYTES
            && let Some(piece) = reader.next().await.map_err(to_tool_error)?
        {
            start.extend_from_slice(&piece);
        }
        let size = reader.metadata.size.max(start.len() as u64);
        match content_of(&start[..start.len().min(SNIFF_BYTES)]) {
            _ if start.is_empty() => Ok(ToolOutput::text(format!(
                "`{}` is empty",
                display::path(path)
            ))),
            FileContent::Text => read_text(path, page, start, reader).await,
            FileContent::Image(media_type) if size <= MAX_IMAGE_BYTES => {
                read_image(path, media_type, start, reader).await
            }
            FileContent::Image(media_type) => Ok(ToolOutput::text(format!(
                "`{}` is an image ({media_type}, {}), too large to view: at most {}",
                display::path(path),
                display::size(size),
                display::size(MAX_IMAGE_BYTES)
            ))),
            FileContent::Binary(kind) => Ok(ToolOutput::text(format!(
                "`{}` is {kind}, {}. It begins with\n{}",
                display::path(path),
                display::size(size),
                hex(&start)
            ))),
        }
    }
}

async fn read_stored_output(
    path: &str,
    mut page: LinePage,
    context: ToolContext<'_>,
) -> Result<ToolOutput, ToolError> {
    let Some(content) = context.outputs.read(path).await? else {
        return Err(ToolError::Refused(format!(
            "there is no stored output `{}`",
            display::path(path)
        )));
    };
    page.push(&content);
    render_page(page.finish(true), true)
}

async fn read_text(
    path: &str,
    mut page: LinePage,
    start: Vec<u8>,
    mut reader: FileReader,
) -> Result<ToolOutput, ToolError> {
    let mut read = start.len() as u64;
    page.push(&start);
    let is_end = loop {
        let left = reader.metadata.size.saturating_sub(read);
        if page.is_full() && left > MAX_COUNTED_BYTES {
            break false;
        }
        let Some(piece) = reader.next().await.map_err(to_tool_error)? else {
            break true;
        };
        read += piece.len() as u64;
        page.push(&piece);
    };
    render_page(page.finish(is_end), is_end).map_err(|error| match error {
        ToolError::Refused(why) => ToolError::Refused(format!("`{}` {why}", display::path(path))),
        other => other,
    })
}

/// The page, followed by a note about what it leaves out.
fn render_page(page: FinishedPage, is_end: bool) -> Result<ToolOutput, ToolError> {
    let FinishedPage {
        mut text,
        first,
        shown,
        lines,
        notes,
    } = page;
    if shown == 0 {
        let lines = display::count(lines, "line", "lines");
        return Err(ToolError::Refused(format!(
            "has only {lines}: there is no line {first}"
        )));
    }
    let last = first + shown - 1;
    let range = match (is_end, last < lines) {
        (true, true) => format!(
            "lines {first} to {last} of {lines}; continue with offset {}",
            last + 1
        ),
        (false, _) => format!(
            "lines {first} to {last}, many more follow; continue with offset {}",
            last + 1
        ),
        (true, false) if first > 1 => format!("lines {first} to {last}, the last"),
        (true, false) => String::new(),
    };
    let range = [range.as_str()]
        .into_iter()
        .filter(|range| !range.is_empty());
    let notes: Vec<&str> = range.chain(notes).collect();
    if !notes.is_empty() {
        text.push_str(&format!("[{}]\n", notes.join("; ")));
    }
    Ok(ToolOutput::text(text))
}

async fn read_image(
    path: &str,
    media_type: &str,
    start: Vec<u8>,
    mut reader: FileReader,
) -> Result<ToolOutput, ToolError> {
    let mut content = start;
    while let Some(piece) = reader.next().await.map_err(to_tool_error)? {
        content.extend_from_slice(&piece);
        if content.len() as u64 > MAX_IMAGE_BYTES {
            let why = format!(
                "cannot read `{}`: it grew while it was read",
                display::path(path)
            );
            return Err(ToolError::Refused(why));
        }
    }
    let size = display::size(content.len() as u64);
    let source = Image::Base64 {
        media_type: media_type.to_owned(),
        data: base64::engine::general_purpose::STANDARD.encode(&content),
    };
    Ok(ToolOutput {
        content: vec![
            Block::text(format!("`{}`, {media_type}, {size}", display::path(path))),
            Block::Image { source },
        ],
        ..ToolOutput::default()
    })
}

/// Adds a hint if the path is a folder or a symlink to one.
async fn explain_open_error(path: &str, error: SandboxError, sandbox: &Sandbox) -> ToolError {
    let is_other =
        matches!(&error, SandboxError::Refused(refusal) if refusal.kind == RefusalKind::WrongType);
    let request = ListRequest {
        path: ByteString::from(path),
        depth: 1,
        ignore: false,
        hidden: true,
        globs: Vec::new(),
        limit: 0,
    };
    if is_other
        && let Ok(listing) = sandbox.list(request).await
        && listing.collect().await.is_ok()
    {
        let path = display::path(path);
        return ToolError::Refused(format!(
            "`{path}` is a folder: `list_files` shows what is in it"
        ));
    }
    to_tool_error(error)
}
