//! A backup of a running server, and another server that continues from it.

use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};

use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;

#[test]
fn a_backup_of_a_running_server_is_restored_into_another() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| {
            let heard = RequestView::of(request);
            match (heard.task(), heard.results) {
                (_, 0) => ScriptedAnswer::reply(bash("echo hello > hello.txt")),
                ("Wait", _) => ScriptedAnswer::reply(say("Waited.")).hold(0, &held),
                _ => ScriptedAnswer::reply(say("Done.")),
            }
        });
        let site = Site::new(&model).flags(["--concurrency", "1"]);
        let server = site.start().await;
        let client = server.client();
        let key = json!({"user": "ada", "role": "admin", "label": "laptop"});
        let key = client.post("/v1/keys").json(&key).send().await.unwrap();
        let key: serde_json::Value = key.json().await.unwrap();
        let token = key["token"].as_str().unwrap().to_owned();
        let done = client.schedule_task("Do it").await;
        let done = client.complete(&done).await;
        let done_id = done["id"].as_str().unwrap();
        let running = client.schedule_task("Wait").await;
        gate.reached().await;
        let queued = client.schedule_task("Later").await;

        let other = Site::new(&model).flags(["--require-keys"]);
        let target = other.data();
        let target = target.to_str().unwrap();
        let copied = site.hotcell(["backup", target]).output().await.unwrap();
        assert!(copied.status.success(), "{copied:?}");
        let said = String::from_utf8(copied.stdout).unwrap();
        assert!(said.starts_with("3 jobs, "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        // Later changes are not in it.
        let late = client.schedule_task("Later").await;
        let mut verify = site.hotcell(["audit", "verify"]);
        verify.arg(other.data().join("server-audit.jsonl"));
        let verified = verify.output().await.unwrap();
        assert!(verified.status.success(), "{verified:?}");

        gate.open();
        let restored = other.start().await;
        let client = restored.client().with_key(&token);
        assert_eq!(client.jobs("").await.len(), 3);
        let job = client.job(done_id).await;
        for field in [
            "artifact", "answer", "task", "created", "session", "spending",
        ] {
            assert_eq!(job[field], done[field], "{field}");
        }
        assert_eq!(client.files(done_id).await["hello.txt"], "hello\n");
        let told = client.follow(done_id, 0).await.all().await;
        assert!(told.iter().any(|sent| sent.kind() == "turn_ended"));
        // The others are resumed.
        let running = client.complete(&running).await;
        assert_eq!(running["answer"], "Waited.");
        assert_eq!(running["crashes"], 1);
        client.complete(&queued).await;
        let gone = client.get(&format!("/status/{late}")).send().await.unwrap();
        assert_eq!(gone.status(), 404);
        assert!(restored.end().await.success());
        // After a clean end, everything is in the databases themselves.
        for name in ["jobs.db-wal", "sessions.db-wal", "checkpoints.db-wal"] {
            let log = std::fs::metadata(other.data().join(name));
            assert_eq!(log.map_or(0, |log| log.len()), 0, "{name}");
        }
        assert!(server.end().await.success());
    });
}
