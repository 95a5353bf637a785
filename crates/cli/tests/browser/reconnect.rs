//! A page survives the death of its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use testkit::{ScriptedAnswer, StreamGate};

use crate::browser::Browser;
use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;
use crate::task::{EVENTS_BEFORE_TEXT, with_text};
use testkit::StreamedEvent;

/// The kinds of items that a transcript of these events shows, in order.
fn expected(events: &[StreamedEvent]) -> Vec<String> {
    let mut kinds = Vec::new();
    for event in events {
        match event.kind() {
            "sandbox_started" => kinds.push("sandbox"),
            "turn_started" => kinds.push("prompt"),
            "turn_continued" => kinds.push("continued"),
            "noted" => kinds.push("note"),
            "turn_ended" => kinds.push("outcome"),
            "replied" => {
                let blocks = event.data["content"].as_array().unwrap();
                let kind = |block: &Value| match block["type"].as_str().unwrap() {
                    "tool_use" => "call",
                    "thinking" => "thinking",
                    _ => "text",
                };
                kinds.extend(blocks.iter().map(kind));
            }
            _ => {}
        }
    }
    kinds.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_page_outlives_its_server_and_shows_everything_once() {
    play(async {
        let gate = StreamGate::new();
        let has_died = Arc::new(AtomicBool::new(false));
        let model = {
            let (gate, has_died) = (gate.clone(), Arc::clone(&has_died));
            serve(move |request| match RequestView::of(request).results {
                0 => ScriptedAnswer::reply(with_text("Step one begins.", bash("echo one > one"))),
                1 if !has_died.load(Ordering::SeqCst) => {
                    ScriptedAnswer::reply(say("Half a sentence that will be lost."))
                        .hold(EVENTS_BEFORE_TEXT + 3, &gate)
                }
                1 => ScriptedAnswer::reply(with_text("Step two, again.", bash("cat one"))),
                _ => ScriptedAnswer::reply(say("All is done.")),
            })
        };
        let site = Site::new(&model);
        let server = site.start().await;
        let address = server.client().address().to_owned();
        let id = server.client().schedule_task("Live through it").await;
        let browser = Browser::open(&server, &format!("/jobs/{id}")).await;
        browser.value("window.isTheSamePage = true").await;
        gate.reached().await;
        browser.wait_visible(".item.reply", "Half a sentence").await;

        server.die().await;
        browser.wait_visible(".connection", "Connection lost").await;
        has_died.store(true, Ordering::SeqCst);
        let server = site.start_with(&["--listen", &address]).await;
        gate.open();

        browser.wait_visible(".item.reply", "All is done.").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.misses(".connection", "").await;
        assert_eq!(browser.value("window.isTheSamePage").await, true);

        let events = server.client().follow(&id, 0).await.all().await;
        let shown = browser
            .value("all('.item').map((one) => one.dataset.kind)")
            .await;
        let shown: Vec<String> = serde_json::from_value(shown).unwrap();
        assert_eq!(shown, expected(&events));
        let page = browser.text(".transcript").await;
        for (words, times) in [
            ("Step one begins.", 1),
            ("Step two, again.", 1),
            ("All is done.", 1),
            ("Half a sentence", 0),
        ] {
            assert_eq!(page.matches(words).count(), times, "{words}\n{page}");
        }
        // The same as a page that is opened later.
        let texts = browser.texts(".item").await;
        browser.reload().await;
        browser
            .until(&format!("all('.item').length === {}", texts.len()))
            .await;
        assert_eq!(browser.texts(".item").await, texts);
        browser
            .end(&[
                "ERR_CONNECTION_REFUSED",
                "ERR_INCOMPLETE_CHUNKED_ENCODING",
                "ERR_CONNECTION_RESET",
                "ERR_EMPTY_RESPONSE",
            ])
            .await;
    });
}
