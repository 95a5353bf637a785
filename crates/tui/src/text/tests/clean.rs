//! Control sequences are removed.

use std::borrow::Cow;

use proptest::prelude::*;

use super::{assert_harmless, cut, cuts, hostile};
use crate::text::clean::{TextCleaner, clean, reveal};

fn check(input: &str, expect: &str) {
    assert_eq!(clean(input), expect, "{input:?}");
}

#[test]
fn escape_sequences_are_removed_whole() {
    check("a\u{1b}[31mred\u{1b}[0m b", "ared b");
    check("a\u{1b}[?25lb\u{1b}[2Jc\u{1b}[10;20Hd", "abcd");
    check("a\u{1b}[>4;2mb\u{1b}[!pc", "abc");
    check("a\u{1b}]0;a title\u{7}b", "ab");
    check(
        "a\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b",
        "alinkb",
    );
    check("a\u{1b}]52;c;aGk=\u{1b}\\b", "ab");
    check("a\u{1b}Pq#0;2;0;0;0\u{1b}\\b", "ab");
    check(
        "a\u{1b}_Gf=24\u{1b}\\b\u{1b}^x\u{1b}\\c\u{1b}Xx\u{1b}\\d",
        "abcd",
    );
    check("a\u{1b}(0lqqk\u{1b}(Bb", "alqqkb");
    check("a\u{1b}7b\u{1b}8c\u{1b}Md\u{1b}ce", "abcde");
    check("a\u{1b}#8b\u{1b}%Gc", "abc");
    check("a\u{9b}31mb\u{9d}0;x\u{9c}c\u{90}q\u{9c}d", "abcd");
    check("a\u{1b}\u{1b}[31mb", "ab");
}

#[test]
fn an_unfinished_sequence_removes_at_most_its_line() {
    check("a\u{1b}]0;title\nb", "a\nb");
    check("a\u{1b}Pdata\nb", "a\nb");
    check("a\u{1b}[31\nb", "a\nb");
    check("a\u{1b}[31", "a");
    check("a\u{1b}", "a");
    check("a\u{1b}[31é", "aé");
    check("a\u{1b}]0;one\u{1b}[31mtwo", "atwo");
}

#[test]
fn overwritten_lines_show_their_last_content() {
    check("10%\r50%\r100%\n", "100%\n");
    check("one\r\ntwo\r\n", "one\ntwo\n");
    check("one\r\r\ntwo", "one\ntwo");
    check("done\r", "done");
    check("old\r\u{1b}[2Knew", "new");
    check("|\u{8}/\u{8}-", "-");
    check("N\u{8}NA\u{8}AM\u{8}M", "NAM");
    check("_\u{8}a", "a");
    check("ab\n\u{8}\u{8}c", "ab\nc");
    check("x👩\u{200d}💻\u{8}a", "xa");
}

#[test]
fn control_and_hidden_characters_are_removed() {
    check("a\u{0}b\u{7}c\u{b}d\u{c}e\u{7f}f\u{85}g", "abcdefg");
    check("a\u{202e}b\u{2066}c\u{2069}d\u{200e}e\u{61c}f", "abcdef");
    check("a\u{200b}b\u{feff}c\u{2060}d\u{ad}e", "abcde");
    check("a\u{e0041}\u{e0042}b", "ab");
    check("a\u{fe01}\u{fe0f}\u{fe0f}b\u{e0100}c", "abc");
    check("a\u{2028}b\u{2029}c", "a b c");
}

#[test]
fn meaningful_invisible_characters_stay() {
    for text in [
        "plain\n\ttext",
        "naïve café — “quotes”",
        "👩\u{200d}💻 👍🏽 🇩🇪 ✔\u{fe0f} 1\u{fe0f}\u{20e3}",
        "表示 ｶﾞ 한국어",
        "क\u{94d}\u{200d}ष می\u{200c}خواهم",
        "e\u{301}",
    ] {
        check(text, text);
        assert!(matches!(clean(text), Cow::Borrowed(_)), "{text:?}");
    }
    check("a\u{200d}b 👩\u{200d}x", "ab 👩x");
}

#[test]
fn long_runs_of_combining_marks_are_cut() {
    let tower = format!("a{}b", "\u{301}".repeat(500));
    check(&tower, &format!("a{}b", "\u{301}".repeat(8)));
    check("\u{301}a\n\u{301}b", "a\nb");
    check("1\u{1b}[31m\u{fe0f}\u{20e3}", "1");
    let family = "👩\u{200d}".repeat(100);
    assert!(clean(&family).matches('\u{200d}').count() < 90);
}

#[test]
fn reveal_shows_hidden_characters() {
    assert_eq!(reveal("a\u{1b}[31mb\r\nc\rd\u{8}\u{7f}"), "a␛[31mb\nc␍d␈␡");
    assert_eq!(
        reveal("x\u{202e}y\u{200b}z\u{9b}"),
        "x\u{fffd}y\u{fffd}z\u{fffd}"
    );
    assert_eq!(reveal("\tplain"), "\tplain");
}

proptest! {
    #[test]
    fn no_control_sequence_is_left(text in hostile(), cuts in cuts()) {
        let whole = clean(&text);
        assert_harmless(&whole, true);
        prop_assert_eq!(clean(&whole), whole.as_ref());
        assert_harmless(&reveal(&text), true);

        let mut cleaner = TextCleaner::default();
        let mut written = String::new();
        for piece in cut(&text, &cuts) {
            cleaner.write(piece, &mut written);
            assert_harmless(&written, true);
        }
        prop_assert_eq!(&written, whole.as_ref());

        for piece in cut(&text, &cuts) {
            assert_harmless(&clean(piece), true);
        }
    }

    #[test]
    fn any_text_is_made_harmless(text in any::<String>()) {
        assert_harmless(&clean(&text), true);
    }

    #[test]
    fn lines_are_cleaned_alone(text in hostile()) {
        let alone: Vec<_> = text.split('\n').map(clean).collect();
        let alone = alone.join("\n");
        prop_assert_eq!(clean(&text), alone);
    }
}
