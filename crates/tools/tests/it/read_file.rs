//! `read_file`: pages, images, and other files.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;

use protocol::{Block, Image};
use serde_json::json;

use crate::fixture::{ToolFixture, run_test, text};
use crate::memory::peak_bytes;

#[test]
fn text_comes_in_pages_with_line_numbers() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("a", "one\ntwo\nthree\n");
        world.put("unended", "one\ntwo");
        world.put("dos", "one\r\ntwo\r\n");
        world.put("empty", "");
        world.put("latin", b"caf\xe9 au lait\n");
        let long = format!("{}\nshort\n", "x".repeat(100_000));
        world.put("long", long);
        let check = async |input, expect: &str| {
            assert_eq!(world.call_text("read_file", input).await, expect);
        };
        check(
            json!({"path": "a"}),
            "    1\tone\n    2\ttwo\n    3\tthree\n",
        )
        .await;
        check(
            json!({"path": "/workspace/a", "offset": 0, "limit": 1}),
            "    1\tone\n[lines 1 to 1 of 3; continue with offset 2]\n",
        )
        .await;
        check(
            json!({"path": "a", "offset": 2, "limit": 1}),
            "    2\ttwo\n[lines 2 to 2 of 3; continue with offset 3]\n",
        )
        .await;
        check(
            json!({"path": "a", "offset": 3}),
            "    3\tthree\n[lines 3 to 3, the last]\n",
        )
        .await;
        check(
            json!({"path": "unended"}),
            "    1\tone\n    2\ttwo\n[no newline at the end]\n",
        )
        .await;
        check(
            json!({"path": "dos"}),
            "    1\tone\n    2\ttwo\n[lines end in CRLF]\n",
        )
        .await;
        check(json!({"path": "empty"}), "`empty` is empty").await;
        check(
            json!({"path": "latin"}),
            "    1\tcaf\u{fffd} au lait\n[bytes that are not UTF-8 are shown as \u{fffd}]\n",
        )
        .await;
        let shown = world.call_text("read_file", json!({"path": "long"})).await;
        assert!(
            shown.contains("x… [98000 more bytes in this line]\n    2\tshort\n"),
            "{shown}"
        );
        assert!(shown.len() < 2200);
        let past = world
            .refused("read_file", json!({"path": "a", "offset": 4}))
            .await;
        assert_eq!(past, "`a` has only 3 lines: there is no line 4");
        world.end().await;
    });
}

#[test]
fn a_page_is_bounded_and_says_where_the_next_starts() {
    run_test(async {
        let world = ToolFixture::new().await;
        let lines: String = (1..=9000)
            .map(|number| format!("line {number}\n"))
            .collect();
        world.put("many", &lines);
        let mut offset = 1;
        let mut seen = String::new();
        loop {
            let page = world
                .call_text("read_file", json!({"path": "many", "offset": offset}))
                .await;
            assert!(page.len() < 52_000, "{}", page.len());
            let numbered = page.lines().filter(|line| !line.starts_with('['));
            for line in numbered {
                seen.push_str(line.split_once('\t').unwrap().1);
                seen.push('\n');
                offset += 1;
            }
            if page.ends_with("9000, the last]\n") {
                break;
            }
            assert!(
                page.contains(&format!("of 9000; continue with offset {offset}]")),
                "{page}"
            );
        }
        assert!(seen == lines);
        world.end().await;
    });
}

#[test]
fn a_page_deep_inside_a_huge_file_is_read() {
    run_test(async {
        let world = ToolFixture::new().await;
        let mut file = fs::File::create(world.path("huge")).unwrap();
        let line = format!("{}\n", "y".repeat(99));
        let block = line.repeat(10_000);
        for _ in 0..100 {
            file.write_all(block.as_bytes()).unwrap();
        }
        writeln!(file, "the needle").unwrap();
        let read = world.call_text("read_file", json!({"path": "huge", "offset": 1_000_001}));
        let (page, held) = peak_bytes(read).await;
        assert!(held < 8 << 20, "{held} bytes");
        assert_eq!(
            page,
            "1000001\tthe needle\n[lines 1000001 to 1000001, the last]\n"
        );
        let page = world
            .call_text("read_file", json!({"path": "huge", "limit": 2}))
            .await;
        assert!(
            page.ends_with("[lines 1 to 2, many more follow; continue with offset 3]\n"),
            "{page}"
        );
        world.end().await;
    });
}

