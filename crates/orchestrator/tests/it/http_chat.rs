//! Chatting with an agent, turn by turn, through one route.

use reqwest::StatusCode;
use serde_json::{Value, json};
use testkit::EventStream;

use crate::scene::{ServerScene, run_test, text};

async fn chat(scene: &ServerScene, request: Value) -> EventStream {
    let request = scene.post("/chat").json(&request);
    EventStream::new(request.send().await.unwrap())
}

#[test]
fn each_message_is_answered_with_its_own_turn() {
    run_test(async |scene| {
        scene
            .models
            .add("friend", [text("Hello."), text("I am fine."), text("Bye.")]);
        let received = chat(scene, json!({"message": "Hi!", "model": "friend"}))
            .await
            .all()
            .await;
        assert_eq!(received[0].event, "job");
        assert_eq!(received.last().unwrap().event, "end");
        let id = received[0].data["id"].as_str().unwrap();
        assert_eq!(received[0].data["interactive"], true);

        for (turn, words, reply) in [(2, "How are you?", "I am fine."), (3, "Bye!", "Bye.")] {
            let received = chat(scene, json!({"message": words, "job_id": id}))
                .await
                .all()
                .await;
            assert_eq!(received[0].event, "job");
            assert_eq!(received[0].data["id"], *id);
            assert_eq!(received.last().unwrap().event, "end");
            let started: Vec<_> = received
                .iter()
                .filter(|sent| sent.kind() == "turn_started")
                .collect();
            assert_eq!(started.len(), 1);
            assert_eq!(started[0].data["turn"], turn);
            let replied = received
                .iter()
                .find(|sent| sent.kind() == "replied")
                .unwrap();
            assert!(replied.data.to_string().contains(reply), "{}", replied.data);
            let ended = received.iter().filter(|sent| sent.kind() == "turn_ended");
            assert_eq!(ended.count(), 1);
        }
        let job = scene.json(&format!("/v1/jobs/{id}")).await;
        assert_eq!(job["messages"], 3);
        assert_eq!(job["status"], "running", "it waits for more");
    });
}

#[test]
fn a_message_to_a_busy_job_waits_its_turn() {
    run_test(async |scene| {
        let gate = scene
            .models
            .add_gated("slow", [text("first"), text("second")]);
        let mut first = chat(scene, json!({"message": "One.", "model": "slow"})).await;
        let id = first.next().await.unwrap().data["id"]
            .as_str()
            .unwrap()
            .to_owned();
        gate.asked(1).await;
        let second = chat(scene, json!({"message": "Two.", "job_id": id})).await;
        gate.open(2);
        let (first, second) = (first.all().await, second.all().await);
        let said = |received: &[testkit::StreamedEvent]| {
            let replied = received.iter().filter(|sent| sent.kind() == "replied");
            replied
                .map(|sent| sent.data["turn"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!((said(&first), said(&second)), (vec![1], vec![2]));
    });
}

#[test]
fn an_existing_job_keeps_its_options() {
    run_test(async |scene| {
        let id = scene.schedule_plain().await;
        scene.ended(&id).await;
        let request = json!({"message": "Hi!", "job_id": id, "timeout": 5});
        let answer = scene.post("/chat").json(&request).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    });
}
