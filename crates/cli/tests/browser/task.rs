//! A task from its prompt to the downloaded zip.

use fantoccini::key::Key;
use llm::script::ScriptedReply;
use testkit::{ScriptedAnswer, StreamGate};

use crate::model::{bash, say, write};
use crate::play::play;
use crate::staging::WebFixture;

/// Events of a streamed text before its words: message start, block start, and a ping.
pub(crate) const EVENTS_BEFORE_TEXT: usize = 3;

/// A reply with text before its calls.
pub(crate) fn with_text(text: &str, call: ScriptedReply) -> ScriptedReply {
    ScriptedReply {
        text: Some(text.to_owned()),
        ..call
    }
}

#[test]
fn a_task_is_written_watched_read_and_taken_home() {
    play(async {
        let gate = StreamGate::new();
        let begin = with_text(
            "I look around first.",
            bash("echo one; echo two >&2; exit 3"),
        );
        let stage = WebFixture::new([
            ScriptedAnswer::reply(begin).hold(EVENTS_BEFORE_TEXT + 2, &gate),
            write("src/hello.py", "print('hello')\n").into(),
            bash("python3 src/hello.py").into(),
            say("Done: **hello.py** says `hello`.").into(),
        ])
        .await;
        let browser = stage.open("/").await;

        browser.wait_visible(".empty", "The cell is empty").await;
        browser
            .write("textarea[aria-label=Task]", "Say hello in Python")
            .await;
        browser.press_with_control(Key::Enter).await;

        // In the middle of a sentence.
        gate.reached().await;
        browser.wait_visible(".item.reply", "I look").await;
        assert!(!browser.text(".transcript").await.contains("around"));
        browser.wait_visible(".pill", "Running").await;
        assert!(browser.title().await.starts_with("● Say hello in Python"));
        gate.open();
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser
            .wait_visible(".item.reply", "I look around first.")
            .await;
        browser.wait_visible(".item.reply strong", "hello.py").await;
        assert_eq!(browser.title().await, "Say hello in Python · Hotcell");

        // A call shows how it ended, and expands.
        browser
            .wait_visible(".call[data-status=failed] .call-end", "exit code 3")
            .await;
        browser.click(".call summary", "echo one").await;
        browser.wait_visible(".call-body .output", "two").await;

        // Files, one of them in a folder.
        browser.click(".tab", "Files").await;
        browser.click(".tree-row[aria-expanded=false]", "src").await;
        browser.click(".tree-row", "hello.py").await;
        browser.wait_visible(".file-text", "print('hello')").await;
        browser
            .wait_visible(".viewer-head h2", "src/hello.py")
            .await;

        browser.click(".tab", "Diff").await;
        browser
            .wait_visible(".file-change .path", "src/hello.py")
            .await;
        browser
            .wait_visible(".diff-row.added", "print('hello')")
            .await;

        browser.click(".tab", "Logs").await;
        browser
            .wait_visible(".log", "bash: $ python3 src/hello.py")
            .await;
        browser.click(".chip", "Audit log").await;
        browser.wait_visible(".audit .tag", "file_change").await;

        browser.click(".tab", "Details").await;
        browser
            .wait_visible("#panel-details .task-text", "Say hello in Python")
            .await;

        browser.click(".job-banner a[download]", "Download").await;
        let files = browser.downloaded_files().await;
        assert_eq!(files["src/hello.py"], "print('hello')\n");

        // A reload shows the same, from stored events.
        browser.click(".tab", "Transcript").await;
        let before = browser.texts(".item").await;
        browser.reload().await;
        browser
            .until(&format!("all('.item').length === {}", before.len()))
            .await;
        browser.click(".call summary", "echo one").await;
        browser.wait_visible(".call-body .output", "two").await;

        browser.click(".brand", "").await;
        browser.wait_visible(".job-row .pill", "Complete").await;
        browser.end(&[]).await;
    });
}

#[test]
fn output_is_seen_while_a_command_runs() {
    play(async {
        // It continues when the test writes into the workspace's pipe: no timing is involved.
        let stage = WebFixture::new([
            bash("mkfifo go; echo it has begun; cat go; echo it went on"),
            say("Done."),
        ])
        .await;
        let id = stage.server.client().schedule_task("Wait for me").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        browser.wait_visible(".output.live", "it has begun").await;
        browser
            .wait_visible(".call[data-status=running]", "mkfifo")
            .await;
        let pipe = stage
            .site
            .data()
            .join("jobs")
            .join(&id)
            .join("workspace/go");
        tokio::fs::write(pipe, "now\n").await.unwrap();
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.misses(".output.live", "").await;
        browser.click(".call summary", "mkfifo").await;
        browser
            .wait_visible(".call-body .output", "it went on")
            .await;
        browser.end(&[]).await;
    });
}
