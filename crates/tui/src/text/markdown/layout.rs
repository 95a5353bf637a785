//! The blocks of a text and their lines, updated as the text grows. Pure.
//!
//! A block is closed when a later whole line has begun another one; then no further text can change
//! it. Everything that is not closed is the tail. Entry type: [`MarkdownLayout`].

use std::ops::Range;

use ratatui::text::Line;

use super::super::colours;
use super::block::{BlockLayout, FenceLayout};
use super::code_cache::CodeCache;
use super::fence::CodeFence;
use super::stabilize::stabilize;
use super::structure::{MarkdownBlock, MarkdownBlockKind, split_blocks};
use crate::theme::Theme;

/// The text to lay out.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkdownSource<'a> {
    pub(super) text: &'a str,
    /// The text may still grow.
    pub(super) is_open: bool,
    /// Changes with every change of the text.
    pub(super) revision: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct MarkdownLayout {
    closed: Vec<MarkdownBlock>,
    /// Where the tail begins.
    tail: usize,
    /// Whole lines up to here have been scanned for closed blocks.
    scanned: usize,
    /// Width and theme of the layouts below.
    made_for: Option<(u16, Theme)>,
    /// Layouts of the first closed blocks, each with the total number of lines up to its end.
    layouts: Vec<(BlockLayout, usize)>,
    open: Vec<BlockLayout>,
    /// Revision of the text and generation of the colours at the last layout of the tail.
    laid_out_for: Option<(u64, u64)>,
    /// Code caches of the blocks of the tail.
    code_caches: Vec<CodeCache>,
}

impl MarkdownLayout {
    pub(super) fn update(&mut self, source: MarkdownSource<'_>, width: u16, theme: &Theme) {
        if self.made_for != Some((width, *theme)) {
            self.made_for = Some((width, *theme));
            self.layouts.clear();
            self.open.clear();
            self.laid_out_for = None;
            self.code_caches.clear();
        }
        let laid_out_for = Some((source.revision, colours(theme)));
        if self.laid_out_for == laid_out_for {
            return;
        }
        let MarkdownSource { text, is_open, .. } = source;
        self.close(text, theme);
        self.lay_out_closed(text, width, theme);
        self.lay_out_tail(text, is_open, width, theme);
        self.laid_out_for = laid_out_for;
    }

    pub(super) fn count(&self) -> usize {
        let closed = self.layouts.last().map_or(0, |(_, end)| *end);
        self.open.iter().fold(closed, end_after)
    }

    pub(super) fn take(
        &mut self,
        text: &str,
        Range {
            start: from,
            end: to,
        }: Range<usize>,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let first = self.layouts.partition_point(|(_, end)| *end <= from);
        let mut begin = match first {
            0 => 0,
            first => self.layouts[first - 1].1,
        };
        let width = self.made_for.map_or(0, |(width, _)| width);
        for (block, (layout, end)) in self.closed.iter().zip(&mut self.layouts).skip(first) {
            if begin >= to {
                return lines;
            }
            let content = &text[block.range.clone()];
            if layout.is_outdated(theme) {
                *layout = BlockLayout::new(content, block.kind, width, theme);
            }
            append_block_lines(layout, content, begin, from, to, theme, &mut lines);
            begin = *end;
        }
        let tail = &text[self.tail..];
        for layout in &mut self.open {
            if begin >= to {
                break;
            }
            append_block_lines(layout, tail, begin, from, to, theme, &mut lines);
            begin = end_after(begin, layout);
        }
        lines
    }

    /// Closes the blocks that no further text can change.
    fn close(&mut self, text: &str, theme: &Theme) {
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole <= self.scanned {
            return;
        }
        self.scanned = whole;
        if let Some(end) = self.grow_fence(&text[..whole], theme) {
            let Some(end) = end else {
                return;
            };
            self.closed.push(MarkdownBlock {
                range: self.tail..end,
                kind: MarkdownBlockKind::Fence,
            });
            self.tail = end;
        }
        let start = self.tail;
        let blocks = split_blocks(&text[start..whole]);
        if let Some(first) = blocks.first() {
            self.tail = start + first.range.start;
        }
        for (index, block) in blocks.iter().enumerate() {
            let range = start + block.range.start..start + block.range.end;
            let next = match blocks.get(index + 1) {
                Some(next) => start + next.range.start,
                None if is_closed_fence(&text[range.clone()], block.kind) => range.end,
                None => break,
            };
            // A definition may continue on the next line unless that is empty.
            if block.kind == MarkdownBlockKind::Definition && !text[range.end..next].contains('\n')
            {
                break;
            }
            self.tail = next;
            self.closed.push(MarkdownBlock {
                range,
                kind: block.kind,
            });
        }
        if self.tail > start {
            self.open.clear();
            self.code_caches.clear();
        }
    }

