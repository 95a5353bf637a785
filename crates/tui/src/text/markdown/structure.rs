//! Splits markdown into top-level blocks, each of which can be laid out alone.
//!
//! The layout of a block depends on nothing outside it: links to definitions elsewhere are shown as
//! written, and so are the definitions.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(super) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_MATH);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkdownBlockKind {
    /// Any other block.
    Prose,
    /// Fenced code.
    Fence,
    /// Link definitions.
    Definition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkdownBlock {
    /// Byte range; whole lines.
    pub(super) range: Range<usize>,
    pub(super) kind: MarkdownBlockKind,
}

/// The blocks of a text, in order. Only empty lines are between them.
pub(super) fn split_blocks(text: &str) -> Vec<MarkdownBlock> {
    let mut outermost: Vec<MarkdownBlock> = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        let is_outermost = depth == 0;
        let kind = match &event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => MarkdownBlockKind::Fence,
            _ => MarkdownBlockKind::Prose,
        };
        match event {
            Event::Start(_) => depth += 1,
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                // The parser may count a definition that follows a list as part of the list.
                if let (1, TagEnd::Item, Some(list)) = (depth, end, outermost.last_mut()) {
                    list.range.end = range.end;
                }
                continue;
            }
            _ => {}
        }
        if is_outermost {
            outermost.push(MarkdownBlock { range, kind });
        }
    }
    with_definitions(text, outermost)
}

/// The parser reports no definitions: they are the text between blocks.
fn with_definitions(text: &str, outermost: Vec<MarkdownBlock>) -> Vec<MarkdownBlock> {
    let mut blocks: Vec<MarkdownBlock> = Vec::with_capacity(outermost.len());
    let mut end = 0;
    for MarkdownBlock { range, kind } in outermost {
        let start = line_start(text, range.start).max(end);
        push_definition(text, end..start, &mut blocks);
        end = line_end(text, range.end).max(start);
        blocks.push(MarkdownBlock {
            range: start..end,
            kind,
        });
    }
    push_definition(text, end..text.len(), &mut blocks);
    blocks
}

fn push_definition(text: &str, range: Range<usize>, blocks: &mut Vec<MarkdownBlock>) {
    let between = &text[range.clone()];
    let trimmed = between.trim_start();
    if !trimmed.is_empty() {
        let start = line_start(text, range.end - trimmed.len()).max(range.start);
        let end = line_end(text, range.start + between.trim_end().len());
        blocks.push(MarkdownBlock {
            range: start..end.min(range.end),
            kind: MarkdownBlockKind::Definition,
        });
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    if at == 0 || text[..at].ends_with('\n') {
        return at;
    }
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}
