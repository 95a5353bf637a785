//! Pasted blocks and images inside the text. Each is one private-use character, so that the cursor
//! steps over it, one Backspace deletes it, and undo restores it. Pure.

use std::sync::Arc;

use unicode_width::UnicodeWidthStr;

use crate::amount::count;
use crate::port::ImageAttachment;
use crate::text::clean;

/// The end of the private-use plane, which symbol fonts do not use.
const FIRST_EMBED_CHAR: u32 = 0x10_f000;
const LAST_EMBED_CHAR: u32 = 0x10_fffd;

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

/// The units of a message, by the characters that stand for them.
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
                    0 | 1 => format!(
                        "[pasted {number}{} characters]",
                        count(text.chars().count() as u64)
                    ),
                    lines => format!("[pasted {number}{} lines]", count(*lines as u64)),
                }
            }
            Self::Image(attachment) => {
                format!(
                    "[image: {} {}]",
                    name(attachment),
                    size_text(attachment.bytes)
                )
            }
        }
    }

    /// The text sent to the model in its place.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Pasted { text, .. } => text.to_string(),
            Self::Image(attachment) => format!("[image: {}]", name(attachment)),
        }
    }

    pub(super) fn width(&self) -> usize {
        self.label().width()
    }
}

impl Embeds {
    /// Adds a unit and returns its character; `None` if there are too many.
    pub(super) fn add(&mut self, mut unit: Embed) -> Option<char> {
        let letter = char::from_u32(FIRST_EMBED_CHAR + u32::try_from(self.list.len()).ok()?)?;
        if !is_mark(letter) {
            return None;
        }
        if let Embed::Pasted { number, .. } = &mut unit {
            let others = |unit: &&Embed| matches!(unit, Embed::Pasted { .. });
            *number = 1 + self.list.iter().filter(others).count();
        }
        self.list.push(unit);
        Some(letter)
    }

    pub(crate) fn get(&self, letter: char) -> Option<&Embed> {
        let place = u32::from(letter).checked_sub(FIRST_EMBED_CHAR)?;
        self.list.get(usize::try_from(place).ok()?)
    }

    /// The characters of all units, the newest first.
    pub(super) fn marks(&self) -> impl Iterator<Item = char> {
        let places = 0..u32::try_from(self.list.len()).unwrap_or(0);
        places
            .rev()
            .filter_map(|place| char::from_u32(FIRST_EMBED_CHAR + place))
    }

    /// Replaces the character of each unit with a text.
    pub(super) fn expand(&self, text: &str, show: impl Fn(&Embed) -> String) -> String {
        let mut spelled = String::with_capacity(text.len());
        for letter in text.chars() {
            match self.get(letter) {
                Some(unit) => spelled.push_str(&show(unit)),
                None => spelled.push(letter),
            }
        }
        spelled
    }
}

/// Whether a character is in the range reserved for units.
pub(super) fn is_mark(letter: char) -> bool {
    (FIRST_EMBED_CHAR..=LAST_EMBED_CHAR).contains(&u32::from(letter))
}

fn name(attachment: &ImageAttachment) -> String {
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
