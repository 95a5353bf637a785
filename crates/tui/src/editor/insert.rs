//! Inserts pastes, images and drafts.

use std::sync::Arc;

use super::embed::Embed;
use super::{Editor, MAX_EDITABLE_BYTES, MAX_EDITABLE_LINES, MessageDraft, PasteResult, paste};
use crate::port::ImageAttachment;

impl Editor {
    /// Replaces the text with that of the external editor. Blocks and images that are still there
    /// unchanged stay units.
    pub(crate) fn replace(&mut self, text: &str) {
        let text = paste::sanitize(text.strip_suffix('\n').unwrap_or(text));
        let before = self.draft();
        let mut pieces = vec![(text, None)];
        for letter in before.text.chars() {
            let Some(unit) = before.units.get(letter) else {
                continue;
            };
            let (last, _) = pieces.last().expect("pieces is never empty");
            if let Some((left, right)) = last.split_once(&unit.words()) {
                let (left, right) = (left.to_owned(), right.to_owned());
                pieces.pop();
                pieces.push((left, Some(unit.clone())));
                pieces.push((right, None));
            }
        }
        self.set(MessageDraft::default());
        for (words, unit) in pieces {
            self.insert(MessageDraft::plain(words));
            if let Some(unit) = unit {
                self.insert_embed(unit);
            }
        }
    }

    /// Inserts pasted text.
    pub(crate) fn paste(&mut self, text: &str) -> PasteResult {
        let text = paste::sanitize(text);
        if let Some(pasted_images) = paste::pasted_images(&text) {
            let words: Vec<&str> = pasted_images
                .iter()
                .map(|(words, _)| words.as_str())
                .collect();
            self.insert_text(&words.join(" "));
            return PasteResult::Pictures(pasted_images);
        }
        if paste::is_long(&text) || self.is_full(text.len()) {
            self.insert_block(&text)
        } else {
            self.insert_text(&text)
        }
        PasteResult::Text
    }

    /// Inserts an image in place of `words`. If `words` is empty, inserts it at the cursor; if the
    /// text no longer contains `words`, drops it.
    pub(crate) fn attach(&mut self, attachment: ImageAttachment, words: &str) {
        let place = self.find(words).filter(|_| !words.is_empty());
        let (row, column) = self.cursor();
        if let Some((line, letter)) = place {
            let letters = words.chars().count();
            self.move_to(line, letter);
            self.area.delete_str(letters);
            self.insert_embed(Embed::Image(Arc::new(attachment)));
            // Move the cursor back to where it was.
            if row == line && column >= letter + letters {
                self.move_to(row, column + 1 - letters);
            } else if (row, column) < (line, letter) || row > line {
                self.move_to(row, column);
            }
        } else if words.is_empty() {
            self.insert_embed(Embed::Image(Arc::new(attachment)));
        }
    }

    fn find(&self, words: &str) -> Option<(usize, usize)> {
        self.area
            .lines()
            .iter()
            .enumerate()
            .find_map(|(line, text)| {
                let place = text.rfind(words)?;
                Some((line, text[..place].chars().count()))
            })
    }

    /// Inserts a draft at the cursor. Its units get characters of this editor.
    pub(super) fn insert(&mut self, draft: MessageDraft) {
        if draft.text.len() > MAX_EDITABLE_BYTES || paste::lines(&draft.text) > MAX_EDITABLE_LINES {
            let full = draft.full();
            self.insert_block(&full);
            return;
        }
        let mut text = String::with_capacity(draft.text.len());
        for letter in draft.text.chars() {
            match draft.units.get(letter).cloned() {
                Some(unit) => match self.units.add(unit) {
                    Some(letter) => text.push(letter),
                    None => text.push('\u{fffd}'),
                },
                None => text.push(letter),
            }
        }
        self.insert_text(&text);
    }

    pub(super) fn insert_text(&mut self, words: &str) {
        if !words.is_empty() {
            self.history.leave();
            self.wanted = None;
            self.area.insert_str(words);
        }
    }

    fn insert_block(&mut self, text: &str) {
        self.insert_embed(Embed::Pasted {
            text: Arc::from(text),
            lines: paste::lines(text),
            number: 0,
        });
    }

    /// Inserts a unit at the cursor, or its text if the message has too many units.
    fn insert_embed(&mut self, unit: Embed) {
        let words = match self.units.add(unit.clone()) {
            Some(letter) => letter.to_string(),
            None => unit.words(),
        };
        self.insert_text(&words);
    }
}
