//! Tests of markdown: its layout, and that it does not depend on the pieces in which it arrived.
#![allow(clippy::unwrap_used)]

mod document;

use proptest::prelude::*;

use super::super::tests::{assert_safe, cut, cuts, hostile, plain, styled};
use super::super::{Markdown, SyntaxColours};
use crate::theme::{ColourScheme, Theme};

const DOCUMENT: &str = include_str!("tests/document.md");

fn rendered(source: &str, width: u16) -> String {
    plain(&Markdown::new(source).lines(width, &Theme::new(ColourScheme::Dark)))
}

fn check(source: &str, expect: &str) {
    assert_eq!(rendered(source, 40), expect, "{source:?}");
}

#[test]
fn inline_styles() {
    let source =
        "# One\n\nA **bold** and *soft* `code` ~~gone~~ [text](http://a.b) word.\n\n> quoted";
    let page = |scheme| styled(&Markdown::new(source).lines(80, &Theme::new(scheme)));
    insta::assert_snapshot!(page(ColourScheme::Dark), @r"
    {cyan bold underlined|One}

    A {bold|bold} and {italic|soft} {yellow|code} {crossed|gone} {blue underlined|text}{dim| (http://a.b)} word.

    {dim|│ }quoted
    ");
    insta::assert_snapshot!(page(ColourScheme::Plain), @r"
    {bold underlined|One}

    A {bold|bold} and {italic|soft} `code` {crossed|gone} {underlined|text}{dim| (http://a.b)} word.

    {dim|│ }quoted
    ");
}

#[test]
fn list_items_have_a_hanging_indent() {
    check("- one\n- two", "• one\n• two");
    check("- one\n\n- two", "• one\n\n• two");
    check(
        "- one\n  - inner\n    - deep\n- two",
        "• one\n  - inner\n    • deep\n• two",
    );
    check("9. nine\n10. ten", " 9. nine\n10. ten");
    check(
        "1. one\n\n   more\n\n   ```sh\n   ls\n   ```\n2. two",
        "1. one\n\n   more\n\n     sh\n     ls\n\n2. two",
    );
    check("- [x] done\n- [ ] open", "✓ done\n○ open");
    check("- \n- b", "• \n• b");
    check(
        "- a line that is longer than the page is wide",
        "• a line that is longer than the page is\n  wide",
    );
    check("> - one\n>\n> two", "│ • one\n│\n│ two");
}

#[test]
fn links_show_where_they_lead() {
    check("[text](http://a.b/c)", "text (http://a.b/c)");
    check("<http://a.b>", "http://a.b");
    check("[a.b](https://a.b/)", "a.b");
    check("[http://good](http://evil)", "http://good (http://evil)");
    check("![alt](x.png)", "image: alt (x.png)");
    check("- one\n\n[a]: b\ntext", "• one\n\n[a]: b\n\ntext");
    check(
        "see [text][ref]\n\n[ref]: http://a.b",
        "see [text][ref]\n\n[ref]: http://a.b",
    );
}

#[test]
fn unsupported_markdown_is_shown_as_written() {
    check("<div>\n  text\n</div>", "<div>\n  text\n</div>");
    check("a <b>bold</b> c<br>d", "a <b>bold</b> c\nd");
    check("$a_1 * b_2$ and $$c_1$$", "$a_1 * b_2$ and $$c_1$$");
    check("it costs $5 or $10", "it costs $5 or $10");
    check("one\ntwo", "one\ntwo");
    check("---", &"─".repeat(40));
    check("", "");
    check("\n\n\n", "");
    check("    indented", "  indented");
}

#[test]
fn tables_fit_the_page() {
    let table = "| Name | Count | What it is |\n|:--|--:|:-:|\n| one | 1 | short |\n| three | 12345 | a longer cell of text |";
    insta::assert_snapshot!(rendered(table, 60), @r"
    Name  │ Count │      What it is
    ──────┼───────┼──────────────────────
    one   │     1 │         short
    three │ 12345 │ a longer cell of text
    ");
    insta::assert_snapshot!(rendered(table, 30), @r"
    Name  │ Count │   What it is
    ──────┼───────┼───────────────
    one   │     1 │     short
    ──────┼───────┼───────────────
    three │ 12345 │ a longer cell
          │       │    of text
    ");
    insta::assert_snapshot!(rendered(table, 14), @r"
    Name: one
    Count: 1
    What it is:
      short

    Name: three
    Count: 12345
    What it is: a
      longer cell
      of text
    ");
}

#[test]
fn control_names_have_no_effect() {
    check("a &#27;[31m b", "a [31m b");
    check("x&#x202e;y&#155;31mz", "xy31mz");
    check("[a](http://x&#27;y)", "a (http://x)");
    check("```a&#27;b\nc\n```", "  a&#27;b\n  c");
}

#[test]
fn unfinished_markup_does_not_flicker() {
    let check = |source: &str, expect: &str| {
        let mut markdown = Markdown::default();
        markdown.push(source);
        let lines = markdown.lines(40, &Theme::new(ColourScheme::Plain));
        assert_eq!(styled(&lines), expect, "{source:?}");
    };
    check("a **bold", "a {bold|bold}");
    check("a **bold*", "a {bold|bold}");
    check("a **", "a");
    check("a `code", "a `code`");
    check("a `", "a");
    check("a ~~gone", "a {crossed|gone}");
    check("**bold *both", "{bold|bold }{bold italic|both}");
    check("2 * 3 and 4", "2 * 3 and 4");
    check("a [text](http://x", "a {underlined|text}{dim| (http://x)}");
    check("words\n-", "words");
    check("words\n=", "words");
    check("words\n```", "words");
    check("| a | b |", "{bold|a}{dim| │ }{bold|b}\n{dim|──┼──}");
    check("| a | b |\n|--", "{bold|a}{dim| │ }{bold|b}\n{dim|──┼──}");
    check("- one\n- **two", "{dim|• }one\n{dim|• }{bold|two}");
    check("```sh\nls\n``", "{dim|  }{dim|sh}\n  ls");
    check("```sh\nls **", "{dim|  }{dim|sh}\n  ls **");
}

#[test]
fn the_end_of_a_whole_text_is_shown_as_written() {
    let mut markdown = Markdown::default();
    markdown.push("the glob **/*.rs");
    markdown.finish();
    let theme = Theme::new(ColourScheme::Plain);
    assert_eq!(plain(&markdown.lines(40, &theme)), "the glob **/*.rs");
    assert_eq!(markdown.source(), "the glob **/*.rs");
}

#[test]
fn line_ranges_match_the_whole_layout() {
    let theme = Theme::new(ColourScheme::Dark);
    let markdown = Markdown::new(DOCUMENT);
    let lines = markdown.lines(60, &theme);
    assert_eq!(lines.len(), markdown.line_count(60, &theme));
    for from in 0..lines.len() + 2 {
        for count in [0, 1, 7, 1000] {
            let whole = lines
                .iter()
                .skip(from)
                .take(count)
                .cloned()
                .collect::<Vec<_>>();
            assert_eq!(markdown.lines_range(from..from + count, 60, &theme), whole);
        }
    }
}

#[test]
fn code_is_coloured_when_visible() {
    let theme = Theme {
        colours: Some(SyntaxColours::ready(&["rust"])),
        ..Theme::new(ColourScheme::Dark)
    };
    let source = "```rust\nlet a = 1;\n\"open\nclosed\"\n```\n\n- ```rust\n  let b = 2;\n  ```\n";
    let whole = styled(&Markdown::new(source).lines(40, &theme));
    insta::assert_snapshot!(whole, @r#"
    {dim|  }{dim|rust}
      {magenta|let} a = {cyan|1};
      {green|"open}
      {green|closed"}

    {dim|• }{dim|  }{dim|rust}
        {magenta|let} b = {cyan|2};
    "#);
    // Line by line, from the middle, and character by character.
    let markdown = Markdown::new(source);
    assert_eq!(
        styled(&markdown.lines_range(3..4, 40, &theme)),
        whole.lines().nth(3).unwrap()
    );
    let mut grown = Markdown::default();
    for character in source.chars() {
        grown.push(&character.to_string());
        grown.line_count(40, &theme);
        grown.lines(40, &theme);
    }
    assert_eq!(styled(&grown.lines(40, &theme)), whole);
}

#[test]
fn deep_nesting_fits_the_width() {
    let theme = Theme::new(ColourScheme::Dark);
    for deep in ["> ".repeat(3_000) + "x", "- ".repeat(1_000) + "x"] {
        let lines = Markdown::new(&deep).lines(30, &theme);
        assert_safe(&lines, 30);
        assert!(plain(&lines).contains('x'));
    }
}

/// Pieces of markdown that interfere with each other.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "word",
        "two words",
        " ",
        "\n",
        "\n",
        "\n\n",
        "\n\n",
        "# ",
        "- ",
        "  - ",
        "1. ",
        "> ",
        "**",
        "*",
        "_",
        "`",
        "```",
        "```rust\n",
        "\n```\n",
        "~~~\n",
        "~~",
        "| a | b |\n",
        "|---|---|\n",
        "| c |",
        "[a](b)",
        "[a]: b",
        "[a]: b 't",
        "'",
        "    code",
        "---",
        "===",
        "<div>",
        "<!--",
        "-->",
        "\\",
        "&amp;",
        "- [ ] ",
        "$x$",
        "\t",
        "#",
        "1",
        ".",
        "é",
        "表",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn pieces_add_up_to_the_whole(source in markdown(), cuts in cuts(), width in 1..60_u16) {
        let theme = Theme::new(ColourScheme::Dark);
        let mut whole = Markdown::default();
        whole.push(&source);
        let mut grown = Markdown::default();
        for piece in cut(&source, &cuts) {
            grown.push(piece);
            grown.lines(width, &theme);
        }
        prop_assert_eq!(styled(&grown.lines(width, &theme)), styled(&whole.lines(width, &theme)));
        grown.finish();
        let new = Markdown::new(&source);
        prop_assert_eq!(styled(&grown.lines(width, &theme)), styled(&new.lines(width, &theme)));
        prop_assert_eq!(grown, new);
    }
}

proptest! {
    #[test]
    fn any_markdown_is_safe(source in hostile(), cuts in cuts(), width in 0..40_u16) {
        let theme = Theme::new(ColourScheme::Dark);
        let mut grown = Markdown::default();
        for piece in cut(&source, &cuts) {
            grown.push(piece);
            let lines = grown.lines(width, &theme);
            assert_safe(&lines, width);
            prop_assert_eq!(lines.len(), grown.line_count(width, &theme));
        }
        grown.finish();
        prop_assert_eq!(
            styled(&grown.lines(width, &theme)),
            styled(&Markdown::new(&source).lines(width, &theme))
        );
    }
}
