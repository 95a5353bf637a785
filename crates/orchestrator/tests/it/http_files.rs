//! The files of a job: listed, shown, downloaded, compared and packed, whatever their names are.

use std::io::{Cursor, Read, Write};

use reqwest::StatusCode;
use serde_json::{Value, json};
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::scene::{ServerScene, bash, run_test, text};

async fn job_with(scene: &ServerScene, command: &str) -> String {
    scene.models.add("maker", [bash(command), text("Done.")]);
    let id = scene
        .schedule(json!({"task": "Make it.", "model": "maker"}))
        .await;
    assert_eq!(scene.ended(&id).await["status"], "complete");
    id
}

#[test]
fn files_are_listed_and_shown() {
    run_test(async |scene| {
        let id = job_with(
            scene,
            "mkdir -p src; printf 'fn main() {}\\n' > src/main.rs; ln -s /etc/passwd secret; \
             printf '\\0\\1' > data.bin; printf 'x' > 'odd <b>name.txt'",
        )
        .await;
        let base = format!("/v1/jobs/{id}/files");
        let root = scene.json(&base).await;
        assert_eq!(
            (&root["path"], &root["is_truncated"]),
            (&json!(""), &json!(false))
        );
        let entries = root["entries"].as_array().unwrap();
        let kinds: Vec<_> = entries
            .iter()
            .map(|entry| {
                (
                    entry["name"].as_str().unwrap(),
                    entry["kind"].as_str().unwrap(),
                )
            })
            .collect();
        let mut sorted = kinds.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            [
                ("data.bin", "file"),
                ("odd <b>name.txt", "file"),
                ("secret", "link"),
                ("src", "folder")
            ]
        );
        let link = entries
            .iter()
            .find(|entry| entry["name"] == "secret")
            .unwrap();
        assert_eq!(link["target"], "/etc/passwd");

        let inner = scene.json(&format!("{base}?path=src")).await;
        assert_eq!(inner["entries"][0]["path"], "src/main.rs");
        let shown = scene
            .json(&format!("{base}/content?path=src/main.rs"))
            .await;
        assert_eq!(
            shown,
            json!({"path": "src/main.rs", "bytes": 13, "is_text": true, "is_truncated": false, "text": "fn main() {}\n"})
        );
        let binary = scene.json(&format!("{base}/content?path=data.bin")).await;
        assert_eq!(
            (&binary["is_text"], binary.get("text")),
            (&json!(false), None)
        );

        let raw = scene.get(&format!("{base}/raw?path=odd%20%3Cb%3Ename.txt"));
        let raw = raw.send().await.unwrap();
        assert_eq!(raw.headers()["content-type"], "application/octet-stream");
        assert_eq!(raw.headers()["x-content-type-options"], "nosniff");
        assert_eq!(
            raw.headers()["content-security-policy"],
            "sandbox; default-src 'none'"
        );
        let name = raw.headers()["content-disposition"].to_str().unwrap();
        assert!(
            name.starts_with("attachment; filename=\"odd <b>name.txt\""),
            "{name}"
        );
        assert_eq!(raw.text().await.unwrap(), "x");
    });
}

#[test]
fn nothing_outside_the_workspace_is_shown() {
    run_test(async |scene| {
        let id = job_with(
            scene,
            "ln -s /etc up; ln -s /etc/passwd file; mkfifo pipe; mkdir d; echo x > d/f",
        )
        .await;
        for (path, status) in [
            ("../logs/job.log", StatusCode::UNPROCESSABLE_ENTITY),
            ("..", StatusCode::UNPROCESSABLE_ENTITY),
            ("d/../../input.txt", StatusCode::UNPROCESSABLE_ENTITY),
            ("/etc/passwd", StatusCode::UNPROCESSABLE_ENTITY),
            ("up/passwd", StatusCode::UNPROCESSABLE_ENTITY),
            ("file", StatusCode::UNPROCESSABLE_ENTITY),
            ("pipe", StatusCode::UNPROCESSABLE_ENTITY),
            ("d", StatusCode::UNPROCESSABLE_ENTITY),
            ("nothing", StatusCode::NOT_FOUND),
            ("d%00f", StatusCode::UNPROCESSABLE_ENTITY),
        ] {
            for way in ["content", "raw"] {
                let address = format!("/v1/jobs/{id}/files/{way}?path={path}");
                let answer = scene.get(&address).send().await.unwrap();
                assert_eq!(answer.status(), status, "{address}");
                let body = answer.text().await.unwrap();
                assert!(!body.contains("root:"), "{address}: {body}");
            }
        }
    });
}

#[test]
fn the_diff_is_against_the_start() {
    run_test(async |scene| {
        let id = job_with(scene, "printf 'one\\ntwo\\n' > new.txt").await;
        let diff = scene.json(&format!("/v1/jobs/{id}/diff")).await;
        assert_eq!(diff["is_truncated"], false);
        let files = diff["files"].as_array().unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0]["path"], "new.txt");
        assert_eq!(files[0]["change"], "added");
        assert_eq!(files[0]["added"], 2);
        assert!(files[0]["diff"].as_str().unwrap().contains("+two"));
    });
}

