//! The form for a new task: every option reaches the job, and errors are shown at their fields.

use std::io::{Cursor, Write};

use fantoccini::key::Key;
use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::browser::Browser;
use crate::model::{bash, say};
use crate::play::play;
use crate::staging::WebFixture;

async fn fill(browser: &Browser, fields: &[(&str, &str)]) {
    for (name, text) in fields {
        browser.write(&format!("#field-{name}"), text).await;
    }
}

#[test]
fn every_option_reaches_the_job_as_it_was_set() {
    play(async {
        // One job that does not end keeps the other in the queue.
        let gate = StreamGate::new();
        let first = ScriptedAnswer::reply(say("Busy.")).hold(0, &gate);
        let flags = ["--concurrency", "1", "--private-webhooks"];
        let stage = WebFixture::with([first], &flags).await;
        stage.server.client().schedule_task("Be in the way").await;
        gate.reached().await;

        let browser = stage.open("/").await;
        browser.click("a.bar-new", "New task").await;
        browser.click("details.options summary", "Options").await;
        let fields = [
            ("task", "Mend the parser"),
            ("model", "claude-opus-4-5"),
            ("memory", "512m"),
            ("cpus", "0.5"),
            ("pids", "64"),
            ("disk", "1 GiB"),
            ("cost", "$0.50"),
            ("tokens", "20000"),
            ("turns", "7"),
            ("timeout", "15m"),
            ("webhook", "http://127.0.0.1:1/hook"),
            ("secret", "hush"),
        ];
        fill(&browser, &fields).await;
        fill(&browser, &[("network", "pypi.org")]).await;
        browser.press(&Key::Enter).await;
        browser.press("*.example.com:443,").await;
        browser
            .wait_visible(".entered li", "*.example.com:443")
            .await;
        browser
            .find("#field-backend", "")
            .await
            .select_by_value("native")
            .await
            .unwrap();
        browser.click("label[for=interactive]", "").await;
        browser.click("label.chip", "Git").await;
        fill(
            &browser,
            &[
                ("git", "https://example.com/owner/name"),
                ("branch", "next"),
            ],
        )
        .await;
        browser.click("button[type=submit]", "Schedule").await;
        browser.wait_visible(".pill", "Queued").await;

        let path = browser.path().await;
        let job = stage
            .server
            .client()
            .job(path.rsplit('/').next().unwrap())
            .await;
        for (name, wanted) in [
            ("state", json!("queued")),
            ("task", json!("Mend the parser")),
            ("model", json!("claude-opus-4-5")),
            ("backend", json!("native")),
            (
                "limits",
                json!({"memory": 512 << 20, "cpus": 0.5, "pids": 64, "disk": 1 << 30}),
            ),
            ("network", json!(["pypi.org", "*.example.com:443"])),
            ("budget", json!({"cost": 0.5, "tokens": 20000, "turns": 7})),
            ("timeout", json!(900)),
            (
                "input",
                json!({"git": {"url": "https://example.com/owner/name", "branch": "next"}}),
            ),
            ("has_webhook", json!(true)),
            ("interactive", json!(true)),
        ] {
            assert_eq!(job[name], wanted, "{name}");
        }
        browser.click(".tab", "Details").await;
        for words in [
            "512 MiB",
            "pypi.org, *.example.com:443",
            "$0.50, 20k tokens, 7 requests",
            "(next)",
        ] {
            browser.wait_visible("#panel-details dd", words).await;
        }
        gate.open();
        browser.end(&[]).await;
    });
}

#[test]
fn a_zip_is_unpacked_where_the_agent_works() {
    play(async {
        let stage = WebFixture::new([bash("cat notes/first.txt"), say("Read.")]).await;
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("notes/first.txt", SimpleFileOptions::default())
            .unwrap();
        zip.write_all(b"bring the milk\n").unwrap();
        let file = stage.site.here("notes.zip");
        std::fs::write(&file, zip.finish().unwrap().into_inner()).unwrap();

        let browser = stage.open("/new?options").await;
        fill(&browser, &[("task", "Read my notes")]).await;
        browser.click("label.chip", "Zip").await;
        // Without a file it is not sent.
        browser.click("button[type=submit]", "Schedule").await;
        browser
            .wait_visible("#field-upload-problem", "Choose a zip")
            .await;
        browser.upload("#field-upload", &file).await;
        browser.wait_visible(".drop", "notes.zip").await;
        browser.click("button[type=submit]", "Schedule").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.click(".call summary", "cat notes").await;
        browser
            .wait_visible(".call-body .output", "bring the milk")
            .await;
        browser.click(".tab", "Diff").await;
        browser.wait_visible(".diff-panel", "No changes").await;
        browser.end(&[]).await;
    });
}

#[test]
fn what_is_wrong_is_said_at_its_field() {
    play(async {
        let stage = WebFixture::new([say("Never asked.")]).await;
        let browser = stage.open("/new?options").await;
        browser.find("#field-task", "").await;

        // Checked in the browser.
        browser.click("button[type=submit]", "Schedule").await;
        browser
            .wait_visible("#field-task-problem", "Say what is to be done")
            .await;
        fill(
            &browser,
            &[("task", "Try"), ("memory", "much"), ("timeout", "100h")],
        )
        .await;
        browser.click("button[type=submit]", "Schedule").await;
        browser.wait_visible("#field-memory-problem", "512m").await;
        browser
            .wait_visible("#field-timeout-problem", "At most")
            .await;
        assert_eq!(browser.text("#field-task-problem").await, "");
        browser
            .until("document.activeElement.id === 'field-memory'")
            .await;
        for name in ["memory", "timeout"] {
            browser
                .find(&format!("#field-{name}"), "")
                .await
                .clear()
                .await
                .unwrap();
        }

        // Checked by the server.
        fill(&browser, &[("network", "localhost")]).await;
        browser.click("button[type=submit]", "Schedule").await;
        browser
            .wait_visible("#field-network-problem", "not a public host")
            .await;
        browser
            .until("document.activeElement.id === 'field-network'")
            .await;
        browser
            .until("seen('#field-network').getAttribute('aria-invalid') === 'true'")
            .await;
        assert_eq!(browser.path().await, "/new");
        assert!(stage.server.client().jobs("").await.is_empty());

        // Corrected.
        browser
            .click(".entered button[aria-label='Remove localhost']", "")
            .await;
        browser.click("button[type=submit]", "Schedule").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.end(&["422"]).await;
    });
}
