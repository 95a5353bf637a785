//! Talking to jobs: messages, interruptions, retries, deletion, and chats.

use fantoccini::key::Key;
use testkit::{Answer, Gate};

use crate::browser::Browser;
use crate::model::{bash, say};
use crate::play::play;
use crate::staging::Stage;
use crate::task::BEFORE_WORDS;

/// Delays the response to an interruption until all events that follow from it have arrived, so that it is
/// older than the state of the page.
const SLOW_ANSWER: &str = "(() => {\
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

async fn say_to(browser: &Browser, text: &str) {
    browser
        .write("textarea[aria-label='Message to the agent']", text)
        .await;
    browser.press(&Key::Enter).await;
}

#[test]
fn a_message_to_a_running_job_is_its_next_turn() {
    play(async {
        let gate = Gate::new();
        let stage = Stage::new([
            Answer::reply(say("Blue it is.")).hold(BEFORE_WORDS + 1, &gate),
            say("Then green.").into(),
        ])
        .await;
        let id = stage.server.client().schedule_task("Choose a colour").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        gate.reached().await;
        browser.sees(".item.reply", "Blue").await;
        say_to(&browser, "Not blue, please").await;
        browser.sees(".queue", "Not blue, please").await;
        assert_eq!(browser.texts(".item.prompt").await.len(), 1);
        gate.open();
        browser.sees(".item.prompt", "Not blue, please").await;
        browser.sees(".item.reply", "Then green.").await;
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
        let (first, second) = (Gate::new(), Gate::new());
        let stage = Stage::new([
            Answer::reply(say("This will take long.")).hold(BEFORE_WORDS + 1, &first),
            Answer::reply(say("Another way then.")).hold(BEFORE_WORDS + 1, &second),
        ])
        .await;
        let id = stage.server.client().schedule_task("Count the stars").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        first.reached().await;
        browser.click(".job-actions button", "Interrupt").await;
        browser.click("dialog[open] button", "Keep").await;
        browser.misses("dialog[open]", "").await;
        browser.sees(".pill", "Running").await;
        browser.value(SLOW_ANSWER).await;
        browser.click(".job-actions button", "Interrupt").await;
        browser.click("dialog[open] button", "Interrupt").await;
        browser.sees(".item.outcome", "Interrupted").await;
        browser.until("window.isAnswered").await;
        browser.drawn().await;
        browser.sees(".pill", "Waiting").await;

        say_to(&browser, "Estimate instead").await;
        second.reached().await;
        browser.sees(".item.prompt", "Estimate instead").await;
        browser.sees(".item.reply", "Another").await;
        browser.click(".job-actions button", "Cancel").await;
        browser.click("dialog[open] button", "Cancel the job").await;
        browser.sees(".job-header .pill", "Cancelled").await;
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
        let stage = Stage::new([bash("echo first > file"), say("One."), say("Two.")]).await;
        let id = stage.server.client().schedule_task("Try it").await;
        let browser = stage.open(&format!("/jobs/{id}")).await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;
        browser.click(".job-actions button", "Retry").await;
        browser
            .until(&format!("!location.pathname.endsWith('{id}')"))
            .await;
        browser.sees(".item.reply", "Two.").await;
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
        browser.sees("h1", "No such job").await;
        browser.go(&format!("/jobs/{id}")).await;
        browser.sees(".item.reply", "One.").await;
        browser.end(&["404"]).await;
    });
}

#[test]
fn a_chat_waits_for_each_word() {
    play(async {
        let stage = Stage::new([say("Hello to you."), say("It is **fine**.")]).await;
        let browser = stage.open("/").await;
        browser.click(".bar-link", "Chat").await;
        browser.write("textarea[aria-label=Message]", "Hello").await;
        browser.press(&Key::Enter).await;
        browser.sees(".item.reply", "Hello to you.").await;
        browser.sees(".pill", "Waiting").await;
        say_to(&browser, "How is the weather?").await;
        browser.sees(".item.reply strong", "fine").await;
        browser.sees(".pill", "Waiting").await;
        let prompts = browser.texts(".item.prompt").await;
        assert_eq!(prompts, ["Hello", "How is the weather?"]);
        browser.click(".bar-link", "Chat").await;
        browser.sees(".chat-start .job-row", "Hello").await;
        browser.end(&[]).await;
    });
}
