//! Inserts pastes, images and drafts.

use std::sync::Arc;

use super::unit::Unit;
use super::{Draft, Editor, LETTERS, LINES, Pasted, paste};
use crate::port::Attachment;

impl Editor {
    /// Replaces the text with that of the external editor. Blocks and images that are still there
    /// unchanged stay units.
    pub(crate) fn replace(&mut self, text: &str) {
        let text = paste::normal(text.strip_suffix('\n').unwrap_or(text));
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
        self.set(Draft::default());
        for (words, unit) in pieces {
            self.insert(Draft::plain(words));
            if let Some(unit) = unit {
                self.insert_unit(unit);
            }
        }
    }

    /// Inserts pasted text.
    pub(crate) fn paste(&mut self, text: &str) -> Pasted {
        let text = paste::normal(text);
        if let Some(pictures) = paste::pictures(&text) {
            let words: Vec<&str> = pictures.iter().map(|(words, _)| words.as_str()).collect();
            self.insert_words(&words.join(" "));
            return Pasted::Pictures(pictures);
        }
        if paste::is_long(&text) || self.is_full(text.len()) {
            self.insert_block(&text)
        } else {
            self.insert_words(&text)
        }
        Pasted::Text
    }

    /// Inserts an image in place of `words`. If `words` is empty, inserts it at the cursor; if the
    /// text no longer contains `words`, drops it.
    pub(crate) fn attach(&mut self, attachment: Attachment, words: &str) {
        let place = self.find(words).filter(|_| !words.is_empty());
        let (row, column) = self.cursor();
        if let Some((line, letter)) = place {
            let letters = words.chars().count();
            self.go(line, letter);
            self.area.delete_str(letters);
            self.insert_unit(Unit::Image(Arc::new(attachment)));
            // Move the cursor back to where it was.
            if row == line && column >= letter + letters {
                self.go(row, column + 1 - letters);
            } else if (row, column) < (line, letter) || row > line {
                self.go(row, column);
            }
        } else if words.is_empty() {
            self.insert_unit(Unit::Image(Arc::new(attachment)));
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
    pub(super) fn insert(&mut self, draft: Draft) {
        if draft.text.len() > LETTERS || paste::lines(&draft.text) > LINES {
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
        self.insert_words(&text);
    }

    pub(super) fn insert_words(&mut self, words: &str) {
        if !words.is_empty() {
            self.history.leave();
            self.wanted = None;
            self.area.insert_str(words);
        }
    }

    fn insert_block(&mut self, text: &str) {
        self.insert_unit(Unit::Pasted {
            text: Arc::from(text),
            lines: paste::lines(text),
            number: 0,
        });
    }

    /// Inserts a unit at the cursor, or its text if the message has too many units.
    fn insert_unit(&mut self, unit: Unit) {
        let words = match self.units.add(unit.clone()) {
            Some(letter) => letter.to_string(),
            None => unit.words(),
        };
        self.insert_words(&words);
    }
}
