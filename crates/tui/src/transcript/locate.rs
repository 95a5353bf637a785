//! Locates text on the page, independently of the width.

use ratatui::text::Line;

use super::needle::SearchNeedle;
use super::page_layout::{LinePosition, PageLayout};
use super::piece::{piece, piece_at};
use super::section::SectionContent;

impl PageLayout<'_> {
    /// Number of alphanumeric characters before a line in its block; the same at every width.
    pub(super) fn alphanumerics_before(&mut self, place: LinePosition) -> usize {
        let lines = self.lines(place.entry, place.block, 0..place.line);
        lines.iter().map(alphanumerics_in_line).sum()
    }

    /// The line of a block that contains the n-th alphanumeric character.
    pub(super) fn line_of_alphanumeric(
        &mut self,
        entry: usize,
        block: usize,
        letter: usize,
    ) -> usize {
        let count = self.height(entry, block);
        let mut before = 0;
        for (place, line) in self.lines(entry, block, 0..count).iter().enumerate() {
            before += alphanumerics_in_line(line);
            if before > letter {
                return place;
            }
        }
        count.saturating_sub(1)
    }

    /// The line that shows an offset of a section's text.
    pub(super) fn match_position_of(
        &mut self,
        entry: usize,
        section: usize,
        offset: usize,
        needle: &SearchNeedle,
    ) -> LinePosition {
        let sections = self.sections(entry);
        let before: usize = sections
            .iter()
            .take(section)
            .map(|section| section.content.pieces())
            .sum();
        let (number, letter) = match sections.get(section).map(|section| &section.content) {
            Some(SectionContent::Text { text, .. }) => {
                let number = piece_at(text, offset);
                let start = piece(text, number).start;
                (number, letters_in(&text[start..offset]))
            }
            Some(SectionContent::Words(said)) => (0, letters_in(&said.text[..offset])),
            _ => (0, 0),
        };
        let block = 1 + before + number;
        let near = self.line_of_alphanumeric(entry, block, letter);
        // Markup is not shown, so positions on the page differ from those in the text: take the
        // nearest line with a match.
        let count = self.height(entry, block);
        let lines = self.lines(entry, block, 0..count);
        let line = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| needle.is_in(&line.to_string()))
            .map(|(place, _)| place)
            .min_by_key(|place| place.abs_diff(near));
        LinePosition {
            entry,
            block,
            line: line.unwrap_or(near),
        }
    }

    /// The approximate part of an entry above a line, as a fraction: numerator and denominator.
    pub(super) fn share(&mut self, place: LinePosition) -> (usize, usize) {
        // The gap above the entry is not counted.
        let blocks = self.blocks(place.entry).saturating_sub(1).max(1);
        let height = self.height(place.entry, place.block).max(1);
        let before = place.block.saturating_sub(1) * height;
        (before + place.line, blocks * height)
    }
}

fn alphanumerics_in_line(line: &Line<'_>) -> usize {
    line.spans
        .iter()
        .map(|span| letters_in(&span.content))
        .sum()
}

fn letters_in(text: &str) -> usize {
    text.chars()
        .filter(|letter| letter.is_alphanumeric())
        .count()
}
