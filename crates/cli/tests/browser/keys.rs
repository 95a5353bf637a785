//! API keys in the browser: created, shown once, used to sign in, revoked; and isolation of users.

use crate::model::say;
use crate::play::play;
use crate::staging::WebFixture;

#[test]
fn a_key_is_shown_once_and_revoked() {
    play(async {
        let stage = WebFixture::new([say("Done.")]).await;
        let browser = stage.open("/keys").await;
        browser.wait_visible(".empty", "No keys yet").await;
        browser.write("#key-user", "ada").await;
        browser.write("#key-label", "laptop").await;
        browser.click("button[type=submit]", "Make key").await;
        browser.wait_visible(".token-notice", "Key for ada").await;
        let token = browser.text(".token code").await;
        let ada = stage.server.client().with_key(&token);
        assert_eq!(ada.json("/v1/me").await["user"], "ada");
        browser.wait_visible("table.keys", "laptop").await;

        browser.reload().await;
        browser.wait_visible("table.keys", "laptop").await;
        assert!(
            !browser
                .value("document.documentElement.outerHTML")
                .await
                .to_string()
                .contains(&token)
        );

        browser.click("table.keys button", "Revoke").await;
        browser.click("dialog[open] button", "Revoke").await;
        browser
            .wait_visible("table.keys tr.is-revoked", "revoked")
            .await;
        let answer = ada.get("/v1/me").send().await.unwrap();
        assert_eq!(answer.status(), 401);
        browser.end(&[]).await;
    });
}

#[test]
fn who_has_no_key_gets_nowhere_and_comes_back_with_one() {
    play(async {
        let stage = WebFixture::with([say("For Ada."), say("For Ben.")], &["--require-keys"]).await;
        let ada = stage.key("ada", "user").await;
        let ben = stage.key("ben", "user").await;
        let of_ben = stage.server.client().with_key(&ben);
        let foreign = of_ben.schedule_task("A secret of Ben").await;
        of_ben.complete(&foreign).await;

        let browser = stage.open("/history?q=milk").await;
        browser.wait_visible("h1", "Sign in").await;
        browser.write("#key", "hotcell_wrong").await;
        browser.click("button[type=submit]", "Sign in").await;
        browser
            .wait_visible("#key-problem", "This key is not valid")
            .await;

        // Back to the requested page.
        browser.find("#key", "").await.clear().await.unwrap();
        browser.write("#key", &ada).await;
        browser.click("button[type=submit]", "Sign in").await;
        browser.wait_visible("h1", "History").await;
        browser.until("location.search === '?q=milk'").await;
        // Scripts cannot read the session cookie.
        assert_eq!(browser.value("document.cookie").await, "");
        assert_eq!(browser.value("JSON.stringify(localStorage)").await, "{}");

        // A job of another user looks like one that does not exist.
        let never = "01890000-0000-7000-8000-000000000000";
        let mut pages = Vec::new();
        for id in [foreign.as_str(), never] {
            browser.go(&format!("/jobs/{id}")).await;
            browser.wait_visible("h1", "No such job").await;
            pages.push(browser.text("main").await.replace(id, "ID"));
        }
        assert_eq!(pages[0], pages[1]);
        browser.go("/").await;
        browser.wait_visible(".empty", "The cell is empty").await;

        // She can use the UI normally.
        browser.write("textarea[aria-label=Task]", "Buy milk").await;
        browser.click(".composer button[type=submit]", "Run").await;
        browser
            .until("seen('.job-page[data-state=complete]')")
            .await;

        browser.click("button[aria-label='Sign out ada']", "").await;
        browser.wait_visible("h1", "Sign in").await;
        browser.go("/keys").await;
        browser.wait_visible("h1", "Sign in").await;
        browser.end(&["401", "404"]).await;
    });
}
