//! Locates text on the page, independently of the width.

use std::ops::Range;

use super::page_layout::{LinePosition, PageLayout};
use super::piece::{piece, piece_at};
use super::search::{PageMatch, PageSearch};
use super::section::{self, SectionContent};

impl PageLayout<'_> {
    /// The line with the text that a line has at another width.
    pub(super) fn at_other_width(&mut self, line: LinePosition, other: u16) -> LinePosition {
        let width = std::mem::replace(&mut self.width, other);
        let line = self.settle(line);
        // The same at every width.
        let characters: usize = self.alphanumerics(line, 0..line.line).sum();
        self.width = width;
        LinePosition {
            line: match line.line {
                0 => 0,
                _ => self.line_of_alphanumeric(line, characters),
            },
            ..line
        }
    }

    /// The line of the current match. Located again only when it may have moved.
    pub(super) fn match_line(&mut self, search: &mut PageSearch) -> Option<LinePosition> {
        let found = search.current()?;
        let entry = found.entry;
        let revision = self.log.get(entry)?.revision;
        let inputs = (found, revision, self.width, self.log.is_open(entry));
        if let Some((before, line)) = search.line
            && before == inputs
        {
            return Some(line);
        }
        let line = if search.is_visible(self.log) {
            self.locate(search, found)
        } else {
            LinePosition::head(entry)
        };
        search.line = Some((inputs, line));
        Some(line)
    }

    /// The line that shows a match.
    fn locate(&mut self, search: &PageSearch, found: PageMatch) -> LinePosition {
        let sections = self.sections(found.entry);
        let (before, from) = sections.split_at(found.section.min(sections.len()));
        let (piece, text) = match from.first().map(|section| &section.content) {
            Some(SectionContent::Text { text, .. }) => {
                let number = piece_at(text, found.offset);
                (number, &text[piece(text, number).start..found.offset])
            }
            Some(SectionContent::Markdown(markdown)) => (0, &markdown.text[..found.offset]),
            _ => (0, ""),
        };
        let block = LinePosition {
            entry: found.entry,
            block: 1 + section::piece_count(before) + piece,
            line: 0,
        };
        let near = self.line_of_alphanumeric(block, count_alphanumerics(text));
        // Markup is not shown, so positions on the page differ from those in the text: take the
        // nearest line with a match.
        let (lines, _) = self.lines(block, 0..usize::MAX);
        let is_match = |line: &usize| search.query.is_match(&lines[*line].to_string());
        let matches = (0..lines.len()).filter(is_match);
        LinePosition {
            line: matches
                .min_by_key(|line| line.abs_diff(near))
                .unwrap_or(near),
            ..block
        }
    }

    /// The line of a block that contains the n-th alphanumeric character.
    fn line_of_alphanumeric(&mut self, block: LinePosition, character: usize) -> usize {
        let mut before = 0;
        let mut counts = self.alphanumerics(block, 0..usize::MAX);
        let last = counts.len().saturating_sub(1);
        let line = counts.position(|count| {
            before += count;
            before > character
        });
        line.unwrap_or(last)
    }

    /// Number of alphanumeric characters of some lines of a block.
    fn alphanumerics(
        &mut self,
        block: LinePosition,
        lines: Range<usize>,
    ) -> impl ExactSizeIterator<Item = usize> + use<> {
        let (lines, _) = self.lines(block, lines);
        lines.into_iter().map(|line| {
            let spans = line.spans.iter();
            spans.map(|span| count_alphanumerics(&span.content)).sum()
        })
    }

    /// The approximate part of an entry above a line, as a fraction: numerator and denominator.
    pub(super) fn share(&mut self, line: LinePosition) -> (usize, usize) {
        // The gap above the entry is not counted.
        let blocks = self.blocks(line.entry).saturating_sub(1).max(1);
        let height = self.height(line).max(1);
        let before = line.block.saturating_sub(1) * height;
        (before + line.line, blocks * height)
    }
}

fn count_alphanumerics(text: &str) -> usize {
    let is_counted = |character: &char| character.is_alphanumeric();
    text.chars().filter(is_counted).count()
}
