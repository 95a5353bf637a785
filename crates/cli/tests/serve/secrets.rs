//! Keys and secrets stay in the server.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::access::key;
use crate::model::{bash, serve_steps};
use crate::play::play;
use crate::server::Site;
use crate::webhooks::WebhookReceiver;

/// The provider's key.
const PROVIDER_KEY: &str = "sk-ant-0123456789-verysecret";
/// The secret of a webhook.
const WEBHOOK_SECRET: &str = "webhook-9876543210-verysecret";

#[test]
fn secrets_are_in_no_log_no_event_no_artifact_and_no_sandbox() {
    play(async {
        // Everything that a program inside can read.
        let model = serve_steps([bash(
            "env > found; cat /proc/*/environ /proc/*/cmdline >> found 2>&1; \
             grep -rs verysecret /etc /tmp /run /workspace /home >> found; cat found",
        )]);
        let site = Site::new(&model)
            .variable("ANTHROPIC_API_KEY", PROVIDER_KEY)
            .variable("HOTCELL_LOG", "trace")
            .flags(["--require-keys", "--private-webhooks"]);
        let token = key(&site, "ada", "admin").await;
        let server = site.start().await;
        let client = server.client().with_key(&token);
        let ear = WebhookReceiver::open().await;
        let webhook = json!({"url": ear.url(), "secret": WEBHOOK_SECRET});
        let request = json!({"task": "Look around", "webhook": webhook});
        let id = client.schedule(request).await;
        let events = client.follow(&id, 0).await.all().await;
        let job = client.complete(&id).await;

        let mut places = vec![
            ("the job".to_owned(), job.to_string().into_bytes()),
            ("events".to_owned(), format!("{events:?}").into_bytes()),
        ];
        for path in [
            "logs",
            "logs?name=audit",
            "artifacts",
            "files/raw?path=found",
        ] {
            let answer = client.get(&format!("/v1/jobs/{id}/{path}")).send().await;
            let bytes = answer.unwrap().bytes().await.unwrap();
            assert!(!bytes.is_empty(), "{path}");
            places.push((path.to_owned(), bytes.to_vec()));
        }
        server.end().await;
        places.push(("standard error".to_owned(), site.stderr().into_bytes()));
        for file in files(&site.data()) {
            places.push((file.display().to_string(), std::fs::read(&file).unwrap()));
        }
        for (place, content) in &places {
            // The server signs with it, so it must store it.
            let has_webhook = place.contains("/jobs.db");
            for (secret, may) in [
                (PROVIDER_KEY, false),
                (token.as_str(), false),
                (WEBHOOK_SECRET, has_webhook),
            ] {
                assert!(may || !has(content, secret), "`{secret}` is in {place}");
            }
        }
        // The search itself works: the stored secret is found.
        let kept = |(place, content): &(String, Vec<u8>)| {
            place.contains("/jobs.db") && has(content, WEBHOOK_SECRET)
        };
        assert!(places.iter().any(kept));
        assert!(site.stderr().contains("TRACE"), "the log was on");
    });
}

fn has(content: &[u8], secret: &str) -> bool {
    content
        .windows(secret.len())
        .any(|window| window == secret.as_bytes())
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}
