//! `write_file`: results, messages, and what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;

use crate::fixture::{ToolFixture, run_test, text};

#[test]
fn a_file_is_created_or_replaced_and_the_change_is_shown() {
    run_test(async {
        let world = ToolFixture::new().await;
        let write = async |path: &str, content: &str| {
            let input = json!({"path": path, "content": content});
            let output = world.call("write_file", input).await.unwrap();
            assert_eq!(output.changes.len(), 1);
            assert_eq!(output.changes[0].path, path);
            (text(&output), output.changes[0].diff.clone())
        };
        let (says, diff) = write("a/b/c.txt", "one\ntwo\n").await;
        assert_eq!(says, "created `a/b/c.txt`: 2 lines, 8 bytes");
        assert_eq!(diff.as_deref(), Some("@@ -0,0 +1,2 @@\n+one\n+two\n"));
        assert_eq!(world.get("a/b/c.txt"), "one\ntwo\n");
        fs::set_permissions(world.path("a/b/c.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        let (says, diff) = write("/workspace/a/b/c.txt", "one\n2\n").await;
        assert_eq!(says, "replaced `/workspace/a/b/c.txt`: 2 lines, 6 bytes");
        assert_eq!(diff.as_deref(), Some("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"));
        let mode = fs::metadata(world.path("a/b/c.txt")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o755);
        // Writing the same content is not a change.
        assert_eq!(write("a/b/c.txt", "one\n2\n").await.1, None);
        assert_eq!(
            write("empty", "").await.0,
            "created `empty`: 0 lines, 0 bytes"
        );
        // A diff for the user is bounded; there is none if the old content is not text.
        let (_, diff) = write("big", &"line\n".repeat(100_000)).await;
        let diff = diff.unwrap();
        assert!(diff.len() < 33_000 && diff.ends_with("… more changes follow\n"));
        world.put("binary", [0; 10]);
        assert_eq!(write("binary", "text\n").await.1, None);
        // Through a symlink to its target.
        symlink("a/b/c.txt", world.path("link")).unwrap();
        write("link", "through\n").await;
        assert_eq!(world.get("a/b/c.txt"), "through\n");
        assert!(world.path("link").is_symlink());
        world.end().await;
    });
}

#[test]
fn unusual_file_names_are_written_unchanged() {
    run_test(async {
        let world = ToolFixture::new().await;
        for name in [
            "with space",
            "-rf",
            "new\nline",
            "$(touch pwned)",
            "quote'\"",
            "\u{202e}evil",
            "*",
            "\u{1b}[31m",
            "…/ü",
            "a;b",
            "~",
            "output",
        ] {
            let output = world
                .call("write_file", json!({"path": name, "content": "x\n"}))
                .await;
            let says = text(&output.unwrap());
            assert!(!says.contains(['\n', '\u{1b}', '\u{202e}']), "{says:?}");
            assert_eq!(world.get(name), "x\n");
            let read = world.call_text("read_file", json!({"path": name})).await;
            assert_eq!(read, "    1\tx\n");
            let edits = json!([{"old": "x", "new": "y"}]);
            world
                .call_text("edit_file", json!({"path": name, "edits": edits}))
                .await;
            assert_eq!(world.get(name), "y\n");
        }
        assert!(!world.path("pwned").exists());
        world.end().await;
    });
}

#[test]
fn a_refused_write_names_the_rule() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("folder/file", "");
        world
            .call_text("bash", json!({"command": "mkfifo fifo"}))
            .await;
        let check = async |path: &str, says: &[&str]| {
            let why = world
                .refused("write_file", json!({"path": path, "content": "x"}))
                .await;
            assert!(says.iter().all(|part| why.contains(part)), "{path}: {why}");
        };
        check(
            "folder",
            &["cannot write `/workspace/folder`", "not a regular file"],
        )
        .await;
        check("fifo", &["not a regular file"]).await;
        check("folder/file/below", &["cannot make the folder of"]).await;
        check(
            "/usr/bin/new",
            &["cannot", "/usr/bin/new", "hint:", "read-only"],
        )
        .await;
        check("", &["not a regular file"]).await;
        world.end().await;
    });
}
