//! An unsent message with its pasted blocks and images. Pure.

use protocol::Block;

use super::embed::{Embed, Embeds, is_embed_char};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MessageDraft {
    /// Contains one private-use character per embed.
    pub(super) text: String,
    pub(super) embeds: Embeds,
}

impl MessageDraft {
    /// A draft of plain text.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            embeds: Embeds::default(),
        }
    }

    /// Whether there is nothing to send.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The full text, as the model reads it.
    pub(crate) fn full(&self) -> String {
        self.embeds.expand(&self.text, Embed::text)
    }

    /// The words outside pasted blocks.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let is_end = |character: char| character.is_whitespace() || is_embed_char(character);
        self.text.split(is_end).filter(|word| !word.is_empty())
    }

    /// One line that summarises the draft.
    pub(crate) fn line(&self) -> String {
        let mut lines = self.text.trim().lines();
        let first = lines.next().unwrap_or_default();
        let first = self.embeds.expand(first, Embed::label);
        match lines.count() {
            0 => first,
            1 => format!("{first} … 1 more line"),
            more => format!("{first} … {more} more lines"),
        }
    }

    /// The content to send: the text, then the images that it names.
    pub(crate) fn content(&self) -> Vec<Block> {
        let full = self.full();
        let text = full.trim_end().trim_start_matches('\n');
        let text = match text.strip_prefix(['/', ' ']) {
            // A slash or space before the first slash marks a message rather than a command.
            Some(rest) if rest.starts_with('/') => rest,
            _ => text,
        };
        let embeds = self.text.chars().filter_map(|mark| self.embeds.get(mark));
        let images = embeds.filter_map(|embed| match embed {
            Embed::Image(attachment) => Some(Block::Image {
                source: attachment.image.clone(),
            }),
            Embed::Pasted { .. } => None,
        });
        std::iter::once(Block::text(text)).chain(images).collect()
    }
}
