//! The job lists: earlier jobs, and searching them.

use serde_json::json;

use crate::browser::Browser;
use crate::model::{RequestView, say, serve};
use crate::play::play;
use crate::server::Site;

#[test]
fn what_was_said_is_found_again() {
    play(async {
        let model = serve(|request| match RequestView::of(request).task() {
            "Bake a cake" => say("It needs cardamom and an oven."),
            _ => say("Cut and dried."),
        });
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let mut jobs = Vec::new();
        for task in ["Bake a cake", "Mow the lawn"] {
            let id = client.schedule_task(task).await;
            client.complete(&id).await;
            jobs.push(id);
        }
        let chat = client
            .schedule(json!({"task": "Just talk", "interactive": true}))
            .await;
        client.until(&chat, "waiting").await;

        let browser = Browser::open(&server, "/history").await;
        browser.until("all('.job-row').length === 3").await;
        browser.wait_visible(".day h2", "Today").await;
        browser.click(".chip", "Chats").await;
        browser.until("all('.job-row').length === 1").await;
        browser.wait_visible(".job-row", "Just talk").await;
        browser.click(".chip", "All").await;

        // A word of the reply, not of the task.
        browser.write("input[type=search]", "cardamom").await;
        browser.wait_visible("mark", "cardamom").await;
        assert_eq!(browser.texts(".job-link").await, ["Bake a cake"]);
        browser.until("location.search === '?q=cardamom'").await;
        browser.reload().await;
        browser.wait_visible("mark", "cardamom").await;
        browser.click(".job-link", "Bake a cake").await;
        browser.wait_visible(".item.reply", "cardamom").await;
        assert_eq!(browser.path().await, format!("/jobs/{}", jobs[0]));

        browser.go("/history?q=nowhere").await;
        browser.wait_visible(".empty", "Nothing found").await;

        // The list of jobs is filtered by task and by status.
        browser.go("/").await;
        browser.write("input[type=search]", "lawn").await;
        browser.until("all('.job-row').length === 1").await;
        browser.wait_visible(".job-row", "Mow the lawn").await;
        browser.click(".chip", "Failed").await;
        browser.wait_visible(".empty", "No job matches").await;
        browser.end(&[]).await;
    });
}

#[test]
fn the_list_follows_its_jobs() {
    play(async {
        let model = serve(|_| say("Done."));
        let site = Site::new(&model);
        let server = site.start().await;
        let browser = Browser::open(&server, "/").await;
        browser.wait_visible(".empty", "The cell is empty").await;
        let id = server.client().schedule_task("Appear by itself").await;
        browser.wait_visible(".job-row", "Appear by itself").await;
        browser.wait_visible(".job-row .pill", "Complete").await;
        let answer = server
            .client()
            .delete(&format!("/v1/jobs/{id}"))
            .send()
            .await;
        assert!(answer.unwrap().status().is_success());
        browser.wait_visible(".empty", "The cell is empty").await;
        browser.end(&[]).await;
    });
}
