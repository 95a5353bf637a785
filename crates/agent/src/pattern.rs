//! Patterns of rules: `*` matches any text, including none; `\` makes the next character literal.
//! Pure.

/// How specific a pattern is: its number of literal characters, and whether it has no wildcard.
pub(crate) type Specificity = (usize, bool);

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternPiece {
    Literal(char),
    Anything,
}

fn pieces(pattern: &str) -> Vec<PatternPiece> {
    let mut characters = pattern.chars();
    let mut pieces = Vec::new();
    while let Some(character) = characters.next() {
        pieces.push(match character {
            '*' => PatternPiece::Anything,
            // A `\` at the end stands for itself.
            '\\' => PatternPiece::Literal(characters.next().unwrap_or('\\')),
            literal => PatternPiece::Literal(literal),
        });
    }
    pieces
}

/// Whether the pattern matches the whole text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pieces = pieces(pattern);
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut position) = (0, 0);
    // The last wildcard, and where the text after its match begins.
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pieces.get(at) {
            Some(PatternPiece::Literal(literal)) if *literal == text[position] => {
                at += 1;
                position += 1;
            }
            Some(PatternPiece::Anything) => {
                star = Some((at, position));
                at += 1;
            }
            // Only the last wildcard has to grow: those before it have already matched as early as possible.
            _ => match &mut star {
                Some((pattern_at, text_at)) => {
                    *text_at += 1;
                    position = *text_at;
                    at = *pattern_at + 1;
                }
                None => return false,
            },
        }
    }
    pieces[at..]
        .iter()
        .all(|piece| *piece == PatternPiece::Anything)
}

pub(crate) fn specificity(pattern: &str) -> Specificity {
    let pieces = pieces(pattern);
    let stars = pieces
        .iter()
        .filter(|piece| **piece == PatternPiece::Anything);
    let stars = stars.count();
    (pieces.len() - stars, stars == 0)
}

/// The pattern that matches only this text.
pub(crate) fn exactly(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        let check = |pattern: &str, text: &str, expect: bool| {
            assert_eq!(matches(pattern, text), expect, "{pattern} {text}");
        };
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("*", "any\nthing", true);
        check("git push*", "git push", true);
        check("git push*", "git push --force", true);
        check("git push*", "git pull", false);
        check("git push*", "echo; git push", false);
        check("*git push*", "echo; git push", true);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("*ab", "aab", true);
        check("**a**", "a", true);
        check(r"rm \*.o", "rm *.o", true);
        check(r"rm \*.o", "rm a.o", false);
        check(r"a\", r"a\", true);
        check(r"a\\", r"a\", true);
        check("é*", "éa", true);
    }

    #[test]
    fn many_stars_are_matched_without_backtracking() {
        let text = "a".repeat(10_000);
        assert!(!matches(&format!("{}b", "*a".repeat(500)), &text));
    }

    proptest! {
        #[test]
        fn an_exact_pattern_matches_one_text(text in ".{0,40}", other in ".{0,40}") {
            let pattern = exactly(&text);
            prop_assert!(matches(&pattern, &text));
            prop_assert_eq!(matches(&pattern, &other), text == other);
            prop_assert_eq!(specificity(&pattern), (text.chars().count(), true));
        }

        #[test]
        fn stars_match_whatever_replaces_them(parts in prop::collection::vec("[ab*\\\\]{0,4}", 1..5), fills in prop::collection::vec("[ab]{0,4}", 4)) {
            let pattern = parts.iter().map(|part| exactly(part)).collect::<Vec<_>>().join("*");
            let mut text = parts[0].clone();
            for (part, fill) in parts[1..].iter().zip(&fills) {
                text.push_str(fill);
                text.push_str(part);
            }
            prop_assert!(matches(&pattern, &text), "{} {}", pattern, text);
        }
    }
}
