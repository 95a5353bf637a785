//! Pages that do not exist say so, and link back.

use reqwest::StatusCode;

use crate::client::problem;
use crate::model::say;
use crate::play::play;
use crate::staging::WebFixture;

#[test]
fn an_address_that_leads_nowhere_leads_back() {
    play(async {
        let stage = WebFixture::new([say("Done.")]).await;
        let browser = stage.open("/nowhere/at/all").await;
        browser.wait_visible("h1", "Not found").await;
        assert_eq!(browser.title().await, "Not found · Hotcell");
        browser.click("main a", "All jobs").await;
        browser.wait_visible(".empty", "The cell is empty").await;
        browser.end(&["404"]).await;

        // A browser gets a page and a program gets a problem document, both with the right status.
        let client = stage.server.client();
        let page = client
            .get("/nowhere")
            .header("Accept", "text/html")
            .send()
            .await
            .unwrap();
        assert_eq!(page.status(), StatusCode::NOT_FOUND);
        assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
        problem(client.get("/nowhere").send().await.unwrap(), 404).await;
        let api = client.get("/v1/nowhere").header("Accept", "text/html");
        problem(api.send().await.unwrap(), 404).await;
    });
}
