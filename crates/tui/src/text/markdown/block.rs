//! A top-level block laid out for a width.

use ratatui::text::Line;

use super::super::code::CodeLayout;
use super::super::{colours, wrap_plain};
use super::code_cache::CodeCache;
use super::fence::CodeFence;
use super::label::{code_indent, indented, label};
use super::structure::MarkdownBlockKind;
use super::writer::write_block;
use crate::theme::Theme;

#[derive(Debug, Clone)]
pub(super) enum BlockLayout {
    Lines {
        lines: Vec<Line<'static>>,
        /// Some code in it is plain because its language was not ready in this generation.
        waits_since: Option<u64>,
    },
    Fence(Box<FenceLayout>),
}

/// A fenced code block: lines are coloured when they are shown.
#[derive(Debug, Clone)]
pub(super) struct FenceLayout {
    pub(super) fence: CodeFence,
    label: Option<Line<'static>>,
    indent: u16,
    code: CodeLayout,
    /// End of the part that was laid out: whole lines.
    pub(super) end: usize,
    /// Layout of the line that is still being written.
    unfinished: Vec<Line<'static>>,
}

impl BlockLayout {
    pub(super) fn new(text: &str, kind: MarkdownBlockKind, width: u16, theme: &Theme) -> Self {
        match kind {
            MarkdownBlockKind::Prose => Self::prose(text, width, theme, &mut CodeCache::default()),
            MarkdownBlockKind::Definition => Self::Lines {
                lines: wrap_plain(text.trim_end(), width, theme.dim),
                waits_since: None,
            },
            MarkdownBlockKind::Fence => match FenceLayout::new(text, width, theme) {
                Some(mut fence) => {
                    let end = fence.fence.ends(text);
                    fence.push(text, end, theme);
                    Self::Fence(Box::new(fence))
                }
                None => Self::prose(text, width, theme, &mut CodeCache::default()),
            },
        }
    }

    pub(super) fn prose(text: &str, width: u16, theme: &Theme, code_cache: &mut CodeCache) -> Self {
        let generation = colours(theme);
        let lines = write_block(text, width, theme, code_cache);
        Self::Lines {
            lines,
            waits_since: code_cache.is_waiting().then_some(generation),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Lines { lines, .. } => lines.len(),
            Self::Fence(fence) => fence.count(),
        }
    }

    /// Whether a new layout may add colours.
    pub(super) fn is_outdated(&self, theme: &Theme) -> bool {
        match self {
            Self::Lines { waits_since, .. } => {
                waits_since.is_some_and(|since| since != colours(theme))
            }
            Self::Fence(_) => false,
        }
    }

    /// Appends the lines from `from` up to `to` of the block with this text.
    pub(super) fn take(
        &mut self,
        text: &str,
        from: usize,
        to: usize,
        theme: &Theme,
        into: &mut Vec<Line<'static>>,
    ) {
        match self {
            Self::Lines { lines, .. } => {
                let to = to.min(lines.len());
                into.extend(lines[from.min(to)..to].iter().cloned());
            }
            Self::Fence(fence) => fence.take(text, from, to, theme, into),
        }
    }
}

impl FenceLayout {
    pub(super) fn new(text: &str, width: u16, theme: &Theme) -> Option<Self> {
        let fence = CodeFence::parse(text)?;
        let indent = code_indent(width);
        let room = width - indent;
        Some(Self {
            label: label(&fence.language, room, theme),
            indent,
            code: CodeLayout::new(&fence.language, room),
            end: fence.begins,
            unfinished: Vec::new(),
            fence,
        })
    }

    /// Lays out the lines up to `end`.
    pub(super) fn push(&mut self, text: &str, end: usize, theme: &Theme) {
        let lines = self.fence.code(&text[self.end..end]);
        self.code.push(&lines, theme);
        self.end = end;
    }

    /// Lays out the unfinished last line.
    pub(super) fn push_unfinished(&mut self, text: &str, theme: &Theme) {
        let line = self.fence.code(&text[self.end..]);
        self.unfinished = if line.is_empty() {
            Vec::new()
        } else {
            let code = self.fence.code(&text[self.fence.begins..self.end]);
            self.code.unfinished(&code, &line, theme)
        };
    }

    pub(super) fn clear_unfinished(&mut self) {
        self.unfinished.clear();
    }

    fn count(&self) -> usize {
        usize::from(self.label.is_some()) + self.code.lines.len() + self.unfinished.len()
    }

    fn take(
        &mut self,
        text: &str,
        from: usize,
        to: usize,
        theme: &Theme,
        into: &mut Vec<Line<'static>>,
    ) {
        let code = self.fence.code(&text[self.fence.begins..self.end]);
        self.code.colour(&code, to, theme);
        let lines = self
            .label
            .iter()
            .chain(&self.code.lines)
            .chain(&self.unfinished);
        let seen = lines.skip(from).take(to.saturating_sub(from));
        into.extend(seen.map(|line| indented(line.clone(), self.indent)));
    }
}
