//! `list_files`: the tree, ignored files, and limits.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::fixture::{ToolFixture, run_test};

#[test]
fn a_tree_leaves_out_what_is_ignored() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put(".git/HEAD", "");
        world.put(".github/ci.yml", "12345");
        world.put(".gitignore", "target\n");
        world.put("src/deep/er/x.rs", "");
        world.put("src/main.rs", "x".repeat(20_000));
        world.put("target/out", "");
        symlink("src/main.rs", world.path("link")).unwrap();
        let check = async |input, expect: &str| {
            assert_eq!(world.call_text("list_files", input).await, expect);
        };
        check(
            json!({}),
            ".github/\n  ci.yml  5 bytes\n.gitignore  7 bytes\nlink -> src/main.rs\n\
             src/\n  deep/\n    er/\n  main.rs  20 kB\n",
        )
        .await;
        check(
            json!({"path": "src", "depth": 1}),
            "deep/\nmain.rs  20 kB\n",
        )
        .await;
        check(
            json!({"depth": 1, "all": true}),
            ".git/\n.github/\n.gitignore  7 bytes\nlink -> src/main.rs\nsrc/\ntarget/\n",
        )
        .await;
        world.put("nothing/here/.gitkeep", "");
        std::fs::remove_file(world.path("nothing/here/.gitkeep")).unwrap();
        check(
            json!({"path": "nothing/here", "all": true}),
            "`nothing/here` is empty\n",
        )
        .await;
        let why = world
            .refused("list_files", json!({"path": "src/main.rs"}))
            .await;
        assert!(
            why.contains("cannot list `/workspace/src/main.rs`: Not a directory"),
            "{why}"
        );
        world.end().await;
    });
}

#[test]
fn a_tree_is_bounded_and_counts_the_rest() {
    run_test(async {
        let world = ToolFixture::new().await;
        let script = "mkdir -p many few; cd many; seq 25000 | xargs touch; cd ../few; touch a b";
        world.call_text("bash", json!({"command": script})).await;
        let tree = world.call_text("list_files", json!({})).await;
        assert!(tree.lines().count() <= 510, "{}", tree.lines().count());
        assert!(
            tree.starts_with("few/\n  a  0 bytes\n  b  0 bytes\nmany/\n"),
            "{tree}"
        );
        assert!(
            tree.ends_with(
                "  … 19500 entries more\n[only the first 20000 entries were looked at]\n"
            ),
            "{tree}"
        );
        world.end().await;
    });
}

#[test]
fn unusual_names_are_quoted_for_the_shell() {
    run_test(async {
        let world = ToolFixture::new().await;
        let script = r#"touch $'a\nb' $'bad\xff' $'\e[31mred' "it's" 'sp ace'; mkfifo pipe"#;
        world.call_text("bash", json!({"command": script})).await;
        let tree = world.call_text("list_files", json!({})).await;
        for line in tree.lines() {
            let name = line.split("  ").next().unwrap();
            if name.starts_with("$'") {
                let command = format!("rm -- {name}");
                world.call_text("bash", json!({"command": command})).await;
            }
        }
        let tree = world.call_text("list_files", json!({})).await;
        assert_eq!(tree, "it's  0 bytes\npipe  (special)\nsp ace  0 bytes\n");
        world.end().await;
    });
}
