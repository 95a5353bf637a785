//! Talking to jobs: messages, interruptions, retries, deletion, and chats.

use fantoccini::key::Key;
use testkit::{ScriptedAnswer, StreamGate};

use crate::browser::Browser;
use crate::model::{bash, say};
use crate::play::play;
use crate::staging::WebFixture;
use crate::task::EVENTS_BEFORE_TEXT;

/// Delays the response to an interruption until all events that follow from it have arrived, so that it is
/// older than the state of the page.
const SLOW_INTERRUPT_SCRIPT: &str = "(() => {\
    const fetch = window.fetch;\
    const frame = () => new Promise((done) => requestAnimationFrame(done));\
    window.fetch = async (path, ...rest) => {\
        const answer = await fetch(path, ...rest);\
        if (String(path).endsWith('/interrupt')) {\
            while (!document.querySelector('.pill').textContent.includes('Waiting')) await frame();\
            setTimeout(() => { window.isAnswered = true; });\
        }\
        return answer;\
    };\
})()";

async fn send_message(browser: &Browser, text: &str) {
    browser
        .write("textarea[aria-label='Message to the agent']", text)
        .await;
    browser.press(&Key::Enter).await;
}

#[test]
fn a_message_to_a_running_job_is_its_next_turn() {
    play(async {
        let gate = StreamGate::new();
        let stage = WebFixture::new([
            ScriptedAnswer::reply(say("Blue it is.")).hold(EVENTS_BEFORE_TEXT + 1, &gate),
            say("Then green.").into(),
        ])
        .await;
        let id = stage.server.client().schedule_task("Choose a colour").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        gate.reached().await;
        browser.wait_visible(".item.reply", "Blue").await;
        send_message(&browser, "Not blue, please").await;
        browser.wait_visible(".queue", "Not blue, please").await;
        assert_eq!(browser.texts(".item.prompt").await.len(), 1);
        gate.open();
        browser
            .wait_visible(".item.prompt", "Not blue, please")
            .await;
        browser.wait_visible(".item.reply", "Then green.").await;
        browser.misses(".queue", "").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.end(&[]).await;
    });
}

#[test]
fn a_job_is_interrupted_goes_on_and_is_cancelled() {
    play(async {
        let (first, second) = (StreamGate::new(), StreamGate::new());
        let stage = WebFixture::new([
            ScriptedAnswer::reply(say("This will take long.")).hold(EVENTS_BEFORE_TEXT + 1, &first),
            ScriptedAnswer::reply(say("Another way then.")).hold(EVENTS_BEFORE_TEXT + 1, &second),
        ])
        .await;
        let id = stage.server.client().schedule_task("Count the stars").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        first.reached().await;
        browser.click(".job-actions button", "Interrupt").await;
        browser.click("dialog[open] button", "Keep").await;
        browser.misses("dialog[open]", "").await;
        browser.wait_visible(".pill", "Running").await;
        browser.value(SLOW_INTERRUPT_SCRIPT).await;
        browser.click(".job-actions button", "Interrupt").await;
        browser.click("dialog[open] button", "Interrupt").await;
        browser.wait_visible(".item.outcome", "Interrupted").await;
        browser.until("window.isAnswered").await;
        browser.wait_drawn().await;
        browser.wait_visible(".pill", "Waiting").await;

        send_message(&browser, "Estimate instead").await;
        second.reached().await;
        browser
            .wait_visible(".item.prompt", "Estimate instead")
            .await;
        browser.wait_visible(".item.reply", "Another").await;
        browser.click(".job-actions button", "Cancel").await;
        browser.click("dialog[open] button", "Cancel the job").await;
        browser.wait_visible(".job-header .pill", "Cancelled").await;
        browser.until("seen('.job-page[data-state=failed]')").await;
        assert_eq!(
            stage.server.client().job(&id).await["failure"]["cause"],
            "cancelled"
        );
        browser.end(&[]).await;
    });
}

#[test]
fn an_ended_job_is_tried_again_and_deleted() {
    play(async {
        let stage = WebFixture::new([bash("echo first > file"), say("One."), say("Two.")]).await;
        let id = stage.server.client().schedule_task("Try it").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.click(".job-actions button", "Retry").await;
        browser
            .until(&format!("!location.pathname.endsWith('{id}')"))
            .await;
        browser.wait_visible(".item.reply", "Two.").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;

        // The second job is independent: deleting it leaves the first.
        let path = browser.path().await;
        browser.click(".job-actions button", "Delete").await;
        browser.click("dialog[open] button", "Delete").await;
        browser.until("location.pathname === '/'").await;
        browser.until("all('.job-row').length === 1").await;
        browser.go(&path).await;
        browser.wait_visible("h1", "No such job").await;
        browser.go(&format!("/jobs/{id}")).await;
        browser.wait_visible(".item.reply", "One.").await;
        browser.end(&["404"]).await;
    });
}

#[test]
fn a_chat_waits_for_each_word() {
    play(async {
        let stage = WebFixture::new([say("Hello to you."), say("It is **fine**.")]).await;
        let browser = stage.open("/").await;
        browser.click(".bar-link", "Chat").await;
        browser.write("textarea[aria-label=Message]", "Hello").await;
        browser.press(&Key::Enter).await;
        browser.wait_visible(".item.reply", "Hello to you.").await;
        browser.wait_visible(".pill", "Waiting").await;
        send_message(&browser, "How is the weather?").await;
        browser.wait_visible(".item.reply strong", "fine").await;
        browser.wait_visible(".pill", "Waiting").await;
        let prompts = browser.texts(".item.prompt").await;
        assert_eq!(prompts, ["Hello", "How is the weather?"]);
        browser.click(".bar-link", "Chat").await;
        browser.wait_visible(".chat-start .job-row", "Hello").await;
        browser.end(&[]).await;
    });
}
