//! The asset files: all references exist, no file is unused, and nothing needs a wider policy than
//! the server's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that a browser opens.
const PAGES: [&str; 2] = ["index.html", "docs.html"];

/// Maximum total size before compression, so that a page loads quickly over a slow connection.
const MAX_TOTAL_BYTES: u64 = 400 * 1024;

const MAX_FILE_LINES: usize = 300;

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// Every file, by its name below the assets folder, with its text.
fn all() -> Vec<(String, String)> {
    let root = assets();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The text between each `before` and the next quotation mark.
fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// The files that a file refers to, as names below the assets folder.
fn referenced_files(name: &str, text: &str) -> Vec<String> {
    if name.ends_with(".html") {
        return ["src=\"/assets/", "href=\"/assets/"]
            .into_iter()
            .flat_map(|before| quoted(text, before))
            .map(str::to_owned)
            .collect();
    }
    if !name.ends_with(".js") {
        return Vec::new();
    }
    text.lines()
        .filter(|line| {
            line.starts_with("import ") || line.starts_with("export ") || line.starts_with("} from")
        })
        .flat_map(|line| quoted(line, "from \"").chain(quoted(line, "import \"")))
        .map(|target| resolve(name, target))
        .collect()
}

/// Resolves an import specifier relative to its module.
fn resolve(from: &str, target: &str) -> String {
    assert!(
        target.starts_with("./") || target.starts_with("../"),
        "`{from}` imports `{target}`, which is not a path"
    );
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop().unwrap();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn whatever_a_file_names_is_in_the_binary() {
    for (name, text) in all() {
        for target in referenced_files(&name, &text) {
            assert!(
                web::find(&target).is_some(),
                "`{name}` names `{target}`, which is not there"
            );
        }
    }
}

#[test]
fn every_file_is_used() {
    let all = all();
    let mut used: BTreeSet<String> = PAGES.map(str::to_owned).into();
    let mut new: Vec<String> = used.iter().cloned().collect();
    while let Some(name) = new.pop() {
        let (_, text) = all.iter().find(|(other, _)| *other == name).unwrap();
        for target in referenced_files(&name, text) {
            if used.insert(target.clone()) {
                new.push(target);
            }
        }
    }
    let unused: Vec<_> = all
        .iter()
        .filter(|(name, _)| !used.contains(name))
        .map(|(name, _)| name)
        .collect();
    assert!(unused.is_empty(), "no page needs {unused:?}");
}

#[test]
fn nothing_makes_markup_or_code_of_text() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "setHTML",
        "eval(",
        "new Function",
        "importScripts",
        "setTimeout(\"",
        "@import",
    ];
    for (name, text) in all() {
        for word in forbidden {
            assert!(!text.contains(word), "`{name}` contains `{word}`");
        }
    }
}

#[test]
fn nothing_is_fetched_from_elsewhere() {
    // Namespace names, and addresses that are shown as examples.
    let harmless = [
        "http://www.w3.org/",
        "https://example.com",
        "https://github.com/owner/name",
        "http:// or https://",
        "https://,",
    ];
    for (name, text) in all() {
        let mut rest = text;
        for known in harmless {
            rest = rest.replace(known, "");
        }
        for scheme in ["http://", "https://", "url(", "src=\"//", "href=\"//"] {
            assert!(!rest.contains(scheme), "`{name}` contains `{scheme}`");
        }
    }
}

#[test]
fn pages_have_no_inline_code_or_style() {
    for page in PAGES {
        let text = fs::read_to_string(assets().join(page)).unwrap();
        for tag in text.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            for attribute in tag.split_ascii_whitespace().skip(1) {
                let name = attribute.split('=').next().unwrap();
                assert!(!name.starts_with("on"), "`{page}` has `{attribute}`");
                assert_ne!(name, "style", "`{page}` has `{attribute}`");
            }
            let is_script = tag.starts_with("script");
            assert!(
                !is_script || tag.contains(" src=\""),
                "`{page}` has an inline script"
            );
            assert!(!tag.starts_with("style"), "`{page}` has inline styles");
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    let mut weight = 0;
    for (name, text) in all() {
        weight += text.len() as u64;
        let lines = text.lines().count();
        let head = match name.rsplit('.').next().unwrap() {
            "js" => "// ",
            "css" => "/* ",
            _ => continue,
        };
        assert!(
            text.starts_with(head),
            "`{name}` does not say what it is for"
        );
        let is_table = name.starts_with("styles/");
        assert!(
            is_table || lines <= MAX_FILE_LINES,
            "`{name}` has {lines} lines"
        );
    }
    assert!(weight < MAX_TOTAL_BYTES, "all files have {weight} bytes");
}

#[test]
fn files_have_their_media_types() {
    for (name, media_type) in [
        ("index.html", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("styles/base.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        assert_eq!(web::find(name).unwrap().media_type, media_type);
    }
    for name in ["", "nothing.js", "../Cargo.toml", "/etc/passwd", "styles"] {
        assert!(web::find(name).is_none(), "`{name}` is found");
    }
}
