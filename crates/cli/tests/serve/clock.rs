//! A wall clock that jumps: jobs neither end early nor run longer.

use std::process::Command;

use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};

use crate::client::Client;
use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;

/// The library that fakes the clock, as `faketime` preloads it.
fn faketime_library() -> String {
    let output = Command::new("faketime")
        .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_jump_of_a_day_neither_ends_jobs_nor_lets_them_go_on() {
    for jump in ["+1d", "-1d"] {
        play(async move {
            let gate = StreamGate::new();
            let held = gate.clone();
            let model = serve(move |request| {
                let heard = RequestView::of(request);
                match (heard.task(), heard.results) {
                    ("Wait", 0) => {
                        ScriptedAnswer::reply(bash("date +%s > date.txt")).hold(0, &held)
                    }
                    ("Sleep", 0) => {
                        ScriptedAnswer::reply(bash("echo asleep > asleep.txt; sleep 1000"))
                    }
                    _ => ScriptedAnswer::reply(say("Done.")),
                }
            });
            let site = Site::new(&model);
            let clock = site.here("clock");
            std::fs::write(&clock, "+0\n").unwrap();
            let site = site
                .flags(["--job-timeout", "100s", "--stuck-after", "90s"])
                .variable("LD_PRELOAD", faketime_library())
                .variable("FAKETIME_TIMESTAMP_FILE", clock.as_os_str())
                .variable("FAKETIME_NO_CACHE", "1")
                .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            let server = site.start().await;
            let client = server.client();
            let before = client.schedule_task("Wait").await;
            gate.reached().await;
            let sleeper = json!({ "task": "Sleep", "timeout": 4 });
            let sleeper = client.schedule(sleeper).await;
            let mut told = client.follow(&sleeper, 0).await;
            told.until("tool_started").await;

            std::fs::write(&clock, format!("{jump}\n")).unwrap();
            let after = client.schedule_task("Do it").await;
            let after = client.complete(&after).await;
            gate.open();
            let before = client.complete(&before).await;
            // It did jump, by almost a day.
            let created = |job: &serde_json::Value| {
                let text = job["created"].as_str().unwrap();
                text.parse::<jiff::Timestamp>().unwrap().as_second()
            };
            let jumped = created(&after) - created(&before);
            let day = if jump == "+1d" { 86_400 } else { -86_400 };
            assert!((jumped - day).abs() < 600, "{jumped}");
            let message = client.failed(&sleeper, "deadline").await;
            assert!(message.contains("4 seconds"), "{message}");
            assert_eq!(client.files(&sleeper).await["asleep.txt"], "asleep\n");
            let ran = client.job(&sleeper).await["ran_seconds"].as_f64().unwrap();
            assert!((4.0..60.0).contains(&ran), "{ran}");
            // All of them exist, also for the next server.
            assert!(server.end().await.success());
            let server = site.start().await;
            assert_eq!(server.client().jobs("").await.len(), 3);
        });
    }
}

/// For a server that was stopped and continued, all clocks seem to jump.
#[test]
fn a_server_that_was_stopped_does_not_take_its_jobs_for_stuck() {
    play(async move {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| match RequestView::of(request).task() {
            "Wait" => ScriptedAnswer::reply(say("Done.")).hold(0, &held),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model);
        let clock = site.here("clock");
        std::fs::write(&clock, "+0\n").unwrap();
        let site = site
            .flags(["--job-timeout", "90s", "--stuck-after", "60s"])
            .variable("LD_PRELOAD", faketime_library())
            .variable("FAKETIME_TIMESTAMP_FILE", clock.as_os_str())
            .variable("FAKETIME_NO_CACHE", "1");
        let server = site.start().await;
        let client = server.client();
        let before = client.schedule_task("Wait").await;
        gate.reached().await;
        std::fs::write(&clock, "+100s\n").unwrap();
        // The server closes connections that seem to have been idle that long.
        let client = Client::new(client.address());
        // A whole job runs, so that every timer of the first one was checked.
        let other = client.schedule_task("Do it").await;
        client.complete(&other).await;
        assert_eq!(client.job(&before).await["status"], "running");
        gate.open();
        let job = client.complete(&before).await;
        assert!(job["ran_seconds"].as_f64().unwrap() < 60.0, "{job}");
        assert!(server.end().await.success());
    });
}
