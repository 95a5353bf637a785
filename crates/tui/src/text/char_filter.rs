//! Drops characters that are invisible or change how others are shown: direction controls, tags,
//! joiners and variation selectors without effect, excess combining marks.
//!
//! Looks at characters only, not at control sequences. Entry type: [`CharFilter`].

use unicode_width::UnicodeWidthChar;

/// Maximum number of combining marks per character.
const MAX_COMBINING_MARKS: u8 = 8;
/// Maximum number of emoji joined into one.
const MAX_JOINED_EMOJI: u8 = 8;

const JOINER: char = '\u{200d}';
const NON_JOINER: char = '\u{200c}';
const TEXT_SELECTOR: char = '\u{fe0e}';
const EMOJI_SELECTOR: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// Processes characters one by one; a joiner is held back until the next character is known.
#[derive(Debug, Clone, Default)]
pub(super) struct CharFilter {
    /// The last base character of this line.
    last: Option<char>,
    marks: u8,
    joined: u8,
    is_selected: bool,
    waiting: Option<char>,
}

impl CharFilter {
    /// Resets the state: there is no base character for a following mark.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Notes a plain character that needed no filtering.
    pub(super) fn note_plain(&mut self, character: char) {
        *self = Self {
            last: Some(character),
            ..Self::default()
        };
    }

    pub(super) fn take(&mut self, character: char, give: &mut impl FnMut(char)) {
        if let Some(waiting) = self.waiting.take()
            && self.has_effect(waiting, character)
        {
            give(waiting);
            if waiting == JOINER {
                self.joined += 1;
            }
        } else if !is_zero_width(character) {
            self.joined = 0;
        }
        match character {
            '\u{2028}' | '\u{2029}' => {
                self.note_plain(' ');
                give(' ');
            }
            JOINER | NON_JOINER => self.waiting = self.last.map(|_| character),
            TEXT_SELECTOR | EMOJI_SELECTOR => match self.last {
                Some(last) if is_emoji(last) && !self.is_selected => {
                    self.is_selected = true;
                    give(character);
                }
                Some('0'..='9' | '#' | '*') => self.waiting = Some(character),
                _ => {}
            },
            character if is_invisible(character) => {}
            character if is_zero_width(character) => {
                if self.last.is_some() && self.marks < MAX_COMBINING_MARKS {
                    self.marks += 1;
                    give(character);
                }
            }
            character => {
                self.last = Some(character);
                self.marks = 0;
                self.is_selected = false;
                give(character);
            }
        }
    }

    /// Whether the held character has an effect between the last and the next one.
    fn has_effect(&self, waiting: char, next: char) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        match waiting {
            EMOJI_SELECTOR | TEXT_SELECTOR => next == KEYCAP,
            JOINER if is_emoji(last) && is_emoji(next) => self.joined < MAX_JOINED_EMOJI,
            _ => is_of_joining_script(last) && is_of_joining_script(next),
        }
    }
}

fn is_zero_width(character: char) -> bool {
    character.width() == Some(0)
}

fn is_emoji(character: char) -> bool {
    matches!(character,
        '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21aa}'
        | '\u{231a}'..='\u{23ff}' | '\u{24c2}' | '\u{25aa}'..='\u{25fe}'
        | '\u{2600}'..='\u{27bf}' | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Arabic to Sinhala, Myanmar, Khmer: joiners are part of the spelling in these scripts.
fn is_of_joining_script(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
        && !is_invisible(character)
}

/// Invisible characters and direction controls. Joiners and variation selectors are not included:
/// they have an effect in some places.
pub(super) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