    /// Appends new lines to an open fence. Returns `None` if there is no open fence, `Some(None)`
    /// if it is still open, and its end if it was closed.
    fn grow_fence(&mut self, text: &str, theme: &Theme) -> Option<Option<usize>> {
        let [BlockLayout::Fence(open)] = self.open.as_mut_slice() else {
            return None;
        };
        open.clear_unfinished();
        let tail = &text[self.tail..];
        let mut end = open.end;
        for line in tail[open.end..].split_inclusive('\n') {
            if open.fence.is_end(line) {
                let closed = end + line.len();
                open.push(tail, end, theme);
                let fence = self
                    .open
                    .pop()
                    .expect("open has one element: it was matched above");
                let begin = self.layouts.last().map_or(0, |(_, end)| *end);
                let until = end_after(begin, &fence);
                self.layouts.push((fence, until));
                return Some(Some(self.tail + closed));
            }
            end += line.len();
        }
        open.push(tail, end, theme);
        Some(None)
    }

    fn lay_out_closed(&mut self, text: &str, width: u16, theme: &Theme) {
        let mut end = self.layouts.last().map_or(0, |(_, end)| *end);
        for block in &self.closed[self.layouts.len()..] {
            let layout = BlockLayout::new(&text[block.range.clone()], block.kind, width, theme);
            end = end_after(end, &layout);
            self.layouts.push((layout, end));
        }
    }

    fn lay_out_tail(&mut self, text: &str, is_open: bool, width: u16, theme: &Theme) {
        let tail = &text[self.tail..];
        if !matches!(self.open.as_slice(), [BlockLayout::Fence(_)]) {
            self.open = self.open_fence(tail, width, theme).into_iter().collect();
        }
        if let [BlockLayout::Fence(fence)] = self.open.as_mut_slice() {
            let line = &tail[fence.end..];
            let is_held_back = if is_open {
                fence.fence.may_be_closed_by(line)
            } else {
                fence.fence.is_end(line)
            };
            if is_held_back {
                fence.clear_unfinished();
            } else {
                fence.push_unfinished(tail, theme);
            }
            return;
        }
        let shown = if is_open {
            stabilize(tail)
        } else {
            tail.into()
        };
        let blocks = split_blocks(&shown);
        self.code_caches
            .resize_with(blocks.len(), CodeCache::default);
        self.open = blocks
            .iter()
            .zip(&mut self.code_caches)
            .map(|(block, code_cache)| {
                let content = &shown[block.range.clone()];
                match block.kind {
                    // The whole text of the fence is here, so it is laid out like other blocks.
                    MarkdownBlockKind::Prose | MarkdownBlockKind::Fence => {
                        BlockLayout::prose(content, width, theme, code_cache)
                    }
                    MarkdownBlockKind::Definition => {
                        BlockLayout::new(content, block.kind, width, theme)
                    }
                }
            })
            .collect();
    }

    /// Starts an incremental layout if the tail is an open fence whose first line is complete.
    fn open_fence(&self, tail: &str, width: u16, theme: &Theme) -> Option<BlockLayout> {
        let start = tail.len() - tail.trim_start_matches('\n').len();
        let is_whole = start == 0 && tail.contains('\n');
        let mut fence = FenceLayout::new(tail, width, theme).filter(|_| is_whole)?;
        let end = fence.fence.ends(tail);
        let whole = tail.rfind('\n').map_or(0, |end| end + 1);
        let is_closed = end < whole;
        (!is_closed).then(|| {
            fence.push(tail, end.min(whole), theme);
            BlockLayout::Fence(Box::new(fence))
        })
    }
}

fn is_closed_fence(text: &str, kind: MarkdownBlockKind) -> bool {
    let fence = CodeFence::parse(text).filter(|_| kind == MarkdownBlockKind::Fence);
    fence.is_some_and(|fence| fence.ends(text) < text.len())
}

/// The number of lines after one more block. Empty lines separate blocks.
fn end_after(end: usize, layout: &BlockLayout) -> usize {
    match (end, layout.count()) {
        (end, 0) => end,
        (0, count) => count,
        (end, count) => end + 1 + count,
    }
}

/// Appends the requested lines of a block that begins after line `begin`.
fn append_block_lines(
    layout: &mut BlockLayout,
    text: &str,
    begin: usize,
    from: usize,
    to: usize,
    theme: &Theme,
    lines: &mut Vec<Line<'static>>,
) {
    let count = layout.count();
    if count == 0 {
        return;
    }
    let first = if begin == 0 { 0 } else { begin + 1 };
    if begin > 0 && from <= begin {
        lines.push(Line::default());
    }
    let from = from.max(first) - first;
    let to = to.saturating_sub(first).min(count);
    if from < to {
        layout.take(text, from, to, theme, lines);
    }
}
