//! Using the UI without a mouse.

use fantoccini::key::Key;

use crate::browser::Browser;
use crate::model::{RequestView, say, serve};
use crate::play::play;
use crate::server::Site;

#[test]
fn shortcuts_lead_everywhere() {
    play(async {
        let model = serve(|request| say(&format!("So: {}", RequestView::of(request).task())));
        let site = Site::new(&model);
        let server = site.start().await;
        for task in ["First of all", "Second to none"] {
            let id = server.client().schedule_task(task).await;
            server.client().complete(&id).await;
        }
        let browser = Browser::open(&server, "/").await;
        browser.until("all('.job-row').length === 2").await;

        for (keys, path) in [
            ("n", "/new"),
            ("gd", "/"),
            ("gh", "/history"),
            ("gk", "/keys"),
            ("c", "/chat"),
        ] {
            // Some pages focus a field; Escape leaves it.
            browser.press(&Key::Escape).await;
            browser.press(keys).await;
            browser
                .until(&format!("location.pathname === '{path}'"))
                .await;
            browser.until("document.querySelector('main h1')").await;
        }

        // While typing, shortcut keys are letters.
        browser.press("nn").await;
        browser.until("document.activeElement.value === 'nn'").await;
        assert_eq!(browser.path().await, "/chat");

        browser.press(&Key::Escape).await;
        browser.press("?").await;
        browser.wait_visible("dialog[open] h2", "Help").await;
        browser.wait_visible("dialog[open] dd", "New task").await;
        browser.press("n").await;
        assert_eq!(browser.path().await, "/chat");
        browser.press(&Key::Escape).await;
        browser.misses("dialog[open]", "").await;

        // Through the list, into a job, through its tabs, and to its message box.
        browser.press("gd").await;
        browser.until("all('.job-row').length === 2").await;
        browser.press("jj").await;
        browser
            .until("document.activeElement.innerText === 'First of all'")
            .await;
        browser.press("k").await;
        browser
            .until("document.activeElement.innerText === 'Second to none'")
            .await;
        browser.press(&Key::Enter).await;
        browser
            .wait_visible(".item.reply", "So: Second to none")
            .await;
        for (key, panel) in [
            ("2", "files"),
            ("3", "diff"),
            ("4", "logs"),
            ("5", "details"),
            ("1", "transcript"),
        ] {
            browser.press(key).await;
            browser
                .until(&format!(
                    "seen('#panel-{panel}') && all('[role=tabpanel]:not([hidden])').length === 1"
                ))
                .await;
        }
        browser.press("m").await;
        browser
            .until("document.activeElement.ariaLabel === 'Message to the agent'")
            .await;
        browser.press(&Key::Escape).await;

        // Tabs move with arrow keys.
        browser
            .value("document.getElementById('tab-transcript').focus()")
            .await;
        browser
            .press(&format!("{}{}", Key::Right, Key::Right))
            .await;
        browser
            .until("document.activeElement.id === 'tab-diff' && seen('#panel-diff')")
            .await;

        // The first Tab stop skips the bar.
        browser.go("/").await;
        browser.until("all('.job-row').length === 2").await;
        browser.press(&Key::Tab).await;
        browser
            .until("document.activeElement.className === 'skip'")
            .await;
        browser.press(&Key::Enter).await;
        browser.until("document.activeElement.id === 'main'").await;
        browser.end(&[]).await;
    });
}
