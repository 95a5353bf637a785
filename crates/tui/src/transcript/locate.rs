//! Where on the page something is: places that hold at every width, and places of words.

use ratatui::text::Line;

use super::desk::{Desk, Place};
use super::finding::Needle;
use super::piece::{piece, piece_at};
use super::section::Content;

impl Desk<'_> {
    /// How many letters come before a line in its block: they do so at every width.
    pub(super) fn letters_before(&mut self, place: Place) -> usize {
        let lines = self.lines(place.entry, place.block, 0..place.line);
        lines.iter().map(letters).sum()
    }

    /// The line of a block in which a letter is.
    pub(super) fn line_of_letter(&mut self, entry: usize, block: usize, letter: usize) -> usize {
        let count = self.height(entry, block);
        let mut before = 0;
        for (place, line) in self.lines(entry, block, 0..count).iter().enumerate() {
            before += letters(line);
            if before > letter {
                return place;
            }
        }
        count.saturating_sub(1)
    }

    /// The line that shows what is at an offset of a section's text.
    pub(super) fn place_of(
        &mut self,
        entry: usize,
        section: usize,
        offset: usize,
        needle: &Needle,
    ) -> Place {
        let sections = self.sections(entry);
        let before: usize = sections
            .iter()
            .take(section)
            .map(|section| section.content.pieces())
            .sum();
        let (number, letter) = match sections.get(section).map(|section| &section.content) {
            Some(Content::Text { text, .. }) => {
                let number = piece_at(text, offset);
                let start = piece(text, number).start;
                (number, letters_in(&text[start..offset]))
            }
            Some(Content::Words(said)) => (0, letters_in(&said.text[..offset])),
            _ => (0, 0),
        };
        let block = 1 + before + number;
        let near = self.line_of_letter(entry, block, letter);
        // Signs of markdown are not shown, so that letters are not where they are in the text.
        let count = self.height(entry, block);
        let lines = self.lines(entry, block, 0..count);
        let line = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| needle.is_in(&line.to_string()))
            .map(|(place, _)| place)
            .min_by_key(|place| place.abs_diff(near));
        Place {
            entry,
            block,
            line: line.unwrap_or(near),
        }
    }

    /// About which part of an entry is above a line: so many of so many parts.
    pub(super) fn share(&mut self, place: Place) -> (usize, usize) {
        // Of the gap above it nobody knows.
        let blocks = self.blocks(place.entry).saturating_sub(1).max(1);
        let height = self.height(place.entry, place.block).max(1);
        let before = place.block.saturating_sub(1) * height;
        (before + place.line, blocks * height)
    }
}

fn letters(line: &Line<'_>) -> usize {
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
