//! `edit_file`: replacements, preserved content, and explanations of failures.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::{Value, json};

use crate::fixture::{ToolFixture, run_test, text};

/// Edits as `(old, new)`.
fn edits(pairs: &[(&str, &str)]) -> Value {
    let edit = |(old, new): &(&str, &str)| json!({"old": old, "new": new});
    pairs.iter().map(edit).collect()
}

#[test]
fn exact_text_is_replaced() {
    run_test(async {
        let world = ToolFixture::new().await;
        let check = async |before: &str, edits: Value, after: &str| {
            world.put("file", before);
            let input = json!({"path": "file", "edits": edits});
            world.call_text("edit_file", input.clone()).await;
            assert_eq!(world.get("file"), after, "{before:?} {input}");
        };
        check("a b c\n", edits(&[("b", "B")]), "a B c\n").await;
        check("a\nb\nc\n", edits(&[("a\nb\n", "")]), "c\n").await;
        check(
            "fn a() {\n    x\n}\n",
            edits(&[("    x\n", "    y\n    z\n")]),
            "fn a() {\n    y\n    z\n}\n",
        )
        .await;
        check("a", edits(&[("a", "b")]), "b").await;
        check("a\nlast", edits(&[("last", "end")]), "a\nend").await;
        check(
            "$1 \\n a.b\n",
            edits(&[("$1 \\n a.b", "$2 \\t")]),
            "$2 \\t\n",
        )
        .await;
        check("ü€🦀\n", edits(&[("€", "$")]), "ü$🦀\n").await;
        // Applied in order, each to the result of the previous one.
        check("1 2\n", edits(&[("1", "2"), ("2 2", "3")]), "3\n").await;
        let all = json!([{"old": "x", "new": "yx", "all": true}]);
        check("x.x.x\n", all, "yx.yx.yx\n").await;
        // Line ends are preserved, whatever the model sends.
        check(
            "a\r\nb\r\nc\r\n",
            edits(&[("b", "1\n2")]),
            "a\r\n1\r\n2\r\nc\r\n",
        )
        .await;
        check(
            "a\r\nb\r\nc\r\n",
            edits(&[("a\nb\n", "x\ny\n")]),
            "x\r\ny\r\nc\r\n",
        )
        .await;
        check(
            "a\r\nb\r\nc\r\n",
            edits(&[("a\r\nb", "x\r\ny")]),
            "x\r\ny\r\nc\r\n",
        )
        .await;
        check("a\r\nb\r\n", edits(&[("\nb", "\nc\nd")]), "a\r\nc\r\nd\r\n").await;
        check("a\r\nb\nc\n", edits(&[("b\nc", "x\ny")]), "a\r\nx\ny\n").await;
        check("a\r\nb\r\nc\n", edits(&[("a\nb", "x\ny")]), "x\r\ny\r\nc\n").await;
        // So is a byte order mark.
        check("\u{feff}a\nb\n", edits(&[("a\n", "c\n")]), "\u{feff}c\nb\n").await;
        world.end().await;
    });
}