#[test]
fn logs_are_read_whole_and_by_their_end() {
    run_test(async |scene| {
        let id = job_with(scene, "echo out-of-the-sandbox").await;
        let read = async |query: &str| {
            let answer = scene
                .get(&format!("/v1/jobs/{id}/logs{query}"))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(
                answer.headers()["content-type"],
                "text/plain; charset=utf-8"
            );
            answer.text().await.unwrap()
        };
        let whole = read("").await;
        assert!(whole.contains("out-of-the-sandbox"), "{whole}");
        assert_eq!(read("?name=job").await, whole);
        let tail = read("?tail=20").await;
        assert!(
            whole.ends_with(&tail) && (17..=20).contains(&tail.len()),
            "{tail}"
        );
        assert_eq!(read("?tail=1000000").await, whole);
        let audit = read("?name=audit").await;
        for line in audit.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["seq"].is_u64());
        }
        assert!(audit.contains("out-of-the-sandbox"));
    });
}

#[test]
fn the_zip_is_published_and_known_by_its_hash() {
    run_test(async |scene| {
        let id = job_with(scene, "echo hello > hello.txt").await;
        let path = format!("/v1/jobs/{id}/artifacts");
        let job = scene.json(&format!("/v1/jobs/{id}")).await;
        let answer = scene.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let headers = answer.headers().clone();
        assert_eq!(headers["content-type"], "application/zip");
        assert_eq!(
            headers["content-length"],
            job["artifact"]["bytes"].to_string().as_str()
        );
        let name = headers["content-disposition"].to_str().unwrap();
        assert!(name.contains(&format!("\"hotcell-{id}.zip\"")), "{name}");
        assert!(!headers.contains_key("hotcell-partial"));
        let tag = headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(
            tag,
            format!("\"{}\"", job["artifact"]["sha256"].as_str().unwrap())
        );
        assert_eq!(
            unpack(&answer.bytes().await.unwrap(), "hello.txt"),
            "hello\n"
        );

        let known = scene
            .get(&path)
            .header("if-none-match", &tag)
            .send()
            .await
            .unwrap();
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.bytes().await.unwrap().len(), 0);
        let other = scene
            .get(&path)
            .header("if-none-match", "\"x\"")
            .send()
            .await
            .unwrap();
        assert_eq!(other.status(), StatusCode::OK);
    });
}

#[test]
fn the_result_is_a_link_to_the_zip() {
    run_test(async |scene| {
        let id = job_with(scene, "echo hello > hello.txt").await;
        let path = format!("/jobs/{id}/output.zip");
        let status = scene.json(&format!("/status/{id}")).await;
        assert_eq!(status["result"], path);
        let whole = scene.get(&format!("/v1/jobs/{id}/artifacts"));
        let whole = whole.send().await.unwrap().bytes().await.unwrap();

        let answer = scene.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let headers = answer.headers().clone();
        assert_eq!(headers["content-type"], "application/zip");
        assert_eq!(headers["accept-ranges"], "bytes");
        assert_eq!(answer.bytes().await.unwrap(), whole);
        let tag = headers["etag"].to_str().unwrap();

        let head = scene.request("HEAD", &path).send().await.unwrap();
        assert_eq!(head.status(), StatusCode::OK);
        for name in ["content-length", "content-type", "etag"] {
            assert_eq!(head.headers()[name], headers[name], "{name}");
        }
        let known = scene.get(&path).header("if-none-match", tag);
        let known = known.send().await.unwrap();
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);

        let part = scene.get(&path).header("range", "bytes=4-9");
        let part = part.header("if-range", tag).send().await.unwrap();
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(
            part.headers()["content-range"],
            format!("bytes 4-9/{}", whole.len()).as_str()
        );
        assert_eq!(part.headers()["content-length"], "6");
        assert_eq!(part.bytes().await.unwrap(), whole.slice(4..10));
        let stale = scene.get(&path).header("range", "bytes=4-9");
        let stale = stale.header("if-range", "\"x\"").send().await.unwrap();
        assert_eq!(stale.status(), StatusCode::OK);
    });
}

