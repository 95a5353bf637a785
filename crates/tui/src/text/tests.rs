//! Tests of untrusted text.
#![allow(clippy::unwrap_used)]

mod clean;
mod code;
mod diff;
mod output;
mod wrap;

use proptest::prelude::*;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use unicode_width::UnicodeWidthChar;

/// The text without styles.
pub(super) fn plain(lines: &[Line<'_>]) -> String {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The text with its styles: `{green bold|word}`.
pub(super) fn styled(lines: &[Line<'_>]) -> String {
    let line = |line: &Line<'_>| -> String {
        line.spans
            .iter()
            .map(|span| {
                let names = style_names(line.style.patch(span.style));
                if names.is_empty() {
                    span.content.to_string()
                } else {
                    format!("{{{names}|{}}}", span.content)
                }
            })
            .collect()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn style_names(style: Style) -> String {
    let mut names = Vec::new();
    let colour = |colour: Color| format!("{colour:?}").to_lowercase();
    names.extend(style.fg.map(colour));
    names.extend(style.bg.map(|ground| format!("on-{}", colour(ground))));
    for (modifier, name) in [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::ITALIC, "italic"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
        (Modifier::CROSSED_OUT, "crossed"),
    ] {
        if style.add_modifier.contains(modifier) {
            names.push(name.to_owned());
        }
    }
    names.join(" ")
}

/// Asserts that no line is too wide, and that no span has control sequences or characters that hide
/// words.
pub(super) fn assert_safe(lines: &[Line<'_>], width: u16) {
    for line in lines {
        assert!(line.width() <= usize::from(width), "{width}: {line:?}");
        for span in &line.spans {
            assert_harmless(&span.content, false);
            assert!(!span.style.add_modifier.contains(Modifier::HIDDEN));
            assert!(span.style.fg.is_none() || span.style.fg != span.style.bg);
        }
    }
}

pub(super) fn assert_harmless(text: &str, may_have_lines: bool) {
    let mut marks = 0;
    for character in text.chars() {
        let is_line = may_have_lines && matches!(character, '\n' | '\t');
        assert!(
            is_line || !character.is_control(),
            "{character:?} in {text:?}"
        );
        let code = u32::from(character);
        let is_hidden = matches!(
            code,
            0x61c | 0x200b | 0x200e | 0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xad | 0xfe00..=0xfe0d | 0xe0000..=0xe0fff
        );
        assert!(!is_hidden, "{code:x} in {text:?}");
        marks = if character.width() == Some(0) {
            marks + 1
        } else {
            0
        };
        assert!(marks <= 11, "{marks} marks in {text:?}");
    }
}

/// Hostile text: control characters, incomplete sequences, odd characters, and words.
pub(super) fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,12}",
        3 => prop::sample::select(vec![
            "\u{1b}", "\u{1b}[", "\u{1b}[31m", "\u{1b}[38;5;0;48;5;0m", "\u{1b}[8m", "\u{1b}[2J",
            "\u{1b}]0;title\u{7}", "\u{1b}]8;;http://a\u{1b}\\", "\u{1b}P", "\u{1b}_", "\u{1b}X",
            "\u{1b}(0", "\u{9b}31m", "\u{9d}0;x\u{9c}", "\u{90}", "\u{7}", "\r", "\r\n", "\n", "\t",
            "\u{8}", "\u{0}", "\u{7f}", "\u{85}", "\u{202e}", "\u{2066}", "\u{200b}", "\u{200d}",
            "\u{fe0f}", "\u{fe01}", "\u{e0041}", "\u{feff}", "\u{2028}", "\u{301}", "e\u{301}\u{301}",
            "👩\u{200d}💻", "👍🏽", "🇩🇪", "1\u{fe0f}\u{20e3}", "表", "ｶﾞ", "क्षि", "ᄀᄀᄀ", "لا", "<br>",
            "&#27;[31m", "&#x202e;", "&#155;", "**", "`", "```", "~~~\n", "| a | b |\n|---|---|\n",
            "- ", "> ", "1. ", "# ", "[a](b)", "[a]: b\n", "---\n", "\\", "<", "@@ -1 +1 @@\n", "+", "-",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Where to cut a text, relative to its length.
pub(super) fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..8)
}

/// The pieces of a text.
pub(super) fn cut<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut positions: Vec<usize> = cuts
        .iter()
        .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
        .collect();
    positions.extend([0, text.len()]);
    positions.sort_unstable();
    positions
        .windows(2)
        .map(|pair| &text[pair[0]..pair[1]])
        .collect()
}
