//! Inserts pastes, images and drafts.

use std::sync::Arc;

use super::embed::Embed;
use super::{Editor, MAX_EDITABLE_BYTES, MAX_EDITABLE_LINES, MessageDraft, PasteResult, paste};
use crate::port::ImageAttachment;

impl Editor {
    /// Replaces the text with that of the external editor. Blocks and images that are still there
    /// unchanged stay embeds.
    pub(crate) fn replace(&mut self, text: &str) {
        let text = paste::sanitize(text.strip_suffix('\n').unwrap_or(text));
        let before = self.take();
        let mut rest = text.as_str();
        for character in before.text.chars() {
            let Some(embed) = before.embeds.get(character) else {
                continue;
            };
            if let Some((left, right)) = rest.split_once(&embed.text()) {
                self.insert(MessageDraft::plain(left));
                self.insert_embed(embed.clone());
                rest = right;
            }
        }
        self.insert(MessageDraft::plain(rest));
    }

    /// Inserts pasted text.
    pub(crate) fn paste(&mut self, text: &str) -> PasteResult {
        let text = paste::sanitize(text);
        if let Some(images) = paste::pasted_images(&text) {
            let paths: Vec<&str> = images.iter().map(|(path, _)| path.as_str()).collect();
            self.insert_text(&paths.join(" "));
            return PasteResult::Pictures(images);
        }
        if paste::is_long(&text) || self.is_full(text.len()) {
            self.insert_block(&text);
        } else {
            self.insert_text(&text);
        }
        PasteResult::Text
    }

    /// Inserts an image in place of `placeholder`. If that is empty, inserts it at the cursor; if
    /// the text no longer contains it, drops the image.
    pub(crate) fn attach(&mut self, attachment: ImageAttachment, placeholder: &str) {
        let image = Embed::Image(Arc::new(attachment));
        if placeholder.is_empty() {
            return self.insert_embed(image);
        }
        let mut lines = self.area.lines().iter().enumerate();
        let found = lines.find_map(|(line, text)| Some((line, text, text.rfind(placeholder)?)));
        let Some((line, text, offset)) = found else {
            return;
        };
        let start = text[..offset].chars().count();
        let length = placeholder.chars().count();
        let (row, column) = self.cursor();
        self.move_to(line, start);
        self.area.delete_str(length);
        self.insert_embed(image);
        // Move the cursor back to where it was.
        if row == line && column >= start {
            self.move_to(row, column.max(start + length) + 1 - length);
        } else {
            self.move_to(row, column);
        }
    }

    /// Inserts a draft at the cursor. Its embeds get characters of this editor.
    pub(super) fn insert(&mut self, draft: MessageDraft) {
        if draft.text.len() > MAX_EDITABLE_BYTES || paste::lines(&draft.text) > MAX_EDITABLE_LINES {
            return self.insert_block(&draft.full());
        }
        let renamed = |character| match draft.embeds.get(character).cloned() {
            Some(embed) => self.embeds.add(embed).unwrap_or('\u{fffd}'),
            None => character,
        };
        let text: String = draft.text.chars().map(renamed).collect();
        self.insert_text(&text);
    }

    pub(super) fn insert_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.start_change();
            self.area.insert_str(text);
        }
    }

    fn insert_block(&mut self, text: &str) {
        self.insert_embed(Embed::Pasted {
            text: Arc::from(text),
            lines: paste::lines(text),
            number: 0,
        });
    }

    /// Inserts an embed at the cursor, or its text if the message has too many embeds.
    fn insert_embed(&mut self, embed: Embed) {
        match self.embeds.add(embed.clone()) {
            Some(character) => self.insert_text(&character.to_string()),
            None => self.insert_text(&embed.text()),
        }
    }
}
