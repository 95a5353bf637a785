//! Diffs in colours.

use proptest::prelude::*;

use super::{assert_safe, hostile, plain, styled};
use crate::text::diff_lines;
use crate::theme::{ColourScheme, Theme};

fn check(width: u16, diff: &str, expect: &str) {
    let lines = diff_lines(diff, width, &Theme::new(ColourScheme::Dark));
    assert_eq!(styled(&lines), expect, "{diff:?}");
}

#[test]
fn signs_and_colours_say_what_changed() {
    check(
        40,
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n same\n-gone\n-too\n+new\n last\n",
        "{dim|--- a/x}\n{dim|+++ b/x}\n{cyan dim|@@ -1,3 +1,3 @@}\n same\n{red|-}{red|gone}\n{red|-}{red|too}\n{green|+}{green|new}\n last",
    );
}

#[test]
fn changed_words_stand_out() {
    check(
        60,
        "@@ -1 +1 @@\n-let count = items.len();\n+let total = items.len() + 1;\n",
        "{cyan dim|@@ -1 +1 @@}\n\
         {red|-}{red|let }{red bold underlined|count}{red| = items.len();}\n\
         {green|+}{green|let }{green bold underlined|total}{green| = items.len()}{green bold underlined| + 1}{green|;}",
    );
    // Nothing in common: nothing is emphasised.
    check(
        60,
        "@@ -1 +1 @@\n-alpha beta\n+nothing alike\n",
        "{cyan dim|@@ -1 +1 @@}\n{red|-}{red|alpha beta}\n{green|+}{green|nothing alike}",
    );
}

#[test]
fn hunk_lines_are_not_file_names() {
    check(
        40,
        "@@ -1,2 +1,2 @@\n--- a comment\n+++ more\n x\n",
        "{cyan dim|@@ -1,2 +1,2 @@}\n{red|-}{red|-- a comment}\n{green|+}{green|++ more}\n x",
    );
    check(40, "… more changes follow\n", "{dim|… more changes follow}");
    check(40, "-old\n+new\n", "{red|-}{red|old}\n{green|+}{green|new}");
}

#[test]
fn long_lines_keep_a_column_for_the_sign() {
    let lines = diff_lines(
        "@@ -0,0 +1 @@\n+abcdefghij\n",
        5,
        &Theme::new(ColourScheme::Plain),
    );
    assert_eq!(plain(&lines), "@@ -0\n,0 +1\n @@\n+abcd\n efgh\n ij");
}

#[test]
fn a_diff_hides_nothing() {
    let lines = diff_lines(
        "@@ -0,0 +1 @@\n+evil\rgood\u{1b}]0;x\n",
        40,
        &Theme::new(ColourScheme::Dark),
    );
    assert_eq!(plain(&lines), "@@ -0,0 +1 @@\n+evil␍good␛]0;x");
}

proptest! {
    #[test]
    fn any_diff_is_safe(text in hostile(), width in 0..30_u16) {
        for scheme in [ColourScheme::Dark, ColourScheme::Plain] {
            assert_safe(&diff_lines(&text, width, &Theme::new(scheme)), width);
        }
    }
}