#[test]
fn a_running_job_has_a_partial_zip_and_a_queued_one_none() {
    crate::scene::run_test_with(
        |config| config.concurrency = 1,
        async |scene| {
            let gate = scene
                .models
                .add_gated("slow", [bash("echo half > half.txt"), text("Done.")]);
            let id = scene
                .schedule(json!({"task": "Make it.", "model": "slow"}))
                .await;
            let queued = scene.schedule_plain().await;
            gate.open(1);
            gate.asked(2).await;
            let answer = scene
                .get(&format!("/v1/jobs/{id}/artifacts"))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(answer.headers()["hotcell-partial"], "true");
            assert_eq!(unpack(&answer.bytes().await.unwrap(), "half.txt"), "half\n");

            let status = scene.json(&format!("/status/{id}")).await;
            assert_eq!(status["result"], Value::Null);
            assert_eq!(status["error"], Value::Null);
            for path in [
                format!("/v1/jobs/{queued}/artifacts"),
                format!("/jobs/{queued}/output.zip"),
                format!("/jobs/{id}/output.zip"),
            ] {
                let answer = scene.get(&path).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::CONFLICT, "{path}");
            }
            let files = scene.json(&format!("/v1/jobs/{queued}/files")).await;
            assert_eq!(files["entries"], json!([]));
            let log = scene
                .get(&format!("/v1/jobs/{queued}/logs"))
                .send()
                .await
                .unwrap();
            assert_eq!(log.text().await.unwrap(), "");
            gate.open(1);
            scene.ended(&queued).await;
        },
    );
}

#[test]
fn an_uploaded_zip_is_where_the_job_starts() {
    run_test(async |scene| {
        scene.models.add(
            "reader",
            [bash("cat given.txt >> taken.txt"), text("Read.")],
        );
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer
            .start_file("given.txt", SimpleFileOptions::default())
            .unwrap();
        writer.write_all(b"a gift\n").unwrap();
        let zip = writer.finish().unwrap().into_inner();
        for fields in [
            vec![("request", r#"{"task":"Read it.","model":"reader"}"#)],
            vec![("task", "Read it."), ("model", "reader")],
        ] {
            let answer = scene.post("/v1/jobs");
            let answer = answer.header("content-type", "multipart/form-data; boundary=XX");
            let answer = answer.body(form(&fields, Some(&zip))).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::CREATED, "{fields:?}");
            let job: Value = answer.json().await.unwrap();
            assert_eq!(job["input"], json!({"upload": {"bytes": zip.len()}}));
            let id = job["id"].as_str().unwrap();
            let ended = scene.ended(id).await;
            assert_eq!(ended["status"], "complete", "{ended}");
            let shown = scene
                .json(&format!("/v1/jobs/{id}/files/content?path=taken.txt"))
                .await;
            assert_eq!(shown["text"], "a gift\n");
            let diff = scene.json(&format!("/v1/jobs/{id}/diff")).await;
            let changed: Vec<_> = diff["files"]
                .as_array()
                .unwrap()
                .iter()
                .map(|file| &file["path"])
                .collect();
            assert_eq!(changed, ["taken.txt"]);
        }
        assert_eq!(std::fs::read_dir(scene.data("uploads")).unwrap().count(), 0);
    });
}

#[test]
fn a_form_that_is_refused_leaves_nothing_behind() {
    run_test(async |scene| {
        let check = async |body: Vec<u8>, status: StatusCode, words: &str| {
            let request = scene.post("/v1/jobs");
            let request = request.header("content-type", "multipart/form-data; boundary=XX");
            let answer = request.body(body).send().await.unwrap();
            assert_eq!(answer.status(), status, "{words}");
            let problem: Value = answer.json().await.unwrap();
            assert!(
                problem["detail"].as_str().unwrap().contains(words),
                "{problem}"
            );
            assert_eq!(std::fs::read_dir(scene.data("uploads")).unwrap().count(), 0);
        };
        let invalid = StatusCode::UNPROCESSABLE_ENTITY;
        check(form(&[("task", "")], Some(b"PK")), invalid, "task").await;
        check(form(&[("tasks", "x")], Some(b"PK")), invalid, "tasks").await;
        check(form(&[("timeout", "soon")], None), invalid, "timeout").await;
        check(
            form(&[("request", "{}"), ("task", "x")], None),
            invalid,
            "task",
        )
        .await;
        check(
            form(&[("task", "x"), ("task", "y")], None),
            invalid,
            "twice",
        )
        .await;
        let git = r#"{"task":"x","input":{"git":{"url":"https://example.com/a.git"}}}"#;
        check(form(&[("request", git)], Some(b"PK")), invalid, "both").await;
        check(b"--XX\r\n".to_vec(), StatusCode::BAD_REQUEST, "body").await;
        let large = vec![0; (4 << 20) + 1];
        check(
            form(&[("task", "x")], Some(&large)),
            StatusCode::PAYLOAD_TOO_LARGE,
            "larger",
        )
        .await;
    });
}

/// A form as browsers send it, with the zip last.
fn form(fields: &[(&str, &str)], zip: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend(part.as_bytes());
    }
    if let Some(zip) = zip {
        let head = "--XX\r\nContent-Disposition: form-data; name=\"input\"; filename=\"../../x.zip\"\r\n\
                    Content-Type: application/zip\r\n\r\n";
        body.extend(head.as_bytes());
        body.extend(zip);
        body.extend(b"\r\n");
    }
    body.extend(b"--XX--\r\n");
    body
}

fn unpack(zip: &[u8], name: &str) -> String {
    let mut archive = ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut content = String::new();
    archive
        .by_name(name)
        .unwrap()
        .read_to_string(&mut content)
        .unwrap();
    content
}
