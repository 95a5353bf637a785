//! Forms and zips that exceed limits, and that they leave no files behind.

use std::io::{Cursor, Write};

use reqwest::StatusCode;
use serde_json::Value;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::scene::{ServerScene, run_test, run_test_with};

/// A field of a form, with its content.
fn field(name: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

/// Sends a form; returns the status, and the problem or the job.
async fn send(scene: &ServerScene, parts: &[Vec<u8>]) -> (StatusCode, Value) {
    let body = [parts.concat(), b"--XX--\r\n".to_vec()].concat();
    let request = scene.post("/v1/jobs").body(body);
    let request = request.header("content-type", "multipart/form-data; boundary=XX");
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

async fn check_refused(scene: &ServerScene, parts: &[Vec<u8>], status: StatusCode, words: &str) {
    let (found, problem) = send(scene, parts).await;
    assert_eq!(found, status, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(words), "{problem}");
    // Refusals do not repeat the refused content.
    assert!(detail.len() < 1_000, "{} bytes", detail.len());
    assert_eq!(std::fs::read_dir(scene.data("uploads")).unwrap().count(), 0);
}

#[test]
fn the_fields_of_a_form_are_bounded_together() {
    run_test_with(
        |config| config.largest_body = 100_000,
        async |scene| {
            let too_large = StatusCode::PAYLOAD_TOO_LARGE;
            let text = |bytes: usize| vec![b'x'; bytes];
            let together = "the fields of the form are larger than 100000 bytes";
            for parts in [
                vec![field("task", &text(100_001))],
                vec![field("request", &text(3 << 20))],
                vec![field("task", &text(60_000)), field("model", &text(60_000))],
                vec![field("unknown", &text(3 << 20))],
            ] {
                check_refused(scene, &parts, too_large, together).await;
            }
            let hosts = vec![field("network", b"example.com"); 301];
            check_refused(scene, &hosts, too_large, "more than 300 fields").await;
            let name = "n".repeat(65);
            check_refused(scene, &[field(&name, b"")], too_large, "name is longer").await;
            let (status, job) = send(scene, &[field("task", &text(99_000))]).await;
            assert_eq!(status, StatusCode::CREATED, "{job}");
        },
    );
}

#[test]
fn what_comes_before_a_field_is_bounded() {
    run_test(async |scene| {
        let head = "the head of a form's field is too large";
        let padding = vec![b'x'; 3 << 20];
        let name = b"--XX\r\nContent-Disposition: form-data; name=\"task\"; filename=\"".to_vec();
        for parts in [
            // A head without an end, a name without an end, and no field at all.
            vec![b"--XX\r\nX: ".to_vec(), padding.clone()],
            vec![name, padding.clone()],
            vec![padding],
        ] {
            check_refused(scene, &parts, StatusCode::PAYLOAD_TOO_LARGE, head).await;
        }
    });
}

#[test]
fn a_job_has_one_input() {
    run_test(async |scene| {
        let git = br#"{"task":"Do it.","input":{"git":{"url":"https://example.com/a.git"}}}"#;
        let upload = br#"{"task":"Do it.","input":{"upload":{"bytes":1}}}"#;
        for (request, words) in [
            (&git[..], "from a repository or from a zip, not from both"),
            (&upload[..], "`upload` is set by the server"),
        ] {
            let zip = zip(["a".to_owned()], b"content");
            let parts = [field("request", request), field("input", &zip)];
            check_refused(scene, &parts, StatusCode::UNPROCESSABLE_ENTITY, words).await;
        }
    });
}

/// A zip of these entries; folders end in `/`.
fn zip(entries: impl IntoIterator<Item = String>, content: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for name in entries {
        match name.strip_suffix('/') {
            Some(folder) => {
                let options = SimpleFileOptions::default();
                writer.add_directory(folder, options).unwrap();
            }
            None => {
                let options = SimpleFileOptions::default();
                writer.start_file(name, options).unwrap();
                writer.write_all(content).unwrap();
            }
        }
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_zip_that_no_job_could_start_from_is_refused_at_once() {
    run_test_with(
        |config| config.policy.sandbox.limits.disk = 16 << 20,
        async |scene| {
            let invalid = StatusCode::UNPROCESSABLE_ENTITY;
            let broken = {
                let mut zip = zip(["a".to_owned()], b"content");
                zip.truncate(zip.len() - 10);
                zip
            };
            let deep = |count: u32| (0..count).map(|n| format!("{n}/{}", "x/".repeat(99)));
            for (zip, words) in [
                (b"no zip at all".to_vec(), "cannot unpack"),
                (broken, "cannot unpack"),
                (
                    zip(["../evil".to_owned()], b""),
                    "leads out of the workspace",
                ),
                (zip(["a".to_owned()], &vec![0; 12 << 20]), "200 times"),
                // Half a megabyte of names would be 120,000 folders.
                (zip(deep(1_200), b""), "disk limit"),
                (zip([format!("{}f", "x/".repeat(100))], b""), "too deep"),
            ] {
                let parts = [field("task", b"Do it."), field("input", &zip)];
                check_refused(scene, &parts, invalid, words).await;
            }
            let jobs = scene.json("/v1/jobs").await;
            assert_eq!(jobs["jobs"].as_array().unwrap().len(), 0, "{jobs}");
            let parts = [
                field("task", b"Do it."),
                field("input", &zip(deep(40), b"")),
            ];
            let (status, job) = send(scene, &parts).await;
            assert_eq!(status, StatusCode::CREATED, "{job}");
            let ended = scene.ended(job["id"].as_str().unwrap()).await;
            assert_eq!(ended["status"], "complete", "{ended}");
        },
    );
}
