//! The delivery state of a job's webhook, and redelivery.

use axum::Router;
use axum::http::{HeaderMap, StatusCode as Answer};
use axum::routing::post;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::scene::{ServerScene, run_test};

/// A webhook that reports the numbers of the deliveries it receives.
struct TestWebhook {
    url: String,
    received: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<()>,
}

impl TestWebhook {
    /// Responds to the first request with `first`, and with success from then on.
    async fn start(first: Answer) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let first = std::sync::Mutex::new(Some(first));
        let first = std::sync::Arc::new(first);
        let receive = move |headers: HeaderMap| {
            let number = headers["hotcell-delivery"].to_str().unwrap().to_owned();
            let _ = sender.send(number);
            let answer = first.lock().unwrap().take().unwrap_or(Answer::NO_CONTENT);
            std::future::ready(answer)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/secret-path", listener.local_addr().unwrap());
        let router = Router::new().route("/secret-path", post(receive));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            received,
            task,
        }
    }
}

impl Drop for TestWebhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The job when its webhook is in this state.
async fn wait_for_state(scene: &ServerScene, id: &str, state: &str) -> Value {
    loop {
        let job = scene.json(&format!("/v1/jobs/{id}")).await;
        if job["webhook"]["state"] == state && job["webhook"]["tries"] != 0 {
            return job["webhook"].clone();
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_job_shows_its_webhook_delivery_and_delivers_it_again() {
    run_test(async |scene| {
        let mut hook = TestWebhook::start(Answer::INTERNAL_SERVER_ERROR).await;
        let request = json!({"task": "Do it.", "webhook": {"url": hook.url, "secret": "hidden"}});
        let id = scene.schedule(request).await;
        scene.ended(&id).await;
        let number = hook.received.recv().await.unwrap();
        let pending = wait_for_state(scene, &id, "pending").await;
        assert_eq!(pending["tries"], 1);
        assert_eq!(
            pending["last_error"],
            "it answers 500 Internal Server Error"
        );
        assert!(pending["next_try"].as_str() > pending["last_try"].as_str());

        let again = async |id: &str| {
            let path = format!("/v1/jobs/{id}/webhook/redeliver");
            let answer = scene.post(&path).send().await.unwrap();
            (answer.status(), answer.json::<Value>().await.unwrap())
        };
        // The next try would come in ten seconds.
        let (status, delivery) = again(&id).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{delivery}");
        assert_eq!(hook.received.recv().await.unwrap(), number);
        let delivered = wait_for_state(scene, &id, "delivered").await;
        assert_eq!(delivered["tries"], 1);
        assert_eq!(delivered["last_error"], Value::Null);
        assert_eq!(delivered["next_try"], Value::Null);
        // Any number of times, always under the same number.
        let (status, _) = again(&id).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        assert_eq!(hook.received.recv().await.unwrap(), number);
        wait_for_state(scene, &id, "delivered").await;

        let text = scene.get(&format!("/v1/jobs/{id}")).send().await.unwrap();
        let text = text.text().await.unwrap();
        assert!(
            !text.contains("secret-path") && !text.contains("hidden"),
            "{text}"
        );
    });
}

#[test]
fn redelivery_needs_an_ended_job_with_a_webhook() {
    run_test(async |scene| {
        let hook = TestWebhook::start(Answer::NO_CONTENT).await;
        let gate = scene
            .models
            .add_gated("slow", [crate::scene::text("Done.")]);
        let webhook = json!({"url": hook.url});
        let request = json!({"task": "Wait.", "model": "slow", "webhook": webhook});
        let running = scene.schedule(request).await;
        gate.asked(1).await;
        let plain = scene.schedule_plain().await;
        let ended = scene.ended(&plain).await;
        assert_eq!(ended["webhook"], Value::Null);
        let missing = "0199aaaa-0000-7000-8000-000000000001";
        for (id, status, words) in [
            (running.as_str(), StatusCode::CONFLICT, "has not ended"),
            (plain.as_str(), StatusCode::CONFLICT, "no webhook"),
            (missing, StatusCode::NOT_FOUND, "no job"),
        ] {
            let path = format!("/v1/jobs/{id}/webhook/redeliver");
            let answer = scene.post(&path).send().await.unwrap();
            assert_eq!(answer.status(), status);
            let problem: Value = answer.json().await.unwrap();
            assert!(
                problem["detail"].as_str().unwrap().contains(words),
                "{problem}"
            );
        }
        gate.open(1);
        scene.ended(&running).await;
    });
}
