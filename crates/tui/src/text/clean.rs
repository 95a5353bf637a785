//! Takes out of text whatever a terminal would obey.

use std::borrow::Cow;

/// Only text, line ends and tabs.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|letter| is_safe(*letter)).collect())
}

fn is_safe(letter: char) -> bool {
    match letter {
        '\n' | '\t' => true,
        // Marks that turn the direction of text can hide what it says.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        letter => !letter.is_control(),
    }
}
