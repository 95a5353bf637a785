//! Searches: patterns, globs, ignored files, and limits of the result.

use std::fs;

use sandbox::request::{ByteString, RefusalKind, SearchMatch, SearchRequest};

use crate::world::{TestSandbox, assert_refused, within};

fn search(pattern: &str) -> SearchRequest {
    SearchRequest {
        path: ByteString::from("."),
        pattern: pattern.into(),
        case_insensitive: false,
        globs: Vec::new(),
        ignore: true,
        hidden: false,
        context: 0,
        limit: 100,
    }
}

async fn world() -> TestSandbox {
    let world = TestSandbox::new().await;
    for (path, content) in [
        (".gitignore", "ignored\n"),
        (".hidden", "needle hidden\n"),
        ("a.rs", "first\nneedle a\nthird\nfourth\nNEEDLE b\nlast"),
        ("binary", "needle\0needle\n"),
        ("crlf.txt", "needle crlf\r\n"),
        ("ignored", "needle ignored\n"),
        ("src/b.rs", "let needle = 1;\n"),
        ("src/c.txt", "no newline at the end: needle"),
    ] {
        let path = world.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    world
}

/// Matches as path:line:text, context with `-`.
async fn found(world: &TestSandbox, search: SearchRequest) -> (String, bool) {
    let batches = world.search(search).await.unwrap();
    let (matches, truncated) = batches.collect().await.unwrap();
    let line = |found: &SearchMatch| {
        let mark = if found.is_context { '-' } else { ':' };
        let SearchMatch {
            path, line, text, ..
        } = found;
        format!("{path}{mark}{line}{mark}{text}\n")
    };
    (matches.iter().map(line).collect(), truncated)
}

#[test]
fn a_search_finds_what_is_asked_for() {
    within(async {
        let world = world().await;
        let check = async |search: SearchRequest, expect: &[&str], truncated: bool| {
            let shown = format!("{search:?}");
            let expect: String = expect.iter().map(|line| format!("{line}\n")).collect();
            assert_eq!(found(&world, search).await, (expect, truncated), "{shown}");
        };
        let a = "a.rs:2:needle a";
        let b = "src/b.rs:1:let needle = 1;";
        let c = "src/c.txt:1:no newline at the end: needle";
        let crlf = "crlf.txt:1:needle crlf";
        check(search("needle"), &[a, crlf, b, c], false).await;
        check(search("nothing like it"), &[], false).await;
        check(search("^needle [ab]$"), &[a], false).await;
        check(search(r"\bneed\w+ = \d"), &[b], false).await;
        let insensitive = SearchRequest {
            case_insensitive: true,
            ..search("needle [ab]")
        };
        check(insensitive, &[a, "a.rs:5:NEEDLE b"], false).await;
        let globs = |globs: &[&str]| SearchRequest {
            globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            ..search("needle")
        };
        check(globs(&["*.rs"]), &[a, b], false).await;
        check(globs(&["src/**"]), &[b, c], false).await;
        check(globs(&["*.rs", "!src/**"]), &[a], false).await;
        check(globs(&["!*.rs"]), &[crlf, c], false).await;
        let everything = SearchRequest {
            ignore: false,
            ..search("needle")
        };
        let all = [
            ".hidden:1:needle hidden",
            a,
            crlf,
            "ignored:1:needle ignored",
            b,
            c,
        ];
        check(everything, &all, false).await;
        let context = SearchRequest {
            context: 1,
            globs: vec!["a.rs".into()],
            ..search("needle a")
        };
        check(context, &["a.rs-1-first", a, "a.rs-3-third"], false).await;
        let limit = |limit| SearchRequest {
            limit,
            ..search("needle")
        };
        check(limit(4), &[a, crlf, b, c], false).await;
        check(limit(3), &[a, crlf, b], true).await;
        check(limit(0), &[], true).await;
        let path = |path: &str| SearchRequest {
            path: ByteString::from(path),
            ..search("needle")
        };
        check(
            path("src"),
            &[
                "b.rs:1:let needle = 1;",
                "c.txt:1:no newline at the end: needle",
            ],
            false,
        )
        .await;
        check(
            path("/workspace/a.rs"),
            &["/workspace/a.rs:2:needle a"],
            false,
        )
        .await;
        world.end().await;
    });
}

#[test]
fn what_is_no_search_is_refused() {
    within(async {
        let world = world().await;
        let check = async |search: SearchRequest, kind, says| {
            let refused = world.search(search).await.unwrap().collect().await;
            assert_refused(refused, kind, says);
        };
        check(
            search("(open"),
            RefusalKind::Invalid,
            "cannot understand the pattern",
        )
        .await;
        check(
            search("a\\nb"),
            RefusalKind::Invalid,
            "cannot understand the pattern",
        )
        .await;
        let bad_glob = SearchRequest {
            globs: vec!["{a".into()],
            ..search("x")
        };
        check(bad_glob, RefusalKind::Invalid, "cannot understand the glob").await;
        let nowhere = SearchRequest {
            path: ByteString::from("nowhere"),
            ..search("x")
        };
        check(
            nowhere,
            RefusalKind::NotFound,
            "cannot search `/workspace/nowhere`",
        )
        .await;
        world.end().await;
    });
}

#[test]
fn long_lines_are_cut_and_many_matches_come_in_parts() {
    within(async {
        let world = TestSandbox::new().await;
        fs::write(world.path("minified.js"), "x".repeat(1 << 20)).unwrap();
        let batches = world.search(search("x")).await.unwrap();
        let (matches, _) = batches.collect().await.unwrap();
        assert_eq!(matches.len(), 1);
        assert_eq!(matches[0].text.0.len(), 4096);
        let many: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
        fs::write(world.path("many"), many).unwrap();
        let everything = SearchRequest {
            limit: u64::MAX,
            ..search("^line")
        };
        let batches = world.search(everything.clone()).await.unwrap();
        let (matches, truncated) = batches.collect().await.unwrap();
        assert_eq!((matches.len(), truncated), (20_000, false));
        assert!(
            matches
                .iter()
                .enumerate()
                .all(|(i, found)| found.line == i as u64 + 1)
        );
        // Dropping the stream in the middle is allowed.
        for _ in 0..10 {
            let mut batches = world.search(everything.clone()).await.unwrap();
            assert!(batches.next().await.unwrap().is_some());
        }
        assert_eq!(
            world.stat("many").await.unwrap().kind,
            sandbox::request::FileKind::File
        );
        world.end().await;
    });
}
