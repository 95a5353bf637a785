//! Following a job from any event, without gaps or duplicates.

use serde_json::json;
use testkit::EventStream;

use crate::scene::{ServerScene, bash, run_test, text};

async fn follow_after(scene: &ServerScene, id: &str, after: u64, by_header: bool) -> EventStream {
    let path = format!("/v1/jobs/{id}/events");
    let request = if by_header {
        scene.get(&path).header("last-event-id", after.to_string())
    } else {
        scene.get(&format!("{path}?after={after}"))
    };
    EventStream::new(request.send().await.unwrap())
}

#[test]
fn the_job_comes_first_and_the_end_last() {
    run_test(async |scene| {
        scene
            .models
            .add("maker", [bash("echo hi"), text("All done.")]);
        let id = scene
            .schedule(json!({"task": "Make it.", "model": "maker"}))
            .await;
        let received = scene.follow(&id).await.all().await;
        assert_eq!(received[0].event, "job");
        assert_eq!(received[0].data["id"], *id);
        assert_eq!(received.last().unwrap().event, "end");
        assert_eq!(
            received.iter().filter(|sent| sent.event == "end").count(),
            1
        );
        let last = received
            .iter()
            .rev()
            .find(|sent| sent.event == "job")
            .unwrap();
        assert_eq!(last.data["status"], "complete");

        // Persistent events are numbered without gaps; the others have no number.
        let ids: Vec<u64> = received.iter().filter_map(|sent| sent.id).collect();
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
        for sent in received.iter().filter(|sent| sent.event == "agent") {
            assert_eq!(sent.data["seq"].as_u64(), sent.id, "{}", sent.data);
        }
        for kind in [
            "session_started",
            "sandbox_started",
            "turn_started",
            "replied",
            "tool_ended",
            "turn_ended",
        ] {
            assert!(received.iter().any(|sent| sent.kind() == kind), "{kind}");
        }
    });
}

#[test]
fn a_reader_resumes_from_every_event() {
    run_test(async |scene| {
        scene
            .models
            .add("maker", [bash("echo one"), bash("echo two"), text("Done.")]);
        let id = scene
            .schedule(json!({"task": "Make it.", "model": "maker"}))
            .await;
        let whole = scene.follow(&id).await.all().await;
        let lasting: Vec<_> = whole.into_iter().filter(|sent| sent.id.is_some()).collect();
        assert!(lasting.len() > 6);
        for after in 0..=lasting.len() as u64 + 1 {
            for by_header in [false, true] {
                let received = follow_after(scene, &id, after, by_header).await.all().await;
                let expect = lasting.iter().skip(after as usize);
                let found = received.iter().filter(|sent| sent.event == "agent");
                assert!(found.eq(expect), "after {after}");
                assert_eq!(received.first().unwrap().event, "job");
                assert_eq!(received.last().unwrap().event, "end");
            }
        }
    });
}

#[test]
fn last_event_id_has_precedence_over_the_query() {
    run_test(async |scene| {
        let id = scene.schedule_plain().await;
        let count = scene
            .follow(&id)
            .await
            .all()
            .await
            .iter()
            .filter_map(|sent| sent.id)
            .max()
            .unwrap();
        let request = scene.get(&format!("/v1/jobs/{id}/events?after=0"));
        let request = request.header("last-event-id", (count - 1).to_string());
        let received = EventStream::new(request.send().await.unwrap()).all().await;
        let ids: Vec<_> = received.iter().filter_map(|sent| sent.id).collect();
        assert_eq!(ids, [count]);
    });
}

#[test]
fn a_late_reader_gets_past_and_future_events() {
    run_test(async |scene| {
        let gate = scene
            .models
            .add_gated("slow", [bash("echo one"), text("Done.")]);
        let id = scene
            .schedule(json!({"task": "Wait.", "model": "slow"}))
            .await;
        let mut early = scene.follow(&id).await;
        gate.open(1);
        early.until("tool_ended").await;
        gate.asked(2).await;
        let mut late = scene.follow(&id).await;
        let job = late.next().await.unwrap();
        assert_eq!(
            (job.event.as_str(), &job.data["status"]),
            ("job", &json!("running"))
        );
        late.until("tool_ended").await;
        gate.open(1);
        let (early, late) = (early.all().await, late.all().await);
        let replied = |received: &[testkit::StreamedEvent]| {
            received.iter().any(|sent| sent.kind() == "replied")
        };
        assert!(replied(&early) && replied(&late));
        assert_eq!(early.last(), late.last());
    });
}

#[test]
fn many_readers_receive_the_same_events() {
    run_test(async |scene| {
        let gate = scene
            .models
            .add_gated("slow", [text("One two three four five six.")]);
        let id = scene
            .schedule(json!({"task": "Talk.", "model": "slow"}))
            .await;
        gate.asked(1).await;
        let mut readers = Vec::new();
        for _ in 0..50 {
            readers.push(scene.follow(&id).await);
        }
        let metrics = scene
            .get("/metrics")
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert!(metrics.contains("hotcell_event_readers 50"), "{metrics}");
        gate.open(1);
        let mut lasting = Vec::new();
        for reader in readers {
            let received = reader.all().await;
            let received: Vec<_> = received
                .into_iter()
                .filter(|sent| sent.id.is_some())
                .collect();
            lasting.push(received);
        }
        assert!(lasting[0].len() > 3);
        assert!(lasting.iter().all(|received| *received == lasting[0]));
    });
}

#[test]
fn event_streams_end_with_the_server() {
    run_test(async |scene| {
        let gate = scene.models.add_gated("slow", [text("never")]);
        let id = scene
            .schedule(json!({"task": "Wait.", "model": "slow"}))
            .await;
        gate.asked(1).await;
        let mut reader = scene.follow(&id).await;
        reader.until("turn_started").await;
        scene.end().await;
        let rest = reader.all().await;
        assert!(rest.iter().all(|sent| sent.event != "end"), "{rest:?}");
    });
}
