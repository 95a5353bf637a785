//! Syntax colours of code.

use std::sync::mpsc::channel;

use proptest::prelude::*;

use super::{assert_safe, hostile, plain, styled};
use crate::text::{Markdown, SyntaxColours, code_lines};
use crate::theme::{ColourScheme, Theme};

fn theme(scheme: ColourScheme, languages: &[&str]) -> Theme {
    Theme {
        colours: Some(SyntaxColours::ready(languages)),
        ..Theme::new(scheme)
    }
}

#[test]
fn code_is_highlighted() {
    let code = "// note\nfn main() { let x: u32 = 1; print(\"hi\\n\"); }\n";
    let dark = theme(ColourScheme::Dark, &["rust", "main.rs", "data.json"]);
    insta::assert_snapshot!(styled(&code_lines(code, "rust", 80, &dark)), @r#"
    {dim|// note}
    {magenta|fn} {lightblue|main}() { {magenta|let} x: {magenta|u32} = {cyan|1}; {lightblue|print}({green|"hi}{cyan|\n}{green|"}); }
    "#);
    assert_eq!(
        code_lines(code, "rust", 80, &dark),
        code_lines(code, "src/main.rs", 80, &dark),
    );
    insta::assert_snapshot!(
        styled(&code_lines("{\"key\": [1, true, \"text\"]}", "data.json", 80, &dark)), @r#"{{lightblue|"key"}: [{cyan|1}, {cyan|true}, {green|"text"}]}"#
    );
    let light = theme(ColourScheme::Light, &["python"]);
    insta::assert_snapshot!(
        styled(&code_lines("def f(x):\n    return f\"{x} items\"  # done", "python", 80, &light)), @r#"
        {magenta|def} {blue|f}(x):
            {magenta|return} {magenta|f}{green|"}{x}{green| items"}  {dim|# done}
        "#
    );
}

#[test]
fn languages_have_aliases() {
    let names = [
        "rs",
        "Rust",
        "rust,no_run",
        "py",
        "python3",
        "js",
        "jsx",
        "ts",
        "tsx",
        "go",
        "golang",
        "c",
        "cpp",
        "c++",
        "java",
        "sh",
        "bash",
        "console",
        "json",
        "jsonc",
        "yaml",
        "yml",
        "toml",
        "html",
        "css",
        "sql",
        "diff",
        "dockerfile",
        "Dockerfile",
        "Makefile",
        "lib/a.rb",
        "x.kt",
        "markdown",
        "xml",
        "lua",
        "swift",
        "zig",
        "nix",
        "{.python}",
    ];
    let bare: Vec<String> = names
        .iter()
        .map(|name| name.trim_matches(['{', '}', '.']).to_lowercase())
        .map(|name| name.split(',').next().unwrap().to_owned())
        .map(|name| name.rsplit('/').next().unwrap().to_owned())
        .collect();
    let bare: Vec<&str> = bare.iter().map(String::as_str).collect();
    let colours = SyntaxColours::ready(&bare);
    for name in names {
        assert!(colours.highlighter(name, "").0.is_some(), "{name}");
    }
    for name in ["", "text", "no-such-language", "src/", &"x".repeat(100)] {
        assert!(colours.highlighter(name, "").0.is_none(), "{name}");
    }
}

#[test]
fn code_is_plain_without_colours() {
    let code = "fn main() {}";
    for theme in [
        Theme::new(ColourScheme::Dark),
        theme(ColourScheme::Plain, &["rust"]),
        theme(ColourScheme::Dark, &["python"]),
    ] {
        assert_eq!(styled(&code_lines(code, "rust", 80, &theme)), code);
    }
}

#[test]
fn very_long_code_is_plain() {
    let theme = theme(ColourScheme::Dark, &["rust"]);
    let long = "let x = 1;\n".repeat(2_001);
    let lines = code_lines(&long, "rust", 80, &theme);
    assert_eq!(lines.len(), 2_001);
    assert_eq!(styled(&lines[..1]), "let x = 1;");
    let wide = format!("let x = 1;\nlet y = \"{}\";\nlet z = 2;", "y".repeat(2_000));
    let lines = code_lines(&wide, "rust", 4_000, &theme);
    assert_ne!(styled(&lines[..1]), "let x = 1;");
    assert_eq!(styled(&lines[2..]), "let z = 2;");
}

#[test]
fn colours_arrive_from_the_background_thread() {
    let (woken, wakes) = channel();
    let colours = SyntaxColours::start(move || woken.send(()).unwrap());
    let now = Theme {
        colours: Some(colours),
        ..Theme::new(ColourScheme::Dark)
    };
    let plain_page = Theme::new(ColourScheme::Dark);
    let ready = theme(ColourScheme::Dark, &["rust"]);
    let short = "fn main() {}\n";
    let long = "let text = \"open\nclosed\"; // 1\n".repeat(30);

    // First the language is loaded, then long code is coloured.
    let before = colours.generation();
    assert_eq!(
        code_lines(short, "rust", 80, &now),
        code_lines(short, "rust", 80, &plain_page)
    );
    wakes.recv().unwrap();
    assert!(colours.generation() > before);
    assert_eq!(
        code_lines(short, "rust", 80, &now),
        code_lines(short, "rust", 80, &ready)
    );

    let before = colours.generation();
    assert_eq!(
        code_lines(&long, "rust", 20, &now),
        code_lines(&long, "rust", 20, &plain_page)
    );
    wakes.recv().unwrap();
    assert!(colours.generation() > before);
    let lines = code_lines(&long, "rust", 20, &now);
    assert_ne!(styled(&lines), plain(&lines));
    assert_eq!(lines, code_lines(&long, "rust", 20, &ready));

    // Also in the middle of a growing text.
    let mut markdown = Markdown::default();
    markdown.push("- list\n\n```rust\n");
    markdown.push(&"let y = \"open\n\";\n".repeat(20));
    let unready = markdown.lines(20, &now);
    wakes.recv().unwrap();
    assert_ne!(markdown.lines(20, &now), unready);
    markdown.push("let z = 1;\n```\n\nend");
    assert_eq!(
        styled(&markdown.lines(20, &now)),
        styled(&Markdown::new(markdown.source()).lines(20, &ready)),
    );
}

proptest! {
    #[test]
    fn any_code_is_safe(text in hostile(), width in 0..30_u16) {
        let theme = Theme::new(ColourScheme::Dark);
        assert_safe(&code_lines(&text, "rust", width, &theme), width);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn colours_change_no_text(text in hostile(), width in 1..30_u16) {
        static COLOURS: std::sync::OnceLock<&SyntaxColours> = std::sync::OnceLock::new();
        let colours = COLOURS.get_or_init(|| SyntaxColours::ready(&["bash"]));
        let coloured = Theme { colours: Some(colours), ..Theme::new(ColourScheme::Dark) };
        let lines = code_lines(&text, "bash", width, &coloured);
        assert_safe(&lines, width);
        prop_assert_eq!(plain(&lines), plain(&code_lines(&text, "bash", width, &Theme::new(ColourScheme::Dark))));
    }
}
