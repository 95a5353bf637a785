//! Command output keeps its colours and loses all other control sequences.

use proptest::prelude::*;
use ratatui::style::Style;

use super::{assert_safe, hostile, plain, styled};
use crate::text::output_lines;
use crate::theme::{ColourScheme, Theme};

fn check(scheme: ColourScheme, input: &str, expect: &str) {
    let lines = output_lines(input, 40, Style::new(), &Theme::new(scheme));
    assert_eq!(styled(&lines), expect, "{input:?}");
}

#[test]
fn styles_are_kept() {
    let check = |input, expect| check(ColourScheme::Dark, input, expect);
    check("\u{1b}[31mred\u{1b}[0m plain", "{red|red} plain");
    check(
        "\u{1b}[1;3;4mall\u{1b}[22mless\u{1b}[mnone",
        "{bold italic underlined|all}{italic underlined|less}none",
    );
    check(
        "\u{1b}[2mdim\u{1b}[7mback\u{1b}[27;22m.",
        "{dim|dim}{dim reversed|back}.",
    );
    check("\u{1b}[92mbright\u{1b}[39m.", "{lightgreen|bright}.");
    check("\u{1b}[38;5;208mindexed", "{indexed(208)|indexed}");
    check("\u{1b}[38;5;1mnamed", "{red|named}");
    check("\u{1b}[38;2;1;200;3mexact", "{rgb(1, 200, 3)|exact}");
    check(
        "\u{1b}[38:2::1:200:3mexact\u{1b}[38:5:9m.",
        "{rgb(1, 200, 3)|exact}{lightred|.}",
    );
    check("\u{1b}[4:3mcurly\u{1b}[4:0m.", "{underlined|curly}.");
    check(
        "\u{1b}[31mone\ntwo\u{1b}[0m\nthree",
        "{red|one}\n{red|two}\nthree",
    );
    check("\u{9b}31mred", "{red|red}");
    check("\u{1b}[31;99;38;5;300mred", "{red|red}");
}

#[test]
fn nothing_is_hidden() {
    let dark = |input, expect| check(ColourScheme::Dark, input, expect);
    dark("\u{1b}[8mconcealed", "concealed");
    dark("\u{1b}[5mblinking", "blinking");
    dark("\u{1b}[31;41msame", "same");
    dark("\u{1b}[38;2;0;0;0mblack", "black");
    dark("\u{1b}[30mblack", "black");
    dark("\u{1b}[38;2;10;10;10;48;2;12;12;12malmost", "almost");
    dark("\u{1b}[38;5;16;48;5;0msame", "same");
    dark("\u{1b}[107mground", "{black on-white|ground}");
    dark("\u{1b}[44mground", "{white on-blue|ground}");
    dark("\u{1b}[30;43mseen", "{black on-yellow|seen}");
    check(ColourScheme::Light, "\u{1b}[97mwhite", "white");
    check(ColourScheme::Light, "\u{1b}[30mblack", "{black|black}");
}

#[test]
fn without_colours_there_are_no_styles() {
    check(ColourScheme::Plain, "\u{1b}[1;31;44mred\u{1b}[0m", "red");
}

#[test]
fn carriage_returns_overwrite_the_line() {
    let check = |input, expect: &str| {
        let lines = output_lines(input, 10, Style::new(), &Theme::new(ColourScheme::Dark));
        assert_eq!(plain(&lines), expect, "{input:?}");
    };
    check("", "");
    check("\n", "");
    check("a\n\nb\n", "a\n\nb");
    check("10%\r\u{1b}[32m99%", "99%");
    check("a\tb\u{1b}[31m\tc", "a       b \n      c");
    check("abcdefghijkl", "abcdefghij\nkl");
    check("x\u{1b}[31my\u{8}\u{8}z", "z");
}

proptest! {
    #[test]
    fn any_output_is_safe(text in hostile(), width in 0..40_u16) {
        for scheme in [ColourScheme::Dark, ColourScheme::Light, ColourScheme::Plain] {
            let theme = Theme::new(scheme);
            assert_safe(&output_lines(&text, width, theme.dim, &theme), width);
        }
    }
}