#[test]
fn a_failed_edit_changes_nothing_and_is_explained() {
    run_test(async {
        let world = ToolFixture::new().await;
        let check = async |before: &str, edits: Value, says: &[&str]| {
            world.put("file", before);
            let input = json!({"path": "file", "edits": edits});
            let why = world.refused("edit_file", input).await;
            assert!(why.starts_with("cannot edit `file`: "), "{why}");
            for part in says {
                assert!(why.contains(part), "`{part}` is missing in:\n{why}");
            }
            assert_eq!(world.get("file"), before);
        };
        check("a\n", edits(&[("", "x")]), &["`old` is empty"]).await;
        check(
            "a\n",
            edits(&[("a", "a")]),
            &["`old` and `new` are the same"],
        )
        .await;
        check("a\n", json!([]), &["there are no edits"]).await;
        check(
            "a\n",
            edits(&[("a", "b"), ("b", "a")]),
            &["undo each other"],
        )
        .await;
        check("", edits(&[("a", "b")]), &["nor anything like it"]).await;
        check(
            "a\n",
            edits(&[("something else entirely", "b")]),
            &["`old` is not in the file, nor anything like it"],
        )
        .await;
        check(
            "a\n",
            edits(&[("a", "b"), ("c", "d")]),
            &["edits[1]: `old` is not in the file"],
        )
        .await;
        check(
            "x\ny\nx\n  x\n",
            edits(&[("x", "z")]),
            &["`old` occurs 3 times, on lines 1, 3, 4: make it longer"],
        )
        .await;
        check(
            &"x\n".repeat(50),
            edits(&[("x", "z")]),
            &["50 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"],
        )
        .await;
        // Overlapping occurrences count once.
        check("aaa\n", edits(&[("aaaa", "b")]), &["not in the file"]).await;
        check(
            "fn one() {\n\tlet x = 1;\n\tlet y = 2;\n}\n",
            edits(&[("    let x = 1;\n    let y = 2;\n", "")]),
            &[
                "Nearest are lines 2 to 3",
                "-     let x = 1;\n+ \tlet x = 1;\n",
                "the file is indented with tabs, `old` with spaces",
            ],
        )
        .await;
        check(
            "if x {\n    go();  \n}\n",
            edits(&[("if x {\n    go();\n}", "")]),
            &["  if x {\n", "the file has blanks at the end of a line"],
        )
        .await;
        check(
            "let a = 1;\n",
            edits(&[("let a = 1; ", "")]),
            &["`old` has blanks at the end of a line"],
        )
        .await;
        check(
            "f(a,  b)\n",
            edits(&[("f(a, b)", "")]),
            &["blanks within a line"],
        )
        .await;
        check(
            "        deep();\n",
            edits(&[("          deep();\n", "")]),
            &["+         deep();\n", "difference: the indentation"],
        )
        .await;
        check(
            "say \u{201c}hi\u{201d} \u{2013} now\n",
            edits(&[("say \"hi\" - now", "")]),
            &["typographic"],
        )
        .await;
        check(
            "fn calculate_total(items: &[Item]) -> u32 {\n    0\n}\n",
            edits(&[("fn calculate_totals(items: &[Item]) -> u64 {", "")]),
            &[
                "Nearest are lines 1 to 1",
                "+ fn calculate_total(items: &[Item]) -> u32 {",
            ],
        )
        .await;
        check(
            "a line\nthe end",
            edits(&[("the end\n", "")]),
            &["the difference is in their ends"],
        )
        .await;
        world.end().await;
    });
}

#[test]
fn an_edit_keeps_the_mode_and_shows_what_changed() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("script", "#!/bin/sh\necho one\necho two\n");
        fs::set_permissions(world.path("script"), fs::Permissions::from_mode(0o750)).unwrap();
        let input = json!({"path": "script", "edits": [{"old": "one", "new": "1"}]});
        let output = world.call("edit_file", input).await.unwrap();
        let diff = "@@ -1,3 +1,3 @@\n #!/bin/sh\n-echo one\n+echo 1\n echo two\n";
        assert_eq!(text(&output), format!("edited `script`\n{diff}"));
        assert_eq!(output.changes[0].diff.as_deref(), Some(diff));
        let mode = fs::metadata(world.path("script")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o750);
        // The model gets a shortened diff.
        world.put("many", "old\n".repeat(20_000));
        let input = json!({"path": "many", "edits": [{"old": "old", "new": "new", "all": true}]});
        let output = world.call("edit_file", input).await.unwrap();
        assert!(text(&output).len() < 5000);
        assert!(output.changes[0].diff.as_ref().unwrap().len() < 33_000);
        world.end().await;
    });
}

#[test]
fn binary_and_oversized_files_are_not_edited() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("binary", b"a\0b");
        world.put(
            "latin",
            b"caf\xe9 latte, a long text that is otherwise plain\n",
        );
        world.put("huge", vec![b'a'; 10_000_001]);
        world.put("folder/x", "");
        world
            .call_text("bash", json!({"command": "mkfifo fifo"}))
            .await;
        let check = async |path: &str, says: &str| {
            let input = json!({"path": path, "edits": [{"old": "a", "new": "b"}]});
            let why = world.refused("edit_file", input).await;
            assert!(why.contains(says), "{path}: {why}");
        };
        check("binary", "cannot edit `binary`: it is not text").await;
        check("latin", "it is not UTF-8 text").await;
        check("huge", "it is larger than 10 MB").await;
        check("folder", "it is not a regular file").await;
        check("fifo", "it is not a regular file").await;
        check("nothing", "cannot read `/workspace/nothing`: No such file").await;
        // The largest allowed size.
        let mut large = "a line of text\n".repeat(600_000);
        large.push_str("needle\n");
        world.put("large", &large);
        let input = json!({"path": "large", "edits": [{"old": "needle", "new": "found"}]});
        world.call_text("edit_file", input).await;
        assert!(world.get("large").ends_with("text\nfound\n"));
        world.end().await;
    });
}
