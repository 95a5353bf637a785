//! `search_files`: lines by pattern, files by glob, and result limits.

use serde_json::json;

use crate::fixture::{ToolFixture, run_test};

async fn world() -> ToolFixture {
    let world = ToolFixture::new().await;
    world.put(".gitignore", "ignored\n");
    world.put(".github/ci.yml", "needle: yes\n");
    world.put("a.rs", "one\nneedle a\nthree\nfour\nfive\nNEEDLE b\n");
    world.put("ignored", "needle\n");
    world.put("src/b.rs", "let needle = 1;\n");
    world.put("binary", b"needle\0");
    world
}

#[test]
fn matches_are_grouped_by_file() {
    run_test(async {
        let world = world().await;
        let check = async |input, expect: &str| {
            assert_eq!(world.call_text("search_files", input).await, expect);
        };
        let ci = ".github/ci.yml\n1:needle: yes\n";
        let b = "src/b.rs\n1:let needle = 1;\n";
        check(
            json!({"pattern": "needle"}),
            &format!("{ci}\na.rs\n2:needle a\n\n{b}"),
        )
        .await;
        check(json!({"pattern": "needle", "path": "src"}), b).await;
        check(
            json!({"pattern": "needle", "path": "/workspace/src/"}),
            "/workspace/src/b.rs\n1:let needle = 1;\n",
        )
        .await;
        check(
            json!({"pattern": "NEEDLE|^f", "path": "a.rs"}),
            "/workspace/a.rs\n4:four\n5:five\n6:NEEDLE b\n",
        )
        .await;
        check(
            json!({"pattern": "needle", "case_insensitive": true, "glob": ["*.rs", "!src/**"], "context": 1}),
            "a.rs\n1-one\n2:needle a\n3-three\n--\n5-five\n6:NEEDLE b\n",
        )
        .await;
        check(
            json!({"pattern": "needle", "glob": ["ignored"], "all": true}),
            "ignored\n1:needle\n",
        )
        .await;
        check(
            json!({"pattern": "nothing"}),
            "no line matches `nothing`; ignored files were not searched, `all` includes them",
        )
        .await;
        check(
            json!({"pattern": "needle", "limit": 1}),
            &format!("{ci}[1 match shown, there are more: narrow the search]\n"),
        )
        .await;
        world.end().await;
    });
}

#[test]
fn without_a_pattern_files_are_found_by_name() {
    run_test(async {
        let world = world().await;
        let check = async |input, expect: &str| {
            assert_eq!(world.call_text("search_files", input).await, expect);
        };
        check(json!({"glob": ["*.rs"]}), "a.rs\nsrc/b.rs\n").await;
        check(
            json!({"glob": ["*.yml", "b*"], "pattern": ""}),
            ".github/ci.yml\nbinary\nsrc/b.rs\n",
        )
        .await;
        check(json!({"glob": ["*.rs"], "path": "src"}), "src/b.rs\n").await;
        check(
            json!({"glob": ["*.rs"], "limit": 1}),
            "a.rs\n[there are more: narrow the glob]\n",
        )
        .await;
        check(
            json!({"glob": ["ignored"]}),
            "no file matches; ignored files were left out, `all` includes them",
        )
        .await;
        check(json!({"glob": ["ignored"], "all": true}), "ignored\n").await;
        world.end().await;
    });
}

#[test]
fn invalid_searches_are_explained_and_long_results_are_cut() {
    run_test(async {
        let world = world().await;
        let check = async |input, says: &str| {
            let why = world.refused("search_files", input).await;
            assert!(why.contains(says), "{why}");
        };
        check(json!({"pattern": "(open"}), "cannot understand the pattern").await;
        check(
            json!({"pattern": "x", "glob": ["{a"]}),
            "cannot understand the glob",
        )
        .await;
        check(json!({"glob": ["{a"]}), "cannot understand the glob").await;
        check(
            json!({"pattern": "x", "path": "nowhere"}),
            "cannot search `/workspace/nowhere`: No such file",
        )
        .await;
        let long = format!("{}needle{}\n", "ä".repeat(500), "x".repeat(100_000));
        world.put("long", long.repeat(3));
        let found = world
            .call_text("search_files", json!({"pattern": "needle", "path": "long"}))
            .await;
        assert!(found.len() < 1200 && found.contains("ä…\n2:"), "{found}");
        world.put(
            "many",
            "needle in a line of some length, again and again\n".repeat(5000),
        );
        let found = world
            .call_text(
                "search_files",
                json!({"pattern": "needle", "path": "many", "limit": 5000}),
            )
            .await;
        assert!(found.len() < 34_000, "{}", found.len());
        assert!(
            found.ends_with("shown, there are more: narrow the search]\n"),
            "{found}"
        );
        world.end().await;
    });
}