#[test]
fn images_are_shown_and_other_files_described() {
    run_test(async {
        let world = ToolFixture::new().await;
        // Detected by content: the names have no extensions.
        for (start, media_type) in [
            (b"\x89PNG\r\n\x1a\n".as_slice(), "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBP", "image/webp"),
        ] {
            let content = [start, &[7; 20_000]].concat();
            world.put("x.txt", &content);
            let output = world
                .call("read_file", json!({"path": "x.txt"}))
                .await
                .unwrap();
            let [Block::Text { .. }, Block::Image { source }] = output.content.as_slice() else {
                panic!("{output:?}");
            };
            let Image::Base64 {
                media_type: found,
                data,
            } = source;
            use base64::Engine;
            let data = base64::engine::general_purpose::STANDARD
                .decode(data)
                .unwrap();
            assert_eq!((found.as_str(), data == content), (media_type, true));
            assert!(text(&output).contains("20 kB"), "{}", text(&output));
        }
        let file = fs::File::create(world.path("large.png")).unwrap();
        (&file).write_all(b"\x89PNG\r\n\x1a\n").unwrap();
        file.set_len(4_000_000).unwrap();
        let check = async |path: &str, says: &str| {
            let shown = world.call_text("read_file", json!({"path": path})).await;
            assert!(shown.contains(says), "{shown}");
        };
        check("large.png", "too large to view: at most 3.8 MB").await;
        world.put("program", b"\x7fELF\x02\x01\x01\0\0abc");
        check("program", "is an ELF program or library, 12 bytes. It begins with\n7f 45 4c 46 02 01 01 00 00 61 62 63  .ELF.....abc\n").await;
        world.put("zeros", [0; 100]);
        check("zeros", "is binary data, 100 bytes").await;
        world.put("wide", b"\xff\xfea\0b\0");
        check("wide", "UTF-16").await;
        // An image only by its name.
        world.put("fake.png", "no picture");
        check("fake.png", "    1\tno picture\n").await;
        world.end().await;
    });
}

#[test]
fn special_files_are_refused_without_blocking() {
    run_test(async {
        let world = ToolFixture::new().await;
        world.put("folder/file", "");
        symlink("folder", world.path("link")).unwrap();
        symlink("nowhere", world.path("broken")).unwrap();
        world
            .call_text(
                "bash",
                json!({"command": "mkfifo fifo; echo x > secret; chmod 0 secret"}),
            )
            .await;
        let check = async |path: &str, says: &str| {
            let why = world.refused("read_file", json!({"path": path})).await;
            assert!(why.contains(says), "{path}: {why}");
        };
        check(
            "folder",
            "`folder` is a folder: `list_files` shows what is in it",
        )
        .await;
        check("link", "`link` is a folder").await;
        check("broken", "No such file").await;
        check(
            "nothing",
            "cannot read `/workspace/nothing`: No such file or directory",
        )
        .await;
        check("fifo", "it is not a regular file").await;
        check("secret", "Permission denied").await;
        check("/dev/zero", "it is not a regular file").await;
        check("output:1", "there is no stored output `output:1`").await;
        check("output:x", "there is no stored output `output:x`").await;
        // A file that has size 0 but content.
        let shown = world
            .call_text("read_file", json!({"path": "/proc/self/status"}))
            .await;
        assert!(shown.contains("    1\tName:"), "{shown}");
        world.end().await;
    });
}

#[test]
fn a_sparse_file_costs_nothing() {
    run_test(async {
        let world = ToolFixture::new().await;
        let mut file = fs::File::create(world.path("sparse")).unwrap();
        file.write_all(b"text\n").unwrap();
        file.seek(SeekFrom::Start(1 << 40)).unwrap();
        file.write_all(b"end").unwrap();
        let shown = world
            .call_text("read_file", json!({"path": "sparse"}))
            .await;
        assert!(shown.contains("is binary data, 1.1 TB"), "{shown}");
        world.end().await;
    });
}
