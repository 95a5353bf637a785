//! Wrapped lines fit their width, and no text is lost.

use proptest::prelude::*;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::{assert_safe, hostile, plain, styled};
use crate::text::{clean, fit, wrap_line, wrap_plain, wrap_prose, wrap_words};

#[test]
fn prose_breaks_between_words() {
    let check = |text, width, expect: &str| {
        assert_eq!(
            plain(&wrap_prose(text, width, Style::new())),
            expect,
            "{text:?}"
        );
    };
    check("the quick brown fox", 10, "the quick\nbrown fox");
    check("the quick", 9, "the quick");
    check("the  quick", 8, "the\nquick");
    check("a verylongwordindeed b", 8, "a verylo\nngwordin\ndeed b");
    check("  indented text", 10, "  indented\ntext");
    check("one\ntwo three", 20, "one\ntwo three");
    check("", 5, "");
    check("日本語の文章。次の文", 12, "日本語の文\n章。次の文");
    check(
        "word 👩\u{200d}💻👩\u{200d}💻",
        6,
        "word\n👩\u{200d}💻👩\u{200d}💻",
    );
}

#[test]
fn code_breaks_anywhere() {
    let check = |text, width, expect: &str| {
        assert_eq!(
            plain(&wrap_plain(text, width, Style::new())),
            expect,
            "{text:?}"
        );
    };
    check("the quick brown", 6, "the qu\nick br\nown");
    check("日本語", 5, "日本\n語");
    check("日本語", 1, "·\n·\n·");
    check("abc", 1, "a\nb\nc");
    check("abc", 0, "");
    check("a\nb", 5, "a\nb");
    check("ab\tc", 20, "ab    c");
}

#[test]
fn continuation_lines_are_indented() {
    let line = Line::from("one two three four");
    assert_eq!(
        plain(&wrap_words(&line, 10, "  ")),
        "one two\n  three\n  four"
    );
    assert_eq!(plain(&wrap_line(&line, 10, "> ")), "one two th\n> ree four");
    assert_eq!(
        plain(&wrap_line(&Line::from("abcd"), 2, ">>>>")),
        "ab\n>c\n>d"
    );
}

#[test]
fn styles_stay_with_their_characters() {
    let red = Style::new().fg(Color::Red);
    let line = Line::from(vec![
        Span::raw("one "),
        Span::styled("two three", red),
        Span::raw("four"),
    ]);
    assert_eq!(
        styled(&wrap_words(&line, 9, "")),
        "one {red|two}\n{red|three}four"
    );
}

#[test]
fn text_is_cut_to_fit() {
    let check = |text, width, expect: &str| assert_eq!(fit(text, width), expect, "{text:?}");
    check("short", 10, "short");
    check("exactly", 7, "exactly");
    check("too long", 7, "too lo…");
    check("日本語", 5, "日本…");
    check("日本語", 6, "日本語");
    check("abc", 1, "…");
    check("abc", 0, "");
    check("", 0, "");
    check("a\nb", 5, "a b");
    check("a\u{1b}b", 5, "ab");
}

proptest! {
    #[test]
    fn wrapping_keeps_the_width_and_all_characters(text in hostile(), width in 0..30_u16) {
        let cleaned = clean(&text);
        for line in cleaned.lines() {
            let line = Line::from(line.replace('\t', " "));
            for indent in ["", "  ", "    "] {
                let by_words = wrap_words(&line, width, indent);
                let by_letters = wrap_line(&line, width, indent);
                assert_safe(&by_words, width);
                assert_safe(&by_letters, width);
                if width > 12 {
                    let characters = |text: String| text.replace([' ', '\n'], "");
                    prop_assert_eq!(characters(plain(&by_words)), characters(line.to_string()));
                    prop_assert_eq!(characters(plain(&by_letters)), characters(line.to_string()));
                }
            }
            let fitting = fit(&line.to_string(), usize::from(width));
            prop_assert!(Line::from(fitting).width() <= usize::from(width));
        }
    }
}
