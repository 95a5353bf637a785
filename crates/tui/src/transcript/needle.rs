//! Text search. Ignores case, unless the query has an uppercase letter.

/// The text to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SearchNeedle {
    /// Case-sensitive.
    Exact(String),
    /// ASCII in any case; stored in lower case.
    Ascii(Vec<u8>),
    /// Any characters in any case; stored in lower case.
    Letters(Vec<char>),
}

impl SearchNeedle {
    /// `None` for an empty query.
    pub(super) fn new(words: &str) -> Option<Self> {
        if words.is_empty() {
            return None;
        }
        Some(if words.chars().any(char::is_uppercase) {
            Self::Exact(words.to_owned())
        } else if words.is_ascii() {
            Self::Ascii(words.as_bytes().to_vec())
        } else {
            Self::Letters(words.chars().map(lower).collect())
        })
    }

    /// The byte range of the first match from an offset on.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Exact(words) => {
                let start = from + text.get(from..)?.find(words.as_str())?;
                Some((start, start + words.len()))
            }
            Self::Ascii(words) => {
                let start = find_ascii(text.as_bytes(), words, from)?;
                Some((start, start + words.len()))
            }
            Self::Letters(words) => find_chars(text, words, from),
        }
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.find(text, 0).is_some()
    }
}

/// A match of ASCII bytes always lies on character boundaries, whatever else the text contains.
fn find_ascii(text: &[u8], words: &[u8], from: usize) -> Option<usize> {
    let (first, rest) = words.split_first()?;
    let upper = first.to_ascii_uppercase();
    let last = text.len().checked_sub(words.len())?;
    let starts = text.get(from..=last)?;
    let is_start = |byte: &u8| *byte == *first || *byte == upper;
    let mut place = from;
    let mut left = starts;
    while let Some(found) = left.iter().position(is_start) {
        place += found;
        let tail = &text[place + 1..place + words.len()];
        if tail.eq_ignore_ascii_case(rest) {
            return Some(place);
        }
        place += 1;
        left = &left[found + 1..];
    }
    None
}

fn find_chars(text: &str, words: &[char], from: usize) -> Option<(usize, usize)> {
    let first = *words.first()?;
    let rest = text.get(from..)?;
    for (place, letter) in rest.char_indices() {
        if lower(letter) != first {
            continue;
        }
        let mut letters = rest[place..].char_indices();
        let is_same = words.iter().all(|word| {
            letters
                .next()
                .is_some_and(|(_, letter)| lower(letter) == *word)
        });
        if is_same {
            return Some((from + place, from + place + letters.offset()));
        }
    }
    None
}

/// Characters with a lowercase form of several characters keep the first of them.
fn lower(letter: char) -> char {
    if letter.is_ascii() {
        letter.to_ascii_lowercase()
    } else {
        letter.to_lowercase().next().unwrap_or(letter)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(words: &str, text: &str, expect: &[&str]) {
        let needle = SearchNeedle::new(words).unwrap();
        let mut found = Vec::new();
        let mut from = 0;
        while let Some((start, end)) = needle.find(text, from) {
            found.push(&text[start..end]);
            from = end;
        }
        assert_eq!(found, expect, "{words} in {text}");
    }

    #[test]
    fn words_are_found_in_any_case_unless_they_have_one() {
        check(
            "error",
            "Error: an ERROR, errors",
            &["Error", "ERROR", "error"],
        );
        check("Error", "Error: an ERROR", &["Error"]);
        check("über", "ÜBER und über, uber", &["ÜBER", "über"]);
        check("aa", "aaaa", &["aa", "aa"]);
        check("x", "", &[]);
        check("long", "lon", &[]);
        check("é", "ééx", &["é", "é"]);
        check("世界", "hello 世界", &["世界"]);
        check(" ", "a b", &[" "]);
    }

    #[test]
    fn nothing_is_not_looked_for() {
        assert_eq!(SearchNeedle::new(""), None);
    }
}
