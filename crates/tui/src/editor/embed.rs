//! Pasted blocks and images inside the text. Each is one private-use character, so that the cursor
//! steps over it, one Backspace deletes it, and undo restores it. Pure.

use std::sync::Arc;

use crate::amount::count;
use crate::port::ImageAttachment;
use crate::text::clean;

/// The end of the private-use plane, which symbol fonts do not use.
const FIRST_EMBED_CHAR: char = '\u{10f000}';
const LAST_EMBED_CHAR: char = '\u{10fffd}';

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Embed {
    Pasted {
        text: Arc<str>,
        lines: usize,
        /// Number among the pasted blocks of the message, from 1.
        number: usize,
    },
    Image(Arc<ImageAttachment>),
}

/// The embeds of a message, by the characters that stand for them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Embeds {
    list: Vec<Embed>,
}

impl Embed {
    /// The text shown in its place.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Pasted {
                text,
                lines,
                number,
            } => {
                let number = match number {
                    0 | 1 => String::new(),
                    more => format!("#{more}: "),
                };
                match lines {
                    0 | 1 => {
                        let characters = count(text.chars().count() as u64);
                        format!("[pasted {number}{characters} characters]")
                    }
                    lines => format!("[pasted {number}{} lines]", count(*lines as u64)),
                }
            }
            Self::Image(attachment) => {
                let size = size_text(attachment.bytes);
                format!("[image: {} {size}]", file_name(attachment))
            }
        }
    }

    /// The text sent to the model in its place.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Pasted { text, .. } => text.to_string(),
            Self::Image(attachment) => format!("[image: {}]", file_name(attachment)),
        }
    }
}

impl Embeds {
    /// Adds an embed and returns its character; `None` if there are too many.
    pub(super) fn add(&mut self, mut embed: Embed) -> Option<char> {
        let character = (FIRST_EMBED_CHAR..=LAST_EMBED_CHAR).nth(self.list.len())?;
        if let Embed::Pasted { number, .. } = &mut embed {
            let is_pasted = |embed: &&Embed| matches!(embed, Embed::Pasted { .. });
            *number = 1 + self.list.iter().filter(is_pasted).count();
        }
        self.list.push(embed);
        Some(character)
    }

    pub(crate) fn get(&self, character: char) -> Option<&Embed> {
        let index = u32::from(character).checked_sub(u32::from(FIRST_EMBED_CHAR))?;
        self.list.get(usize::try_from(index).ok()?)
    }

    /// All embeds with their characters, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (char, &Embed)> {
        let embed = |character| Some((character, self.get(character)?));
        (FIRST_EMBED_CHAR..=LAST_EMBED_CHAR).filter_map(embed)
    }

    /// Replaces the character of each embed with a text.
    pub(super) fn expand(&self, text: &str, show: impl Fn(&Embed) -> String) -> String {
        let mut expanded = String::with_capacity(text.len());
        for character in text.chars() {
            match self.get(character) {
                Some(embed) => expanded.push_str(&show(embed)),
                None => expanded.push(character),
            }
        }
        expanded
    }
}

/// Whether a character is in the range reserved for embeds.
pub(super) fn is_embed_char(character: char) -> bool {
    (FIRST_EMBED_CHAR..=LAST_EMBED_CHAR).contains(&character)
}

fn file_name(attachment: &ImageAttachment) -> String {
    let name = attachment.path.file_name().unwrap_or_default();
    clean(&name.to_string_lossy()).replace(['\n', '\t', '['], " ")
}

fn size_text(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}
