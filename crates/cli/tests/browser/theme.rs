//! Dark and light theme: the system's, until the user chooses.

use crate::model::say;
use crate::play::play;
use crate::staging::WebFixture;

/// Whether the text is bright.
const IS_DARK: &str = "(() => { const [r, g, b] = getComputedStyle(document.body).color\
    .match(/\\d+/g).map(Number); return r + g + b > 400; })()";

#[test]
fn a_choice_of_dark_or_light_is_remembered() {
    play(async {
        let stage = WebFixture::new([say("Done.")]).await;
        let browser = stage.open("/").await;
        for (scheme, is_dark) in [("dark", true), ("light", false)] {
            browser.scheme(scheme).await;
            browser.until(&format!("{IS_DARK} === {is_dark}")).await;
        }
        browser
            .click("button[aria-label*='dark and light']", "")
            .await;
        browser.until(IS_DARK).await;
        browser.reload().await;
        browser.until(IS_DARK).await;
        browser.go("/docs").await;
        browser.until(IS_DARK).await;
        browser.go("/history").await;
        browser.wait_visible("h1", "History").await;
        browser.press("t").await;
        browser.until(&format!("!{IS_DARK}")).await;
        browser.scheme("dark").await;
        browser.reload().await;
        browser.until(&format!("!{IS_DARK}")).await;
        browser.end(&[]).await;
    });
}
